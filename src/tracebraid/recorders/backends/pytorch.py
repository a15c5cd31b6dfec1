"""PyTorch's own recorder of Execution Traces: a process has one, which belongs to the first that opens it.

The C++ side accepts a second registration silently and writes nothing for it, and a forked child continues to
write into its parent's file. Here the second one is refused, and forked children are detached.
"""

from __future__ import annotations

import logging
import os
import re
from contextlib import suppress
from pathlib import Path

from tracebraid.errors import CaptureError, OutputError
from tracebraid.recorders.backends.grace_period import wait_for_threads
from tracebraid.recorders.needs_torch import torch
from tracebraid.recorders.postprocess.resources import saved_ops

_TAKEN = (
    "another ExecutionTraceObserver is registered in this process, and PyTorch has one recorder per process. "
    "Unregister that one first, or use one observer for both"
)
_ENDED = (
    "tracebraid: another ExecutionTraceObserver of the program ended this recording: PyTorch has one recorder per "
    "process; the native recorder goes beside it"
)
_LAST_LINES = re.compile(rb'\]\s*,\s*"finish_ts"\s*:\s*\d+\s*\}\s*$')
_LAST_LINES_BYTES = 256
_LOG = logging.getLogger("tracebraid")
_profiler = torch._C._profiler


class TorchRecorder:
    """PyTorch's recorder, from `open` to `close`.

    Args:
        path: temporary file while recording; must not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # PyTorch puts `_resources/` in the place of the last `.json` of a path, and takes that for a folder.
        stem, _, rest = str(path).rpartition(".json")
        self.tensors = Path(f"{stem}_resources", rest, "nid_")

    def open(self) -> None:
        """Register with PyTorch."""
        _PROCESS.release_inherited()
        if _PROCESS.holder is not None:
            raise CaptureError(_TAKEN)
        if not _profiler._add_execution_trace_observer(str(self.path)):
            raise OutputError(str(self.path), "PyTorch cannot write there", "Choose another path")
        if not self.path.exists():
            raise CaptureError(_TAKEN)
        if saved_ops():
            self.tensors.parent.mkdir(parents=True, exist_ok=True)
        _PROCESS.hold(self)

    def start(self) -> None:
        """Record from now on."""
        if self.is_open and not self._was_ended():
            _profiler._enable_execution_trace_observer()

    def stop(self) -> None:
        """Record no longer."""
        if self.is_open and not self._was_ended():
            _profiler._disable_execution_trace_observer()

    def close(self) -> None:
        """Finish the file, and release PyTorch's recorder."""
        if self.is_open:
            # It frees what other threads may still be writing to.
            wait_for_threads()
            if self._was_ended():
                _LOG.warning(_ENDED)
            else:
                _profiler._remove_execution_trace_observer()
            _PROCESS.holder = None

    def discard(self) -> None:
        """Release PyTorch's recorder, and discard its file."""
        if self.is_open:
            self.stop()
            self.close()
            self.path.unlink(missing_ok=True)

    def _was_ended(self) -> bool:
        """Return whether an observer of the program's own ended PyTorch's recorder, which wrote its last line then.

        Without a recorder PyTorch's functions crash.
        """
        with suppress(OSError), self.path.open("rb") as file:
            file.seek(max(0, self.path.stat().st_size - _LAST_LINES_BYTES))
            return _LAST_LINES.search(file.read()) is not None
        return False

    @property
    def is_open(self) -> bool:
        """Return whether this process holds PyTorch's recorder through this object: a forked child does not."""
        return _PROCESS.holder is self


class _Process:
    """State that PyTorch keeps once per process, mirrored here."""

    holder: TorchRecorder | None = None
    inherited = False
    watches_forks = False

    def hold(self, recorder: TorchRecorder) -> None:
        self.holder = recorder
        if not self.watches_forks:
            os.register_at_fork(after_in_child=self.detach_child)
            self.watches_forks = True

    def detach_child(self) -> None:
        """Redirect PyTorch's output to the null device in a forked child, and stop its recorder."""
        if self.holder is None:
            return
        written = str(self.holder.path.resolve())
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for entry in Path("/proc/self/fd").iterdir():
            with suppress(OSError):
                if str(entry.readlink()) == written:
                    os.dup2(nowhere, int(entry.name))
        os.close(nowhere)
        _profiler._disable_execution_trace_observer()
        self.holder, self.inherited = None, True

    def release_inherited(self) -> None:
        """End the parent's registration in a forked child that makes its own recording."""
        if self.inherited:
            _profiler._remove_execution_trace_observer()
            self.inherited = False


_PROCESS = _Process()
