"""Whatever fsspec reads: an implementation of it serves each scheme, some of which are packages of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from tracebraid.errors import InputError, MissingLibraryError
from tracebraid.extras import Extra, missing_extra
from tracebraid.filesystem.interface import Entry, Kind
from tracebraid.filesystem.paths import scheme_of, shown
from tracebraid.filesystem.remote.backend import Answer, Fault, FaultKind, Stat

_LOCAL = frozenset(
    {
        *("file", "local", "dir", "git", "data", "generic"),
        *("blockcache", "cached", "filecache", "simplecache"),
        *("zip", "tar", "libarchive", "reference", "asynclocal", "asyncwrapper"),
    }
)
"""Schemes by which fsspec reads or writes files of this machine, or that wrap others; a path or a URL does without."""
_VERSIONS = (
    "ETag",
    "etag",
    "e_tag",
    "md5Hash",
    "LastModified",
    "last_modified",
    "mtime",
    "modified",
    "created",
)
"""Members with which implementations identify file versions."""


class FsspecFiles(Struct, frozen=True):
    """Asks an implementation of fsspec, see `Backend`."""

    files: Any
    has_folders: bool = True

    def stat(self, url: str) -> Stat:
        """See `Backend`."""
        with _faults():
            found = self.files.info(self._path(url))
        if found.get("type") == "directory":
            raise Fault(FaultKind.ABSENT)
        if not isinstance(found.get("size"), int):
            raise Fault(FaultKind.NO_SIZE)
        version = next((str(found[name]) for name in _VERSIONS if found.get(name)), "")
        return Stat(found["size"], version)

    def fetch(self, url: str, start: int, stop: int) -> Answer:
        """See `Backend`."""
        stat = self.stat(url)
        if start >= stat.size_bytes:
            return Answer(stat, _once(b""))
        with _faults():
            return Answer(stat, _once(bytes(self.files.cat_file(self._path(url), start=start, end=stop))))

    def is_folder(self, url: str) -> bool:
        """See `Backend`."""
        with _faults():
            return bool(self.files.isdir(self._path(url)))

    def entries(self, url: str) -> list[Entry]:
        """See `Backend`."""
        with _faults():
            self.files.invalidate_cache()
            listed = self.files.ls(self._path(url), detail=True)
        kinds = {"file": Kind.FILE, "directory": Kind.FOLDER}
        found = [
            Entry(str(entry["name"]).rstrip("/").rpartition("/")[2], kinds.get(entry["type"], Kind.OTHER))
            for entry in listed
        ]
        return [entry for entry in found if entry.name]

    def _path(self, url: str) -> str:
        return str(self.files._strip_protocol(url))


def fsspec_files(url: str) -> FsspecFiles:
    """The implementation that serves a URL."""
    scheme = scheme_of(url)
    if scheme in _LOCAL or "::" in url:
        raise InputError(shown(url), "URLs of this form are not supported", "Name the path or the URL itself")
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise missing_extra(Extra.REMOTE) from error
    try:
        files, _ = url_to_fs(url)
    except ImportError as error:
        raise MissingLibraryError(f"{scheme}:// needs a package that is not installed: {error}") from error
    except ValueError:
        advice = "Name a path, or a URL such as s3://, gs://, az:// or https://"
        raise InputError(shown(url), f"no installed package reads {scheme}://", advice) from None
    except Exception as error:  # noqa: BLE001 - as in `_faults`
        advice = f"Check what the library that reads {scheme}:// needs"
        raise InputError(shown(url), f"it cannot be read ({type(error).__name__})", advice) from None
    return FsspecFiles(files)


def _once(data: bytes) -> Iterator[bytes]:
    yield data


@contextmanager
def _faults() -> Iterator[None]:
    """Convert any exception of an implementation's library to a fault."""
    try:
        yield
    except FileNotFoundError:
        raise Fault(FaultKind.ABSENT) from None
    except PermissionError:
        raise Fault(FaultKind.REFUSED) from None
    except TimeoutError:
        raise Fault(FaultKind.SLOW) from None
    except Exception as error:  # noqa: BLE001 - see above
        kind = FaultKind.UNREACHABLE if isinstance(error, OSError) else FaultKind.OTHER
        raise Fault(kind, type(error).__name__) from None
