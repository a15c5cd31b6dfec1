"""Ten all-reduces of 4 KiB, of 20 us each, where a single one would do."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.busy import STEPS, busy

_COUNT, _NS = 10, 20_000
SAVING_NS = ((_COUNT - 1) * _NS * STEPS, (_COUNT - 1) * _NS * STEPS)


def planted() -> Scene:
    """The scene."""
    return busy(_body, world_size=2)


def _body(scene: Scene, host: Thread, stream: Stream) -> None:
    for _ in range(_COUNT):
        host.collective(stream, _NS, nelems=1024)
