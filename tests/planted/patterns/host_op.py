"""Each step draws random numbers on the host, and copies them to the device."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.training_loop import STEPS, training_loop

_DRAW_NS = 20_000_000
SAVING_NS = (STEPS - 1) * 10_000_000, STEPS * _DRAW_NS


def planted() -> Scene:
    """The device runs dry in each step."""
    return training_loop(_draw)


def _draw(host: Thread, _: Stream, number: int) -> None:
    with host.op("aten::normal_", dims=[[4096, 4096]]):
        host.spend(_DRAW_NS)
