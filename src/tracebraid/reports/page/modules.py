"""The page's scripts: modules of their own in `js/`, handed to the browser by an import map."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["import_map", "stripped", "style"]

_HERE = Path(__file__).parent
_PREFIX = "tracebraid/"
_UNREAD = re.compile(r"^[ \t]*(?:/\*\*(?:(?!\*/)(?:.|\n))*\*/|//.*)[ \t]*\n|^[ \t]+|^\n", re.MULTILINE)
"""What a browser does not need of a module."""
_RESERVED = re.compile(r"[%#\t\r\n]|[^\x00-\x7f]+")
"""What an address cannot hold as it is."""
_FIRST, _LAST = ("colours.css", "page.css"), ("print.css",)
"""Style sheets that apply before and after the others of `css/`, which apply in the order of their names."""


def import_map() -> dict[str, dict[str, str]]:
    """An import map with each module of `js/` as a `data:` address, under `tracebraid/<path>`."""
    root = _HERE / "js"
    modules = sorted(root.rglob("*.js"))
    names = {_PREFIX + path.relative_to(root).as_posix(): path for path in modules}
    return {
        "imports": {name: _address(name, path.read_text(encoding="utf-8")) for name, path in names.items()}
    }


def _address(name: str, source: str) -> str:
    """The module as an address; errors in it name the module, not the address."""
    named = f"{stripped(source)}//# sourceURL={name}\n"
    return f"data:text/javascript;charset=utf-8,{_RESERVED.sub(_percent, named)}"


def stripped(source: str) -> str:
    """A module without its comments and indentation, which are a third of it.

    Only whole lines of comments are known: no text of our modules spans lines.
    """
    return _UNREAD.sub("", source)


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())


def style() -> str:
    """All style sheets."""
    names = sorted((path.name for path in (_HERE / "css").glob("*.css")), key=_rank)
    return "\n".join((_HERE / "css" / name).read_text(encoding="utf-8") for name in names)


def _rank(name: str) -> tuple[int, str]:
    first = _FIRST.index(name) if name in _FIRST else len(_FIRST)
    return (first + (name in _LAST), name)
