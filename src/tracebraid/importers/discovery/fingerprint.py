"""Which content a file has: to tell later whether it is still the same."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from tracebraid.filesystem.reading import reading
from tracebraid.model.source_file import SourceFile

__all__ = ["fingerprint", "is_unchanged"]

_BLOCK_BYTES = 1 << 20


def fingerprint(path: str) -> SourceFile:
    """Size, time of change and hash of a file.

    Raises:
        InputError: it cannot be read.
    """
    digest = hashlib.sha256()
    with reading(path), Path(path).open("rb") as file:
        status = os.fstat(file.fileno())
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return SourceFile(path, status.st_size, status.st_mtime_ns, digest.hexdigest())


def is_unchanged(known: SourceFile) -> bool:
    """Whether a file is still what it was; its content is read only where its time of change says nothing.

    A file that is not there any more, or was never read, counts as changed.
    """
    try:
        status = Path(known.path).stat()
    except OSError:
        return False
    if status.st_size != known.size_bytes:
        return False
    if status.st_mtime_ns == known.mtime_ns:
        return True
    return fingerprint(known.path).sha256 == known.sha256
