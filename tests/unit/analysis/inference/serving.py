"""Scenes of a server of language models."""

from __future__ import annotations

from collections.abc import Sequence

from tests.planted import Planted, Scene, Stream, Thread

HEADS, WIDTH = 2, 8


def forward(
    host: Thread, stream: Stream, batch: int, queries: int, keys: int, layers: int = 2
) -> list[Planted]:
    """A forward pass that shapes alone describe: a lookup of embeddings, then attention; gives its kernels."""
    host.run("aten::embedding", 1_000, dims=[[100, HEADS * WIDTH], [batch, queries], [], [], []])
    return [attend(host, stream, batch, queries, keys) for _ in range(layers)]


def attend(
    host: Thread, stream: Stream, batch: int, queries: int, keys: int, causal: bool | None = None
) -> Planted:
    """Attention; causal where there are several queries, unless it is said."""
    asked = [batch, HEADS, keys, WIDTH]
    with host.op(
        "aten::scaled_dot_product_attention",
        1_000,
        dims=[[batch, HEADS, queries, WIDTH], asked, asked, [], [], [], [], []],
        concrete=["", "", "", "", "0.", str(queries > 1 if causal is None else causal), "", "False"],
    ):
        return host.launch(stream, "flash_fwd", 10_000)


def annotated(names: Sequence[str], kernel_ns: int = 10_000, gap: int = 1_000) -> tuple[Scene, list[Planted]]:
    """Annotations one after another, each around the launch of a kernel and the wait for it."""
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    found = []
    for name in names:
        with host.annotation(name) as planted:
            host.launch(stream, "k", kernel_ns)
            host.synchronize(stream)
        host.spend(gap)
        found.append(planted)
    return scene, found
