"""Which content a file has: to tell later whether it is still the same."""

from __future__ import annotations

import hashlib
import os

from tracebraid.errors import InputError
from tracebraid.filesystem.choose import archive_of, file_system_of
from tracebraid.filesystem.interface import OpenFile
from tracebraid.filesystem.local import LocalFile
from tracebraid.model.source_file import SourceFile

__all__ = ["fingerprint", "is_unchanged"]

_BLOCK_BYTES = 1 << 20


def fingerprint(path: str) -> SourceFile:
    """Size, time of change and hash of a file; the time is that of its archive where it lies in one.

    Raises:
        InputError: it cannot be read.
    """
    file = file_system_of(path).open(path)
    digest = hashlib.sha256()
    mtime_ns = _mtime_ns(path, file)
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
        file = file_system_of(path).open(path)
        if file.size_bytes != known.size_bytes:
            return False
        mtime_ns = _mtime_ns(path, file)
        return (mtime_ns is not None and mtime_ns == known.mtime_ns) or (
            fingerprint(path).sha256 == known.sha256
        )
    except InputError:
        return False


def _mtime_ns(path: str, file: OpenFile) -> int | None:
    """When a file was changed last; None where that is unknown."""
    archive = archive_of(path)
    try:
        if isinstance(file, LocalFile):
            return os.fstat(file.descriptor).st_mtime_ns
        return None if archive is None else os.stat(archive.path).st_mtime_ns  # noqa: PTH116 - it may be a URL
    except OSError:
        return None
