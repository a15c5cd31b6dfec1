"""A step of training whose every allocation has a known category."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.planted import Block, Scene, Thread
from tracebraid.model.answers.memory import MemoryCategory

_CATEGORY = MemoryCategory


@dataclass
class Training:
    """Steps of a two-layer model, planted with what each block is for.

    Args:
        scene: the rank.
        expected: category of each block, by the order of allocation.
    """

    scene: Scene = field(default_factory=Scene)
    expected: list[MemoryCategory] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.host: Thread = self.scene.thread()
        self.autograd: Thread = self.scene.thread("pt_autograd_0")

    def allocate(self, thread: Thread, size: int, category: MemoryCategory) -> Block:
        """Allocate now, and 10 ns later go on."""
        self.expected.append(category)
        block = thread.allocate(size)
        thread.spend(10)
        return block

    def release(self, thread: Thread, *blocks: Block) -> None:
        """Release now, and 10 ns later go on."""
        for block in blocks:
            thread.release(block)
            thread.spend(10)

    def step(self, number: int, old_gradient: Block | None = None) -> Block:
        """A whole step; gives the gradient, which the next is to release."""
        host = self.host
        with host.step(number, 100):
            with host.annotation("Optimizer.zero_grad#SGD.zero_grad", 10):
                if old_gradient is not None:
                    self.release(host, old_gradient)
            with host.annotation("enumerate(DataLoader)#_Iter.__next__", 10), host.op("aten::stack", 10):
                loaded = self.allocate(host, 4096, _CATEGORY.INPUTS)
            with host.op("aten::to", 10), host.op("aten::empty_strided", 10):
                data = self.allocate(host, 4096, _CATEGORY.INPUTS)
            gradient = self._forward_and_backward()
            with host.op("aten::norm", 10):
                norm = self.allocate(host, 512, _CATEGORY.TEMPORARIES)
            self.release(host, norm)
            self._update(first=number == 1)
            self.release(host, data, loaded)
        return gradient

    def _forward_and_backward(self) -> Block:
        host, autograd = self.host, self.autograd
        number = self.scene.count("sequence")
        with (
            host.module("Linear_0"),
            host.op("aten::linear", 10),
            host.op("aten::addmm", 10, sequence=number) as forward,
        ):
            scratch = self.allocate(host, 8192, _CATEGORY.TEMPORARIES)
            hidden = self.allocate(host, 2048, _CATEGORY.ACTIVATIONS)
            self.release(host, scratch)
        with host.op("aten::mse_loss", 10):
            loss = self.allocate(host, 512, _CATEGORY.ACTIVATIONS)
        autograd.until(host.now)
        with autograd.backward("AddmmBackward0", forward, host, 10), autograd.op("aten::mm", 10):
            passed = self.allocate(autograd, 2048, _CATEGORY.TEMPORARIES)
            gradient = self.allocate(autograd, 1024, _CATEGORY.GRADIENTS)
            self.release(autograd, passed, hidden)
        with autograd.op("c10d::allreduce_", 10):
            bucket = self.allocate(autograd, 1024, _CATEGORY.COLLECTIVE_BUFFERS)
            self.release(autograd, bucket)
        host.until(autograd.now)
        self.release(host, loss)
        return gradient

    def _update(self, first: bool) -> None:
        host = self.host
        with host.annotation("Optimizer.step#SGD.step", 10), host.op("aten::_foreach_mul", 10):
            if first:
                self.allocate(host, 1024, _CATEGORY.OPTIMIZER_STATE)
            self.release(host, self.allocate(host, 1536, _CATEGORY.TEMPORARIES))
            host.spend(10)
