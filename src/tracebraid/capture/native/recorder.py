"""The native recorder as one of the recorders: drives the library."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from tracebraid.capture.native import library
from tracebraid.errors import CaptureError, OutputError

__all__ = ["NativeRecorder"]

MEMORY_BYTES = 64 << 20
"""How much a recording keeps in memory; when half of it is full, it goes on in a file without a name."""

_RANGES = "ENABLE_PYTORCH_EXECUTION_TRACE_SAVE_INTEGRAL_TENSOR_RANGE"


class NativeRecorder:
    """The native recorder, from `open` to `close`. A process can have four at once.

    Args:
        path: where `close` writes the trace.
        memory_bytes: how much to keep in memory.
    """

    def __init__(self, path: Path, memory_bytes: int = MEMORY_BYTES) -> None:
        self.path = path
        self.counts = library.Counts()
        self._memory_bytes = memory_bytes
        self._library = library.load()
        self._recording: int | None = None
        self._pid = 0

    def open(self) -> None:
        """Get ready to record; until `start` that costs nothing.

        Raises:
            CaptureError: too many recordings are open in this process.
        """
        spill = self.path.with_suffix(".spill")
        ranges = os.environ.get(_RANGES, "0") != "0"
        self._recording = self._library.tracebraid_open(os.fsencode(spill), self._memory_bytes, ranges)
        if not self._recording:
            raise CaptureError(f"the native recorder cannot start: {self._error()}")
        self._pid = os.getpid()

    def start(self) -> None:
        """Record from now on."""
        if self.is_open:
            self._library.tracebraid_switch(self._recording, 1)

    def stop(self) -> None:
        """Record no longer."""
        if self.is_open:
            self._library.tracebraid_switch(self._recording, 0)

    def close(self) -> None:
        """Write what was recorded.

        Raises:
            OutputError: it cannot be written, or could not be spilled.
        """
        self._close(os.fsencode(self.path))

    def discard(self) -> None:
        """Throw away what was recorded."""
        self._close(None)

    @property
    def is_open(self) -> bool:
        """Whether it is open in this process: in a forked child it is not."""
        return self._recording is not None and self._pid == os.getpid()

    def _close(self, path: bytes | None) -> None:
        if not self.is_open:
            return
        recording, self._recording = self._recording, None
        if not self._library.tracebraid_close(recording, path, ctypes.byref(self.counts)):
            raise OutputError(str(self.path), self._error(), "Is the disk full?")

    def _error(self) -> str:
        return str(self._library.tracebraid_error().decode(errors="replace"))
