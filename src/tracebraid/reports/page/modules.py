"""The page's scripts and styles, and the policy by which a browser runs these and no others.

The scripts are modules in `js/`, compressed together; `start.js` hands them to the browser.
"""

from __future__ import annotations

import base64
import hashlib
import re
import string
from pathlib import Path
from urllib.parse import quote

import msgspec
from isal import igzip

_HERE = Path(__file__).parent
_PREFIX = "tracebraid/"
_UNREAD = re.compile(r"^[ \t]*(?:/\*\*(?:(?!\*/)(?:.|\n))*\*/|//.*)[ \t]*\n|^[ \t]+|^\n", re.MULTILINE)
"""Parts of a module that a browser does not need."""
_ADDRESS = "data:text/javascript;charset=utf-8,"
_PLAIN = string.ascii_letters + string.digits + "".join(set(string.punctuation) - {"%", "#"}) + " "
"""Characters of a module that its data URL need not escape."""
_LEVEL = 3
"""igzip's strongest compression level."""
_FIRST, _LAST = ("colours.css", "page.css"), ("print.css",)
"""Style sheets that apply first and last; the others of `css/` apply in alphabetical order."""


def modules() -> dict[str, str]:
    """Return the modules of `js/` by import name: `tracebraid/<path>`, which errors show too."""
    root = _HERE / "js"
    names = {_PREFIX + path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*.js"))}
    return {
        name: f"{stripped(path.read_text(encoding='utf-8'))}//# sourceURL={name}\n"
        for name, path in names.items()
    }


def import_map() -> str:
    """Build the browser's import map: a data URL with the whole module for each name."""
    addresses = {name: _ADDRESS + quote(source, safe=_PLAIN) for name, source in modules().items()}
    return msgspec.json.encode({"imports": addresses}).decode()


def packed_modules() -> str:
    """Encode the import map as base64 of gzip for `start.js`."""
    packed = igzip.compress(import_map().encode(), _LEVEL, mtime=0)
    return base64.b64encode(packed).decode("ascii")


def start() -> str:
    """Return the script that contains and unpacks the modules."""
    return stripped((_HERE / "start.js").read_text(encoding="utf-8")).replace("MODULES", packed_modules())


def stripped(source: str) -> str:
    """Strip comments and indentation of a module, which are a third of it.

    Only comments on lines of their own are recognised: no string of our modules spans lines.
    """
    return _UNREAD.sub("", source)


def style() -> str:
    """Return all style sheets."""
    names = sorted((path.name for path in (_HERE / "css").glob("*.css")), key=_rank)
    return "\n".join((_HERE / "css" / name).read_text(encoding="utf-8") for name in names)


def content_policy(served: bool) -> str:
    """Return the Content-Security-Policy of a page: its own scripts and styles by hash, nothing else.

    `strict-dynamic` lets `start.js` import modules by the import map, whose hash is listed too; it allows no script
    that
    the HTML itself contains.
    """
    scripts = " ".join(map(_hash, (start(), import_map())))
    rules = [
        "default-src 'none'",
        f"script-src 'strict-dynamic' {scripts}",
        f"style-src {_hash(style())}",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join([*rules, "connect-src 'self'"] if served else rules)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"


def _rank(name: str) -> tuple[int, str]:
    first = _FIRST.index(name) if name in _FIRST else len(_FIRST)
    return (first + (name in _LAST), name)
