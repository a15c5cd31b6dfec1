"""Which content a file has: to tell later whether it is still the same."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from tracebraid.errors import InputError
from tracebraid.filesystem.choose import archive_of, file_system_of
from tracebraid.filesystem.paths import is_url
from tracebraid.model.source_file import SourceFile

__all__ = ["State", "fingerprint", "is_unchanged", "state_of", "unless_changed"]

_BLOCK_BYTES = 1 << 20


def fingerprint(path: str) -> SourceFile:
    """Size, time of change and hash of a file; of one behind a URL its size and what the server calls its state.

    The time of a member of an archive is that of the archive.

    Raises:
        InputError: it cannot be read.
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
    """Whether a file is still what it was; its content is read only where its time of change says nothing.

    A file that is not there any more, or was never read, counts as changed.

    Args:
        known: what it was.
        path: its path, which may know the archive that it lies in.
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
    """Whether a file itself lies behind a URL; a member of an archive there is read to know its content."""
    return is_url(path) and archive_of(path) is None


@dataclass(frozen=True)
class State:
    """What tells on disk that a file was changed or replaced meanwhile: before it is read, and after.

    Args:
        mtime_ns: when it was changed last.
        inode: which file has its name.
    """

    mtime_ns: int | None
    inode: int | None


def state_of(path: str) -> State:
    """The state of a file; of a member of an archive that of the archive, of a file behind a URL none."""
    archive = archive_of(path)
    try:
        status = Path(path if archive is None else archive.path).stat()
    except OSError:
        return State(None, None)
    return State(status.st_mtime_ns, status.st_ino)


def unless_changed(known: SourceFile, path: str, before: State) -> SourceFile:
    """A fingerprint, if the file was not changed since before it was read; else its path alone.

    A path alone counts as changed later.

    Args:
        known: the fingerprint.
        path: of the file; it may know the archive that it lies in.
        before: its state before anything of it was read.
    """
    return known if state_of(path) == before else SourceFile(known.path)


def _mtime_ns(path: str) -> int | None:
    """When a file was changed last; None where it is none of the disk."""
    return state_of(path).mtime_ns


def _named_by_server(url: str) -> SourceFile:
    file = file_system_of(url).open(url)
    return SourceFile(file.path, file.size_bytes, version=file.version or None)
