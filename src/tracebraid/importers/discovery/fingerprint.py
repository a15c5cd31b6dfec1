"""Which content a file has: to tell later whether it is still the same."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from tracebraid.errors import InputError
from tracebraid.filesystem.choose import file_system_of
from tracebraid.filesystem.paths import is_url
from tracebraid.filesystem.reading import reading
from tracebraid.model.source_file import SourceFile

__all__ = ["fingerprint", "is_unchanged"]

_BLOCK_BYTES = 1 << 20


def fingerprint(path: str) -> SourceFile:
    """Size, time of change and hash of a file; of one behind a URL its size and what the server calls its state.

    Raises:
        InputError: it cannot be read.
    """
    if is_url(path):
        return _named_by_server(path)
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
    if is_url(known.path):
        try:
            return known.version is not None and _named_by_server(known.path) == known
        except InputError:
            return False
    try:
        status = Path(known.path).stat()
    except OSError:
        return False
    if status.st_size != known.size_bytes:
        return False
    if status.st_mtime_ns == known.mtime_ns:
        return True
    return fingerprint(known.path).sha256 == known.sha256


def _named_by_server(url: str) -> SourceFile:
    file = file_system_of(url).open(url)
    return SourceFile(file.path, file.size_bytes, version=file.version or None)
