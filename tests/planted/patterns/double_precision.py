"""Products of doubles, on a CPU."""

from __future__ import annotations

from tests.planted import Scene
from tests.planted.training_loop import STEPS

_NS = 4_000_000
SAVING_NS = STEPS * _NS // 2, STEPS * _NS // 2


def planted() -> Scene:
    """A product of floats beside it; a number is a double of no dimension."""
    scene = Scene(devices=())
    host = scene.thread()
    for number in range(1, STEPS + 1):
        with host.step(number):
            host.run("aten::mm", _NS, dims=[[512, 512], [512, 512]], types=["double", "double"])
            host.run("aten::mm", _NS, dims=[[512, 512], [512, 512]], types=["float", "float"])
            host.run("aten::mul", 1_000_000, dims=[[512, 512], []], types=["float", "double"])
    return scene
