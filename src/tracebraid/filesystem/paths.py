"""Paths as strings: those of the disk, and URLs, which `pathlib` would change."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tracebraid.model.printable import encodable

__all__ = [
    "KnownPath",
    "is_url",
    "joined",
    "name_of",
    "parent_of",
    "resolved_name",
    "scheme_of",
    "shown",
    "text_of",
    "within",
]

if TYPE_CHECKING:
    from tracebraid.filesystem.interface import FileSystem

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_WEB = ("http", "https")
_WITHOUT_QUERY = ("s3", "s3a", "gs", "gcs", "memory")
"""Schemes in whose keys `?` and `#` are letters like others."""
_USER = re.compile(r"(?<=://)[^/@]*:[^/@]*@")
_ANY_USER = re.compile(r"(?<=://)[^/@]*@")


class KnownPath(str):
    """A path with the file system that it belongs to, so that an archive's index is read once for all its members.

    `text_of`, `joined` and `parent_of` keep it; `str` gives the text alone.
    """

    files: FileSystem

    @classmethod
    def of(cls, text: str, files: FileSystem) -> KnownPath:
        """A path of a file system."""
        path = cls(text)
        path.files = files
        return path


def is_url(path: str | Path) -> bool:
    """Whether a path is a URL, such as `s3://bucket/traces`."""
    return isinstance(path, str) and _URL.match(path) is not None


def scheme_of(url: str) -> str:
    """The scheme of a URL in small letters; "" of a path on disk."""
    found = _URL.match(url)
    return found[1].lower() if found else ""


def name_of(path: str) -> str:
    """The last part of a path; of a URL without its query."""
    if not is_url(path):
        return Path(path).name
    name = _body(path).rstrip("/").rpartition("/")[2]
    return unquote(name) if scheme_of(path) in _WEB else name


def parent_of(path: str) -> str:
    """The folder that a path lies in; of a URL without its query."""
    if not is_url(path):
        return _kept(path, str(Path(path).parent))
    body = _body(path).rstrip("/")
    above = body.rpartition("/")[0]
    return body if above.endswith("/") or not is_url(above + "/") else above


def joined(folder: str, *names: str) -> str:
    """The path of something in a folder."""
    if not is_url(folder):
        return _kept(folder, str(Path(folder, *names)))
    return _kept(folder, "/".join([folder.rstrip("/"), *names]))


def text_of(path: str | Path) -> str:
    """A path as a string, which keeps its file system where it has one."""
    return path if isinstance(path, str) else str(path)


def _kept(path: str, other: str) -> str:
    """Another path of the same file system."""
    return KnownPath.of(other, path.files) if isinstance(path, KnownPath) else other


def resolved_name(path: str) -> str:
    """The name of a folder or file for people, also where the path is relative, such as `.`."""
    return encodable(name_of(path) if is_url(path) else Path(path).resolve().name)


def within(folder: str, path: str) -> str:
    """A path from a folder on, with `/`; its name where it lies elsewhere."""
    if is_url(folder) or is_url(path):
        below = folder.rstrip("/") + "/"
        return path[len(below) :] if path.startswith(below) else name_of(path)
    root, file = Path(folder).resolve(), Path(path).resolve()
    return file.relative_to(root).as_posix() if root in file.parents else file.name


def shown(path: str | Path) -> str:
    """A path as messages and answers name it: without the user and the query of a URL, which may be secret."""
    if not is_url(path):
        return str(path)
    url = str(path)
    body, user = _public(url), _ANY_USER if scheme_of(url) in _WEB else _USER
    return user.sub("***@", body, count=1) + ("?..." if len(body) < len(url) else "")


def _body(url: str) -> str:
    """A URL without query and fragment."""
    return url if scheme_of(url) in _WITHOUT_QUERY else re.split(r"[?#]", url, maxsplit=1)[0]


def _public(url: str) -> str:
    """A URL up to where a signature may begin, also where a query is no part of its scheme."""
    return re.split(r"\?(?=[^/]*=)", _body(url), maxsplit=1)[0]
