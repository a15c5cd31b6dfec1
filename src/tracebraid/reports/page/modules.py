"""The page's scripts: modules of their own in `js/`, compressed together; `start.js` hands them to the browser."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import msgspec
from isal import igzip

__all__ = ["modules", "packed_modules", "start", "stripped", "style"]

_HERE = Path(__file__).parent
_PREFIX = "tracebraid/"
_UNREAD = re.compile(r"^[ \t]*(?:/\*\*(?:(?!\*/)(?:.|\n))*\*/|//.*)[ \t]*\n|^[ \t]+|^\n", re.MULTILINE)
"""What a browser does not need of a module."""
_LEVEL = 3
"""igzip's smallest."""
_FIRST, _LAST = ("colours.css", "page.css"), ("print.css",)
"""Style sheets that apply before and after the others of `css/`, which apply in the order of their names."""


def modules() -> dict[str, str]:
    """Each module of `js/` by the name under which others import it: `tracebraid/<path>`; errors name it, too."""
    root = _HERE / "js"
    names = {_PREFIX + path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*.js"))}
    return {
        name: f"{stripped(path.read_text(encoding='utf-8'))}//# sourceURL={name}\n"
        for name, path in names.items()
    }


def packed_modules() -> str:
    """The modules as base64 of gzip of JSON, which `start.js` reads."""
    packed = igzip.compress(msgspec.json.encode(modules()), _LEVEL, mtime=0)
    return base64.b64encode(packed).decode("ascii")


def start() -> str:
    """The script that unpacks the modules."""
    return stripped((_HERE / "start.js").read_text(encoding="utf-8"))


def stripped(source: str) -> str:
    """A module without its comments and indentation, which are a third of it.

    Only whole lines of comments are known: no text of our modules spans lines.
    """
    return _UNREAD.sub("", source)


def style() -> str:
    """All style sheets."""
    names = sorted((path.name for path in (_HERE / "css").glob("*.css")), key=_rank)
    return "\n".join((_HERE / "css" / name).read_text(encoding="utf-8") for name in names)


def _rank(name: str) -> tuple[int, str]:
    first = _FIRST.index(name) if name in _FIRST else len(_FIRST)
    return (first + (name in _LAST), name)
