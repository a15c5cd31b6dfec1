"""An open file as Python's own file object, for libraries that read one."""

from __future__ import annotations

import io
from typing import BinaryIO, cast

from tracebraid.filesystem.interface import OpenFile

__all__ = ["file_object"]

_BUFFER_BYTES = 1 << 20
"""So much is read at once where less is asked for; each read of a remote file costs a request."""


def file_object(file: OpenFile) -> BinaryIO:
    """A file object that reads ranges of an open file, and can seek."""
    return cast("BinaryIO", io.BufferedReader(_Raw(file), _BUFFER_BYTES))


class _Raw(io.RawIOBase):
    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.size_bytes}[whence]
        if base + offset < 0:
            raise ValueError(f"{base + offset} lies before the start of the file")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._file.read(self._position, self._position + len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
