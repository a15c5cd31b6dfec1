"""A function adds 300 rows one by one, on a CPU."""

from __future__ import annotations

from tests.planted import Scene
from tests.planted.training_loop import STEPS

_OPS, _OP_NS, _BETWEEN_NS = 300, 5_000, 5_000
_LOOP_NS = _OPS * (_OP_NS + _BETWEEN_NS)
SAVING_NS = int(STEPS * _LOOP_NS * 0.9), STEPS * _LOOP_NS


def planted() -> Scene:
    """Beside it each step multiplies."""
    scene = Scene(devices=())
    host = scene.thread()
    for number in range(1, STEPS + 1):
        with host.step(number), host.frame("train.py(10): step"):
            host.run("aten::mm", 1_000_000)
            with host.frame("train.py(20): add_rows"):
                for _ in range(_OPS):
                    host.run("aten::add", _OP_NS)
                    host.spend(_BETWEEN_NS)
    return scene
