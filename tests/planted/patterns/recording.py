"""Each step saves a checkpoint, for longer than the device has work."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.training_loop import STEPS, training_loop

_SAVE_NS = 30_000_000
SAVING_NS = STEPS * 10_000_000, STEPS * (_SAVE_NS + 15_000_000)


def planted() -> Scene:
    """The device runs dry in each step; a value is read in it, too, which belongs to it."""
    return training_loop(_save)


def _save(host: Thread, stream: Stream, _: int) -> None:
    with host.frame("train.py(50): keep"), host.frame("torch/serialization.py(900): save", 1_000_000):
        with host.op("aten::item"), host.op("aten::_local_scalar_dense"):
            host.synchronize(stream)
        host.spend(_SAVE_NS)
