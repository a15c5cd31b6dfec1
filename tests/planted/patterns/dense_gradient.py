"""A table of 100,000 rows, of which a step uses 64, gets a dense gradient; on a CPU."""

from __future__ import annotations

from tests.planted import Scene
from tests.planted.training_loop import STEPS

_BACKWARD_NS, _UPDATE_NS = 5_000_000, 7_000_000
_ALL_NS = STEPS * (_BACKWARD_NS + _UPDATE_NS)
SAVING_NS = int(_ALL_NS * 0.99), _ALL_NS


def planted() -> Scene:
    """The optimizer goes over the whole table, too."""
    scene = Scene(devices=())
    host = scene.thread()
    for number in range(1, STEPS + 1):
        with host.step(number):
            host.run("aten::embedding", 100_000, dims=[[100_000, 32], [64]])
            host.run("aten::mm", 1_000_000, dims=[[64, 32], [32, 32]])
            host.run("aten::embedding_dense_backward", _BACKWARD_NS, dims=[[64, 32], [64]])
            host.run("aten::_foreach_add_", _UPDATE_NS, dims=[[[100_000, 32]], [[100_000, 32]]])
    return scene
