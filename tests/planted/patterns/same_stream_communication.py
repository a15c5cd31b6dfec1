"""All-to-alls between products on one stream, with twice the products' time."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.busy import STEPS, busy

_COUNT, _NS = 3, 200_000
SAVING_NS = (_COUNT * _NS * STEPS // 2, _COUNT * _NS * STEPS)


def planted() -> Scene:
    """The scene."""
    return busy(_body, world_size=2)


def _body(scene: Scene, host: Thread, stream: Stream) -> None:
    for _ in range(_COUNT):
        with host.op("aten::mm", dims=[[64, 64], [64, 64]]):
            host.launch(stream, "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", 400_000)
        host.collective(stream, _NS, "all_to_all", nelems=2**20)
