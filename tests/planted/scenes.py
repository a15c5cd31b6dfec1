"""Whole scenes: a training run with nothing wrong."""

from __future__ import annotations

from tests.planted import CALL_NS, Copy, Scene, Stream, Thread
from tests.planted.events import Planted
from tests.planted.memory import Block

LAYERS = 4
"""Linear layers of the model."""

KERNEL_NS = 100_000
"""Duration of each kernel, long against the host's time for a launch: the device never waits for the host."""

_SHAPE = [64, 1024]
_BYTES = 64 * 1024 * 4


def clean(steps: int = 3, rank: int = 0, world_size: int = 1) -> Scene:
    """Training of a small model, in which nothing is wrong.

    The stream works without a gap from the first copy to the last kernel; the host runs ahead of it, and waits once,
    behind the last step; memory is the same at the end of each step, and no `cudaMalloc` falls into any.

    Args:
        steps: profiler steps, numbered from 1.
        rank: the rank.
        world_size: with more than 1 rank, the gradients are reduced on stream 7 too, at the end of backward.
    """
    scene = Scene(rank, world_size)
    host, stream = scene.thread(), scene.stream(7)
    autograd = scene.thread("pt_autograd_0")
    for _ in range(LAYERS):
        host.allocate(1024 * 1024 * 4, malloc_ns=CALL_NS)
    host.release(host.allocate(_BYTES * (LAYERS + 2), malloc_ns=CALL_NS))
    for number in range(1, steps + 1):
        with host.step(number), host.frame("train.py(10): step"):
            _step(host, autograd, stream, world_size)
    host.synchronize()
    return scene


def _step(host: Thread, autograd: Thread, stream: Stream, world_size: int) -> None:
    with host.op("aten::to"), host.op("aten::copy_", dims=[_SHAPE, _SHAPE]):
        data = host.allocate(_BYTES)
        host.copy(stream, Copy.PINNED_TO_DEVICE, _BYTES, KERNEL_NS)
    with host.module("Model_0"):
        forward = [_linear(host, stream, layer) for layer in range(LAYERS)]
    autograd.until(host.now)
    for op, block in reversed(forward):
        with (
            autograd.backward("AddmmBackward0", op, host),
            autograd.op("aten::mm", dims=[_SHAPE, [1024, 1024]]),
        ):
            autograd.launch(stream, "gemm_backward", KERNEL_NS)
        autograd.release(block)
    if world_size > 1:
        autograd.collective(stream, KERNEL_NS, nelems=LAYERS * 1024 * 1024)
    host.until(autograd.now)
    with host.annotation("Optimizer.step#SGD.step"), host.op("aten::_foreach_add_"):
        host.launch(stream, "multi_tensor_apply_kernel", KERNEL_NS)
    host.release(data)


def _linear(host: Thread, stream: Stream, layer: int) -> tuple[Planted, Block]:
    """A layer's forward op and what it keeps for backward."""
    dims = [_SHAPE, [1024, 1024], [1024]]
    number = host.scene.count("sequence")
    with (
        host.module(f"Linear_{layer}"),
        host.op("aten::linear", dims=dims),
        host.op("aten::addmm", dims=[[1024], _SHAPE, [1024, 1024]], sequence=number) as op,
    ):
        block = host.allocate(_BYTES)
        host.launch(stream, "gemm", KERNEL_NS)
    return op, block
