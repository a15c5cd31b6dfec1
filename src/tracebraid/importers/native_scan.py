"""A scan of the native library (`native/scan.h`): chunks of a file in, arrays out.

A scan takes chunks as long as they hold what recorders write. It gives back a whole chunk with anything else, and the
Python reader, which is the twin and oracle of each scan, decodes that.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray


class NativeScan:
    """A run of chunks that the library reads into one set of columns.

    Args:
        library: as `native.library` loads it.
        scan: what a function of it gave; None where there was no memory.
    """

    def __init__(self, library: ctypes.CDLL, scan: int | None) -> None:
        if not scan:
            raise MemoryError
        self._library = library
        self._scan = ctypes.c_void_p(scan)
        weakref.finalize(self, library.tracebraid_scan_free, self._scan)
        self.chunks = 0

    def add(self, data: bytes) -> bool:
        """Read a chunk; False if it was given back. Then the run has ended."""
        is_read = bool(self._library.tracebraid_scan_add(self._scan, data, len(data)))
        self.chunks += is_read
        return is_read

    def array_text(self, what: int, of: int = 0) -> bytes:
        """JSON texts as a list."""
        return b"[" + self.take(what, np.uint8, of).tobytes()[:-1] + b"]"

    def texts(self, what: int, kind: Any, of: int = 0) -> list[Any]:
        """JSON texts, each decoded as a type."""
        texts: list[Any] = msgspec.json.decode(self.array_text(what, of), type=list[kind])
        return texts

    def take(self, what: int, dtype: Any, of: int = 0) -> NDArray[Any]:
        """An array of the scan, which owns its memory from now on; once only."""
        items = ctypes.c_void_p()
        size_bytes = self._library.tracebraid_scan_take(self._scan, what, of, ctypes.byref(items))
        if size_bytes < 0:
            raise MemoryError
        if not size_bytes or items.value is None:
            return np.empty(0, dtype=dtype)
        memory = (ctypes.c_char * size_bytes).from_address(items.value)
        weakref.finalize(memory, self._library.tracebraid_release, items)
        return np.frombuffer(memory, dtype=dtype)
