"""Gradients that are reduced in hooks, for each of which the backward pass waits."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.busy import STEPS, busy

_LAYERS, _COMPUTE_NS, _NS = 4, 100_000, 80_000
_ACCUMULATE = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
SAVING_NS = ((_LAYERS - 1) * _NS * STEPS, (_LAYERS - 1) * _NS * STEPS)


def planted() -> Scene:
    """The scene."""
    return busy(_body, world_size=2)


def _body(scene: Scene, host: Thread, stream: Stream) -> None:
    if len(scene.threads) == 1:
        scene.thread("pt_autograd_0")
    autograd, network = scene.threads[1], scene.stream(20)
    forward = []
    for number in range(_LAYERS):
        with host.op("aten::cos", dims=[[4096, 4096 + number]], sequence=scene.count("sequence")) as op:
            host.launch(stream, "cos_kernel", _COMPUTE_NS)
        forward.append(op)
    autograd.until(host.now)
    for number, op in reversed(list(enumerate(forward))):
        with (
            autograd.backward("CosBackward0", op, host),
            autograd.op("aten::sin", dims=[[4096, 4096 + number]]),
        ):
            autograd.launch(stream, "sin_kernel", _COMPUTE_NS)
        with autograd.op(_ACCUMULATE):
            network.free = max(network.free, stream.free)
            autograd.collective(network, _NS, nelems=1024 * 1024)
            stream.free = max(stream.free, network.free)
    host.until(autograd.now)
