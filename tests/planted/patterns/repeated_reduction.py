"""Gradients that are reduced behind the backward pass of each of three microbatches."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.busy import STEPS, busy

_MICROBATCHES, _COMPUTE_NS, _NS = 3, 300_000, 200_000
SAVING_NS = ((_MICROBATCHES - 1) * _NS * STEPS, (_MICROBATCHES - 1) * _NS * STEPS)


def planted() -> Scene:
    """The scene."""
    return busy(_body, world_size=2)


def _body(scene: Scene, host: Thread, stream: Stream) -> None:
    if len(scene.threads) == 1:
        scene.thread("pt_autograd_0")
    autograd = scene.threads[1]
    for _ in range(_MICROBATCHES):
        with host.op("aten::cos", dims=[[4096, 4096]], sequence=scene.count("sequence")) as forward:
            host.launch(stream, "cos_kernel", _COMPUTE_NS)
        autograd.until(host.now)
        with (
            autograd.backward("CosBackward0", forward, host),
            autograd.op("aten::sin", dims=[[4096, 4096]]),
        ):
            autograd.launch(stream, "sin_kernel", _COMPUTE_NS)
        host.until(autograd.now)
        host.collective(stream, _NS, nelems=1024 * 1024)
