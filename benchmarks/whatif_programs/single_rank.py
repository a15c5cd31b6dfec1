"""Programs of one rank: each function makes the step of a training loop, as it is or changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch.profiler import record_function
from torch.utils.data import DataLoader

__all__ = ["SINGLE_RANK", "WITH_STACKS", "Step", "trained"]

Step = Callable[[], None]

FEATURES, BATCH, SAMPLES = 256, 4, 4096
READ_S = 0.001
"""What it takes to read a sample from a remote disk."""
TARGETS_S = 0.02
"""What it takes to make targets."""
WIDE = 1536
"""A width that only the layers have which a change is about."""
PRODUCT = 512


class Samples:
    """Samples of which each takes its time to read."""

    def __init__(self, read_s: float) -> None:
        self.read_s = read_s

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        with record_function("read"):
            time.sleep(self.read_s)
        return torch.full((FEATURES,), index / len(self))


def trained(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: torch.Tensor) -> None:
    """One step of training."""
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def mlp(width: int = 512, layers: int = 2) -> torch.nn.Sequential:
    """Layers of one width, from and to the features of a sample."""
    inner = [layer for _ in range(layers) for layer in (torch.nn.Linear(width, width), torch.nn.ReLU())]
    return torch.nn.Sequential(
        torch.nn.Linear(FEATURES, width), torch.nn.ReLU(), *inner, torch.nn.Linear(width, FEATURES)
    )


def sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    """Plain SGD."""
    return torch.optim.SGD(model.parameters(), lr=1e-4)


def loader_sleep(changed: bool) -> Step:
    """Samples that are read in the loop; changed, they are in memory."""
    model = mlp()
    optimizer = sgd(model)
    batches = iter(DataLoader(Samples(0.0 if changed else READ_S), BATCH))
    return lambda: trained(model, optimizer, next(batches))


def matmul_halved(changed: bool) -> Step:
    """A pair of wide layers; changed, they are half as wide."""
    width = WIDE // 2 if changed else WIDE
    wide = [torch.nn.Linear(FEATURES, width, bias=False), torch.nn.Linear(width, FEATURES, bias=False)]
    model = torch.nn.Sequential(*wide, torch.nn.Linear(FEATURES, FEATURES))
    optimizer, batch = sgd(model), torch.randn(256, FEATURES)
    return lambda: trained(model, optimizer, batch)


def op_twice(changed: bool) -> Step:
    """A product beside the model; changed, it is computed twice."""
    model = mlp()
    optimizer, batch = sgd(model), torch.randn(64, FEATURES)
    left, right = torch.randn(PRODUCT, PRODUCT), torch.randn(PRODUCT, PRODUCT)

    def step() -> None:
        for _ in range(2 if changed else 1):
            torch.mm(left, right)
        trained(model, optimizer, batch)

    return step


def second_thread(changed: bool) -> Step:
    """Another thread makes the targets while the model computes, and the loop waits for it; changed, none are made."""
    model = mlp()
    optimizer, batch = sgd(model), torch.randn(64, FEATURES)
    made: list[torch.Tensor] = []

    def targets() -> None:
        with record_function("make targets"):
            time.sleep(0.0 if changed else TARGETS_S)
            made.append(torch.zeros(1))

    def step() -> None:
        thread = threading.Thread(target=targets)
        thread.start()
        loss = model(batch).square().mean()
        thread.join()
        (loss + made.pop()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def optimizer_foreach(changed: bool) -> Step:
    """SGD over many small parameters, one after the other; changed, in one call for all."""
    model = mlp(width=32, layers=24)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, weight_decay=0.01, foreach=changed)
    batch = torch.randn(16, FEATURES)
    return lambda: trained(model, optimizer, batch)


def layer_removed(changed: bool) -> Step:
    """Two layers of a width of their own, beside what else there is; changed, they are left out."""
    wide = [torch.nn.Linear(FEATURES, WIDE, bias=False), torch.nn.Linear(WIDE, FEATURES, bias=False)]
    model = torch.nn.Sequential(*([] if changed else wide), *mlp())
    optimizer, batch = sgd(model), torch.randn(64, FEATURES)
    return lambda: trained(model, optimizer, batch)


def loader_ahead(changed: bool) -> Step:
    """Samples that are read in the loop; changed, a thread reads them ahead while the model computes."""
    model = mlp(width=1024)
    optimizer, samples = sgd(model), Samples(READ_S)
    pool = ThreadPoolExecutor(1)

    def batch() -> torch.Tensor:
        with record_function("load"):
            return torch.stack([samples[index] for index in range(BATCH)])

    ahead = pool.submit(batch)

    def step() -> None:
        nonlocal ahead
        if changed:
            current, ahead = ahead.result(), pool.submit(batch)
        else:
            current = batch()
        trained(model, optimizer, current)

    return step


WITH_STACKS = ("second_thread",)
"""Programs whose Python functions are recorded: they say which thread is waited for."""

SINGLE_RANK: dict[str, Callable[[bool], Step]] = {
    make.__name__: make
    for make in (
        loader_sleep,
        matmul_halved,
        op_twice,
        second_thread,
        optimizer_foreach,
        layer_removed,
        loader_ahead,
    )
}
