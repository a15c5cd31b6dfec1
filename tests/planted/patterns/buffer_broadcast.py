"""DistributedDataParallel sends the model's buffers to all ranks before its forward pass."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.busy import LONG_NS, STEPS, busy

_NS = 1_500_000
_TRANSFER_NS = 20_000
SAVING_NS = (2 * _NS * STEPS, (2 * _NS + 100_000) * STEPS)


def planted() -> Scene:
    """The scene."""
    return busy(_body, world_size=2)


def _body(scene: Scene, host: Thread, stream: Stream) -> None:
    host.until(stream.free + LONG_NS // 8)
    with host.annotation("DistributedDataParallel.forward"):
        host.run("aten::flatten_dense_tensors", _NS)
        with host.op("c10d::broadcast_"):
            host.collective(stream, _TRANSFER_NS, name="broadcast", nelems=4096)
        host.run("aten::unflatten_dense_tensors", _NS)
