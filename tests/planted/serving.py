"""Scenes of a server of language models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tests.planted import Planted, Scene, Stream, Thread, device_scene, host_scene

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
    scene, host, stream = device_scene()
    found = []
    for name in names:
        with host.annotation(name) as planted:
            host.launch(stream, "k", kernel_ns)
            host.synchronize(stream)
        host.spend(gap)
        found.append(planted)
    return scene, found


def served(steps: Iterable[tuple[str, int]], gap: int = 1_000) -> Scene:
    """Annotated steps of a server on the host, each of its own duration, one after another, in a step of a profiler."""
    scene, host = host_scene()
    with host.step(1):
        for name, duration_ns in steps:
            with host.annotation(name):
                host.spend(duration_ns)
            host.spend(gap)
    return scene


def vllm_steps(
    batches: Sequence[int],
    prompts: Sequence[int],
    repeats: int = 4,
    noise: Callable[[int], float] = lambda _: 1.0,
) -> list[tuple[str, int]]:
    """Steps of vLLM whose time is linear in sequences and prompt tokens: `BASE_NS`, `SEQUENCE_NS`, `PROMPT_NS`,
    `TOKEN_NS`, with the planned gap; each times the noise of its number.
    """
    plan: list[tuple[str, int]] = []
    for _ in range(repeats):
        plan += [(f"execute_context_1({n})_generation_0(0)", PROMPT_NS + TOKEN_NS * n) for n in prompts]
        for batch in batches:
            name = f"execute_context_0(0)_generation_{batch}({batch})"
            plan += [(name, BASE_NS + SEQUENCE_NS * batch)] * 5
    return [(name, round(ns * noise(number))) for number, (name, ns) in enumerate(plan)]


BASE_NS, SEQUENCE_NS, PROMPT_NS, TOKEN_NS = 1_000_000, 50_000, 500_000, 10_000
