"""Ten tokens are generated, each from all before it, without a cache; on a CPU."""

from __future__ import annotations

from tests.planted import Scene
from tests.planted.training_loop import STEPS

_TOKENS, _NS, _PROMPT = 10, 1_000_000, 100
_ALL_NS = STEPS * _TOKENS * _NS
SAVING_NS = int(_ALL_NS * 0.95), _ALL_NS


def planted() -> Scene:
    """Another product has the same shape each time."""
    scene = Scene(devices=())
    host = scene.thread()
    for number in range(1, STEPS + 1):
        with host.step(number):
            for token in range(_TOKENS):
                host.run("aten::linear", _NS, dims=[[1, _PROMPT + token, 64], [64, 64], [64]])
                host.run("aten::mm", 200_000, dims=[[64, 64], [64, 64]])
    return scene
