"""Fingerprints of source files, by which caches and stores see that a file has changed."""

from __future__ import annotations

import hashlib
from pathlib import Path

from msgspec import Struct

from tracebraid.errors import InputError
from tracebraid.filesystem.choose import archive_of, file_system_of
from tracebraid.filesystem.paths import is_url
from tracebraid.model.rank_files import SourceFile

_BLOCK_BYTES = 1 << 20


def fingerprint(path: str) -> SourceFile:
    """Size, modification time and hash of a file; for a URL, size and the server's version.

    The time of an archive member is that of the archive.
    """
    if _is_of_server(path):
        return _named_by_server(path)
    mtime_ns = _mtime_ns(path)
    file = file_system_of(path).open(path)
    digest = hashlib.sha256()
    for block in file.blocks(_BLOCK_BYTES):
        digest.update(block)
    return SourceFile(str(path), file.size_bytes, mtime_ns, digest.hexdigest())


def is_unchanged(known: SourceFile, path: str) -> bool:
    """Return whether a file is unchanged; its content is read only if its modification time is inconclusive.

    A file that is not there any more, or was never read, counts as changed.
    """
    try:
        if _is_of_server(path):
            return known.version is not None and _named_by_server(path) == known
        mtime_ns = _mtime_ns(path)
        if known.sha256 is None or file_system_of(path).size_bytes(path) != known.size_bytes:
            return False
        return mtime_ns == known.mtime_ns is not None or fingerprint(path).sha256 == known.sha256
    except InputError:
        return False


def _is_of_server(path: str) -> bool:
    """Return whether a file itself is behind a URL; a member of a remote archive is read for its hash."""
    return is_url(path) and archive_of(path) is None


class State(Struct, frozen=True):
    """File state on disk before and after reading, which reveals changes or replacement.

    Args:
        mtime_ns: when it was changed last.
        inode: which file has its name.
    """

    mtime_ns: int | None
    inode: int | None


def state_of(path: str) -> State:
    """Return the state of a file; for an archive member that of the archive, for a URL none."""
    archive = archive_of(path)
    try:
        status = Path(path if archive is None else archive.path).stat()
    except OSError:
        return State(None, None)
    return State(status.st_mtime_ns, status.st_ino)


def unless_changed(known: SourceFile, path: str, before: State) -> SourceFile:
    """Return a fingerprint if the file did not change while it was read; else only its path.

    A path without fingerprint counts as changed later.
    """
    return known if state_of(path) == before else SourceFile(known.path)


def _mtime_ns(path: str) -> int | None:
    """Return the modification time of a file; None if it is not on disk."""
    return state_of(path).mtime_ns


def _named_by_server(url: str) -> SourceFile:
    file = file_system_of(url).open(url)
    return SourceFile(file.path, file.size_bytes, version=file.version or None)
