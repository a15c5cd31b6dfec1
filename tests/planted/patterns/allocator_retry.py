"""Later steps give memory back to the device and take it again."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.training_loop import STEPS, training_loop

_CALL_NS = 20_000_000
SAVING_NS = (STEPS - 1) * 10_000_000, (STEPS - 1) * 2 * _CALL_NS


def planted() -> Scene:
    """The device runs dry in each step but the first, in which allocations are usual."""
    return training_loop(_allocate)


def _allocate(host: Thread, _: Stream, number: int) -> None:
    if number > 1:
        with host.op("aten::empty", dims=[[4096, 4096]]):
            host.call("cudaFree", _CALL_NS)
            host.call("cudaMalloc", _CALL_NS)
