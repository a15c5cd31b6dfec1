"""A barrier in each step, at which a rank waits for another one."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.busy import STEPS, busy

_NS = 400_000
SAVING_NS = (_NS * STEPS, _NS * STEPS)


def planted() -> Scene:
    """The scene."""
    return busy(_body, world_size=2)


def _body(scene: Scene, host: Thread, stream: Stream) -> None:
    host.collective(stream, _NS, name="barrier", nelems=1)
