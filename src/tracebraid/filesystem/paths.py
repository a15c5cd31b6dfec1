"""Paths as strings: those of the disk, and URLs, which `pathlib` would change."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from tracebraid.errors import InputError
from tracebraid.model.printable import encodable

if TYPE_CHECKING:
    from tracebraid.filesystem.interface import FileSystem

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_WEB = ("http", "https")
_WITHOUT_QUERY = ("s3", "s3a", "gs", "gcs", "memory")
"""Schemes in whose keys `?` and `#` are letters like others."""
_USER = re.compile(r"(?<=://)[^/@]*:[^/@]*@")
_ANY_USER = re.compile(r"(?<=://)[^/@]*@")


class ResolvedPath(str):
    """A path with the file system that it belongs to, so that an archive's index is read once for all its members.

    `text_of`, `joined` and `parent_of` keep it; `str` gives the text alone.
    """

    files: FileSystem

    @classmethod
    def of(cls, text: str, files: FileSystem) -> ResolvedPath:
        """A path of a file system."""
        path = cls(text)
        path.files = files
        return path


def is_url(path: str | Path) -> bool:
    """Return whether a path is a URL, such as `s3://bucket/traces`."""
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
    """Convert a path to a string that keeps its file system."""
    return path if isinstance(path, str) else str(path)


def _kept(path: str, other: str) -> str:
    """Another path of the same file system."""
    return ResolvedPath.of(other, path.files) if isinstance(path, ResolvedPath) else other


def resolved_name(path: str) -> str:
    """Return the name of a folder or file for people, even for relative paths such as `.`."""
    return encodable(name_of(path) if is_url(path) else Path(path).resolve().name)


def within(folder: str, path: str) -> str:
    """A path from a folder on, with `/`; its name where it lies elsewhere."""
    if is_url(folder) or is_url(path):
        below = folder.rstrip("/") + "/"
        return path[len(below) :] if path.startswith(below) else name_of(path)
    root, file = Path(folder).resolve(), Path(path).resolve()
    return file.relative_to(root).as_posix() if root in file.parents else file.name


def shown(path: str | Path) -> str:
    """Return a path for messages and answers: without user and query of a URL, which may be secret."""
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


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Convert an OSError of the block into an `InputError` that names the file or folder."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(str(path), "there is no such file", "Check the path") from None
    except OSError as error:
        problem = f"it cannot be read ({error.strerror or error})"
        raise InputError(str(path), problem, "Check the file and its rights") from None


def is_loopback(url: str) -> bool:
    """Return whether the host of a URL is this machine, by its address or as `localhost`."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
