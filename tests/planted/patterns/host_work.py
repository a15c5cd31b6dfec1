"""Between steps the host is busy with what no event names, for longer than the device has work."""

from __future__ import annotations

from tests.planted import Scene
from tests.planted.training_loop import queue_work

_STEPS = 4
_HOST_NS = 30_000_000
SAVING_NS = (_STEPS - 1) * 10_000_000, (_STEPS - 1) * _HOST_NS


def planted() -> Scene:
    """The device runs dry from each step to the next."""
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    for number in range(1, _STEPS + 1):
        with host.step(number):
            queue_work(host, stream)
            queue_work(host, stream)
            host.spend(_HOST_NS if number < _STEPS else 0)
    host.synchronize()
    return scene
