"""Nsight Systems over some steps: it runs outside the process, which opens and closes its range."""

from __future__ import annotations

from tracebraid.errors import CaptureError
from tracebraid.recorders.needs_torch import torch
from tracebraid.recorders.observer import ExecutionTraceObserver


class NsysRecorder:
    """Opens and closes the range that `nsys profile --capture-range=cudaProfilerApi` waits for.

    Every operator is an NVTX range inside it, with its name, sequence number and shapes.

    Args:
        observer: started just before, stopped just after.

    Raises:
        CaptureError: there is no CUDA device.
    """

    def __init__(self, observer: ExecutionTraceObserver) -> None:
        if not torch.cuda.is_available():
            raise CaptureError("Nsight Systems records CUDA, and torch finds no CUDA device in this process")
        self._observer = observer
        self._ranges = torch.autograd.profiler.emit_nvtx(record_shapes=True)
        self._running = False

    def start(self) -> None:
        """Record from now on."""
        self._observer.start()
        torch.cuda.profiler.start()
        self._ranges.__enter__()
        self._running = True

    def stop(self) -> None:
        """Record no longer."""
        if self._running:
            torch.cuda.synchronize()
            self._ranges.__exit__(None, None, None)
            torch.cuda.profiler.stop()
            self._observer.stop()
            self._running = False

    discard = stop
