"""A tensor that is cast from bfloat16 to float32 and straight back."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.busy import STEPS, busy, cast

_NS = 50_000
SAVING_NS = (2 * _NS * STEPS, 2 * _NS * STEPS)


def planted() -> Scene:
    """The scene."""
    return busy(_body)


def _body(scene: Scene, host: Thread, stream: Stream) -> None:
    cast(host, stream, "c10::BFloat16", "float", _NS)
    cast(host, stream, "float", "c10::BFloat16", _NS)
