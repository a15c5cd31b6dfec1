"""The native recorder as one of the recorders: drives the library."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path

from tracebraid.child_process.start import run_child
from tracebraid.errors import CaptureError, OutputError
from tracebraid.recorders.native import library
from tracebraid.recorders.own_process import getpid

MEMORY_BYTES = 64 << 20
"""Memory of a recording; when half full, it spills to an unlinked file."""

_WRITER = "tracebraid.recorders.native.columns:main"
_RANGES = "ENABLE_PYTORCH_EXECUTION_TRACE_SAVE_INTEGRAL_TENSOR_RANGE"


class NativeRecorder:
    """The native recorder, from `open` to `close`. A process can have four at once.

    Args:
        path: the file that `close` writes.
        memory_bytes: how much to keep in memory.
        in_columns: whether it is written as `.arrow.zip` (`model.et_arrow`), not as JSON.
        saved_ops: operators whose inputs of integers are written to files, with a comma between them.
    """

    def __init__(
        self,
        path: Path,
        memory_bytes: int = MEMORY_BYTES,
        in_columns: bool = False,
        saved_ops: bytes = b"",
    ) -> None:
        self.path = path
        self.tensors = path.with_name(f"{path.name}.nid_")
        self._in_columns = in_columns
        self._saved_ops = saved_ops
        self.counts = library.Counts()
        self._memory_bytes = memory_bytes
        self._library = library.load()
        self._recording: int | None = None
        self._pid = 0

    def open(self) -> None:
        """Get ready to record; this costs nothing until `start`."""
        spill = self.path.with_suffix(".spill")
        ranges = os.environ.get(_RANGES, "0") != "0"
        self._recording = self._library.tracebraid_open(
            os.fsencode(spill), self._memory_bytes, ranges, self._saved_ops, os.fsencode(self.tensors)
        )
        if not self._recording:
            raise CaptureError(f"the native recorder cannot start: {self._error()}")
        self._pid = getpid()

    def start(self) -> None:
        """Record from now on."""
        if self.is_open:
            self._library.tracebraid_switch(self._recording, 1)

    def stop(self) -> None:
        """Record no longer."""
        if self.is_open:
            self._library.tracebraid_switch(self._recording, 0)

    def close(self) -> None:
        """Write the recording."""
        if not self._in_columns:
            self._close(self.path)
            return
        recorded = self.path.with_suffix(".columns")
        try:
            self._close(recorded)
            self._write_arrow(recorded)
        finally:
            with suppress(OSError):
                recorded.unlink(missing_ok=True)

    def discard(self) -> None:
        """Discard the recording."""
        self._close(None)

    @property
    def is_open(self) -> bool:
        """Return whether it is open in this process: in a forked child it is not."""
        return self._recording is not None and self._pid == getpid()

    def _close(self, path: Path | None) -> None:
        if not self.is_open:
            return
        recording, self._recording = self._recording, None
        name = None if path is None else os.fsencode(path)
        counts = ctypes.byref(self.counts)
        if not self._library.tracebraid_close(recording, name, self._in_columns, counts):
            raise OutputError(str(self.path), self._error(), "Is the disk full?")

    def _write_arrow(self, recorded: Path) -> None:
        """Convert in a separate process: polars has threads, and this one may be a forked child, or about to end."""
        done = run_child(_WRITER, recorded, self.path)
        if done.returncode:
            last = (done.stdout.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            raise OutputError(
                str(self.path), f"it cannot be written in columns ({last})", "Is the disk full?"
            )

    def _error(self) -> str:
        return str(self._library.tracebraid_error().decode(errors="replace"))
