"""Eight threads compute on two cores."""

from __future__ import annotations

from tests.planted import Scene
from tests.planted.training_loop import STEPS

_NS = 4_000_000
SAVING_NS = STEPS * _NS * 3 // 4, STEPS * _NS * 3 // 4


def planted() -> Scene:
    """What the capture says of its process shows it."""
    scene = Scene(devices=())
    scene.facts = {"threads": 8, "cores": 2, "cpus": 2}
    host = scene.thread()
    for number in range(1, STEPS + 1):
        with host.step(number):
            host.run("aten::mm", _NS)
    return scene
