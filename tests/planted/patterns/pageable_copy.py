"""Each step copies its batch from memory that is not pinned, on the stream on which it computes."""

from __future__ import annotations

from tests.planted import Copy, Scene, Stream, Thread
from tests.planted.training_loop import STEPS, training_loop

_COPY_NS = 3_000_000
_BYTES = 1 << 24
_PINNED_NS = _BYTES // 25
"""At 25 GB/s: pinned, the copy takes so long still."""
SAVING_NS = STEPS * (_COPY_NS - _PINNED_NS), STEPS * (_COPY_NS - _PINNED_NS + 100_000)


def planted() -> Scene:
    """Nothing computes while it is copied."""
    return training_loop(_copy)


def _copy(host: Thread, stream: Stream, _: int) -> None:
    with host.op("aten::to"), host.op("aten::_to_copy"), host.op("aten::copy_", dims=[[1024, 1024]]):
        host.copy(stream, Copy.PAGEABLE_TO_DEVICE, _BYTES, _COPY_NS, blocking=True)
