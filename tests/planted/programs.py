"""A training program that can be changed in one thing at a time, for comparisons of two runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from tests.planted import Copy, Scene

GEMM_NS = 400_000
"""Duration of the large kernel of a step, unless the step's own is given."""


@dataclass(frozen=True)
class Program:
    """What a step does; each option is a change that a comparison has to find.

    Args:
        gemm: name of the large kernel.
        batch: first size of the inputs.
        dtype: their type.
        wrapped: an annotation is around the layer.
        added: an op with a kernel of its own is called.
        extra_kernel: the layer launches a second kernel.
        calls: how often the activation is called.
        late_ns: how long the host does nothing before the activation.
        with_copy: a batch is copied to the device.
        every: the extra kernel is launched in each so many steps.
    """

    gemm: str = "gemm_128x64"
    batch: int = 64
    dtype: str = "float"
    wrapped: bool = False
    added: bool = False
    extra_kernel: bool = False
    calls: int = 1
    late_ns: int = 0
    with_copy: bool = True
    every: int = 1

    def scene(self, gemm_ns: Sequence[int] = (GEMM_NS, GEMM_NS), rank: int = 0, world_size: int = 1) -> Scene:
        """The trace of a run.

        Args:
            gemm_ns: of each step the duration of the large kernel.
            rank: the rank.
            world_size: with more than 1, gradients are reduced.
        """
        scene = Scene(rank, world_size)
        host, stream = scene.thread(), scene.stream(7)
        dims, types = [[self.batch, 1024], [1024, 1024]], [self.dtype, self.dtype]
        for number, duration in enumerate(gemm_ns):
            with host.step(number + 1, 2_000):
                if self.with_copy:
                    with host.op("aten::to", dims=[dims[0]]):
                        host.copy(stream, Copy.PINNED_TO_DEVICE, 4096, 20_000)
                around = host.annotation("autocast") if self.wrapped else nullcontext()
                linear = host.op("aten::linear", 1_000, dims=dims, types=types)
                with around, linear, host.op("aten::addmm", 1_000, dims=dims, types=types):
                    host.launch(stream, self.gemm, duration)
                    if self.extra_kernel and number % self.every == 0:
                        host.launch(stream, "splitk_reduce", 30_000)
                host.spend(self.late_ns)
                for _ in range(self.calls):
                    with host.op("aten::relu", 1_000, dims=[dims[0]], types=types[:1]):
                        host.launch(stream, "relu_kernel", 50_000)
                if self.added:
                    with host.op("aten::dropout", 1_000, dims=[dims[0]], types=types[:1]):
                        host.launch(stream, "dropout_kernel", 60_000)
                if world_size > 1:
                    host.collective(stream, 40_000, nelems=1024)
                host.synchronize(stream)
        return scene
