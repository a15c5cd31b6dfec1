"""Programs of two ranks over gloo: each function makes the step of a rank's loop, as it is or changed."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import record_function

from benchmarks.whatif_programs.single_rank import FEATURES, Step, mlp, sgd, trained

__all__ = ["TWO_RANKS"]

LATE_S = 0.015
ELEMENTS = 4 * 1024 * 1024
BUCKETS = tuple(ELEMENTS // parts for parts in (2, 4, 8, 16))
"""Elements of buckets: their sizes differ, so that the trace shows what of a transfer is latency."""
SMALL = tuple(256 * 2 ** (number % 8) for number in range(20))
"""Elements of small all-reduces, whose sizes differ for the same reason."""


def straggler(changed: bool, rank: int) -> Step:
    """DDP, of which rank 1 waits for its input; changed, it does not."""
    model = DistributedDataParallel(mlp())
    optimizer, batch = sgd(model), torch.randn(16, FEATURES)

    def step() -> None:
        if rank == 1:
            with record_function("late input"):
                time.sleep(0.0 if changed else LATE_S)
        trained(model, optimizer, batch)

    return step


def all_reduce_halved(changed: bool, rank: int) -> Step:
    """Large all-reduces beside the model; changed, of half the bytes."""
    model = mlp()
    optimizer, batch = sgd(model), torch.randn(16, FEATURES)
    statistics = [torch.zeros(elements // 2 if changed else elements) for elements in BUCKETS]

    def step() -> None:
        trained(model, optimizer, batch)
        for bucket in statistics:
            distributed.all_reduce(bucket)

    return step


def wait_at_the_end(changed: bool, rank: int) -> Step:
    """An all-reduce that the loop waits for before it reads its input; changed, it waits at the end of the step."""
    model = mlp()
    optimizer, batch = sgd(model), torch.randn(16, FEATURES)
    statistics = torch.zeros(ELEMENTS)

    def step() -> None:
        work = distributed.all_reduce(statistics, async_op=True)
        if not changed:
            work.wait()
        with record_function("read"):
            time.sleep(LATE_S)
        trained(model, optimizer, batch)
        if changed:
            work.wait()

    return step


def barrier_removed(changed: bool, rank: int) -> Step:
    """Ranks that are late in turn, with a barrier in each step; changed, without it."""
    model = mlp()
    optimizer, batch = sgd(model), torch.randn(16, FEATURES)
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        with record_function("read"):
            time.sleep(LATE_S if (count + rank) % 2 else LATE_S / 5)
        trained(model, optimizer, batch)
        if not changed:
            distributed.barrier()

    return step


def all_reduces_merged(changed: bool, rank: int) -> Step:
    """Many small all-reduces, one after the other; changed, a single one of all."""
    model = mlp()
    optimizer, batch = sgd(model), torch.randn(16, FEATURES)
    parts = [torch.zeros(elements) for elements in SMALL]
    merged = [torch.zeros(sum(SMALL))]

    def step() -> None:
        trained(model, optimizer, batch)
        for part in merged if changed else parts:
            distributed.all_reduce(part)

    return step


TWO_RANKS: dict[str, Callable[[bool, int], Step]] = {
    make.__name__: make
    for make in (straggler, all_reduce_halved, wait_at_the_end, barrier_removed, all_reduces_merged)
}
