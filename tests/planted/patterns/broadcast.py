"""Differences of all pairs of 512 points are stored before they are summed; on a CPU."""

from __future__ import annotations

from tests.planted import Scene
from tests.planted.training_loop import STEPS

_NS = 6_000_000
_ALL_NS = STEPS * 3 * _NS
SAVING_NS = int(_ALL_NS * 0.8), _ALL_NS


def planted() -> Scene:
    """A bias that is added to a batch is broadcast, too: that makes nothing large."""
    scene = Scene(devices=())
    host = scene.thread()
    pairs = [512, 512, 64]
    for number in range(1, STEPS + 1):
        with host.step(number):
            host.run("aten::add", 1_000_000, dims=[[4096, 512], [512], []])
            host.run("aten::sub", _NS, dims=[[512, 1, 64], [1, 512, 64], []])
            host.run("aten::square", _NS, dims=[pairs])
            host.run("aten::sum", _NS, dims=[pairs, [], []])
    return scene
