"""Each step copies a tensor to the host and waits for it."""

from __future__ import annotations

from tests.planted import Copy, Scene, Stream, Thread
from tests.planted.training_loop import STEPS, training_loop

_PYTHON_NS = 2_000_000
SAVING_NS = STEPS * _PYTHON_NS, STEPS * (_PYTHON_NS + 100_000)


def planted() -> Scene:
    """The device runs dry in each step."""
    return training_loop(_read)


def _read(host: Thread, stream: Stream, _: int) -> None:
    with host.op("aten::to"), host.op("aten::_to_copy"), host.op("aten::copy_", dims=[[1024]]):
        host.copy(stream, Copy.DEVICE_TO_PAGEABLE, 4096, 10_000, blocking=True)
    host.spend(_PYTHON_NS)
