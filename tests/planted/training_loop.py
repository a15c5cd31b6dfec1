"""A loop of steps in which nothing is wrong, into which a pattern is put: between steps, or within each."""

from __future__ import annotations

from collections.abc import Callable

from tests.planted import Copy, Scene, Stream, Thread

STEPS = 4
"""Steps of the loop."""
KERNELS = 6
"""Kernels of a step."""
KERNEL_NS = 1_000_000
"""Duration of each, long against the host's time for a launch."""


def queue_work(host: Thread, stream: Stream, kernels: int = KERNELS) -> None:
    """Launch a forward pass: the host is far ahead of the device when it returns."""
    with host.op("aten::to"), host.op("aten::copy_"):
        host.copy(stream, Copy.PINNED_TO_DEVICE, 1 << 20, KERNEL_NS)
    for _ in range(kernels):
        with host.op("aten::linear"), host.op("aten::addmm", dims=[[64], [64, 64], [64, 64]]):
            host.launch(stream, "gemm", KERNEL_NS)


def training_loop(
    within: Callable[[Thread, Stream, int], None] | None = None,
    scene: Scene | None = None,
    steps: int = STEPS,
) -> Scene:
    """Steps that launch work, and between the launches do what is asked; the last one is waited for.

    Args:
        within: is called in each step, between two halves of its work, with the thread, the stream and the step's
            number from 1.
        scene: where it is planted; None for a new one.
        steps: how many.
    """
    scene = Scene() if scene is None else scene
    host, stream = scene.thread(), scene.stream(7)
    for number in range(1, steps + 1):
        with host.step(number), host.frame("train.py(10): step"):
            queue_work(host, stream)
            if within is not None:
                within(host, stream, number)
            queue_work(host, stream)
    host.synchronize()
    return scene
