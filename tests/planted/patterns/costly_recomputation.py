"""A product that a checkpoint computes again in the backward pass."""

from __future__ import annotations

from tests.planted import H100, Scene, Stream, Thread
from tests.planted.busy import STEPS, busy

_NS = 40_000
SAVING_NS = (_NS * STEPS, _NS * STEPS)


def planted() -> Scene:
    """The scene."""
    return busy(_body, devices=(H100,))


def _body(scene: Scene, host: Thread, stream: Stream) -> None:
    def product() -> None:
        number = scene.count("sequence")
        with host.op("aten::mm", dims=[[256, 512], [512, 128]], types=["c10::BFloat16"] * 2, sequence=number):
            host.launch(stream, "nvjet_gemm", _NS)

    product()
    with host.op("aten::cos", dims=[[256, 128]], sequence=scene.count("sequence")) as forward:
        host.launch(stream, "cos_kernel", 20_000)
    with host.backward("CosBackward0", forward, host):
        product()
        with host.op("aten::sin", dims=[[256, 128]]):
            host.launch(stream, "sin_kernel", 30_000)
