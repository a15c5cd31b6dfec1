"""Which content a file has: to tell later whether it is still the same."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tracebraid.errors import InputError
from tracebraid.filesystem.choose import file_system_of
from tracebraid.filesystem.paths import is_url
from tracebraid.model.source_file import SourceFile

__all__ = ["fingerprint", "is_unchanged"]

_BLOCK_BYTES = 1 << 20


def fingerprint(path: str) -> SourceFile:
    """Size, time of change and hash of a file.

    Raises:
        InputError: it cannot be read.
    """
    mtime_ns = _mtime_ns(path)
    file = file_system_of(path).open(path)
    digest = hashlib.sha256()
    for block in file.blocks(_BLOCK_BYTES):
        digest.update(block)
    return SourceFile(path, file.size_bytes, mtime_ns, digest.hexdigest())


def is_unchanged(known: SourceFile) -> bool:
    """Whether a file is still what it was; its content is read only where its time of change says nothing.

    A file that is not there any more, or was never read, counts as changed.
    """
    if known.sha256 is None:
        return False
    mtime_ns = _mtime_ns(known.path)
    try:
        if file_system_of(known.path).open(known.path).size_bytes != known.size_bytes:
            return False
        return mtime_ns == known.mtime_ns is not None or fingerprint(known.path).sha256 == known.sha256
    except InputError:
        return False


def _mtime_ns(path: str) -> int | None:
    """When a file was changed last; None for a URL, and where there is none."""
    try:
        return None if is_url(path) else Path(path).stat().st_mtime_ns
    except OSError:
        return None
