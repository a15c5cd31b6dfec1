"""Four buckets of gradients of 4 MiB behind compute, and a last of 32 MiB that nothing hides."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.busy import STEPS, busy

_NELEMS, _NS, _TIMES = 1024 * 1024, 100_000, 8
SAVING_NS = ((_TIMES - 1) * _NS * STEPS, (_TIMES - 1) * _NS * STEPS)


def planted() -> Scene:
    """The scene."""
    return busy(_body, world_size=2)


def _body(scene: Scene, host: Thread, stream: Stream) -> None:
    network = scene.stream(20)
    for number in range(4):
        network.free = max(network.free, stream.free)
        host.collective(network, _NS, nelems=_NELEMS)
        with host.op("aten::add", dims=[[4096, 4096 + number]] * 2):
            host.launch(stream, "add_kernel", 2 * _NS)
    network.free = max(network.free, stream.free)
    host.collective(network, _TIMES * _NS, nelems=_TIMES * _NELEMS)
    stream.free = max(stream.free, network.free)
