"""Real programs of two ranks over gloo, each with a fault or without it: `JOBS[name](rank, faulty)` gives a step."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.examination.programs import Step

__all__ = ["JOBS", "WORLD"]

WORLD = 2
_WIDTH = 256
_BATCH = 128


def _model(layers: int = 4) -> nn.Sequential:
    return nn.Sequential(*(part for _ in range(layers) for part in (nn.Linear(_WIDTH, _WIDTH), nn.ReLU())))


def _data_parallel(inputs: Callable[[], Tensor], after: Step = lambda: None) -> Step:
    model = DistributedDataParallel(_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)

    def step() -> None:
        optimizer.zero_grad()
        model(inputs()).mean().backward()
        optimizer.step()
        after()

    return step


def sleeping_rank(rank: int, faulty: bool) -> Step:
    """Rank 1 waits for its data in each step."""
    batch = torch.randn(_BATCH, _WIDTH)

    def inputs() -> Tensor:
        if faulty and rank == 1:
            time.sleep(0.03)
        return batch

    return _data_parallel(inputs)


def moving_straggler(rank: int, faulty: bool) -> Step:
    """In each step another rank waits for its data."""
    batch, steps = torch.randn(_BATCH, _WIDTH), iter(range(10**9))

    def inputs() -> Tensor:
        if next(steps) % WORLD == rank and faulty:
            time.sleep(0.03)
        return batch

    return _data_parallel(inputs)


def skewed_rank(rank: int, faulty: bool) -> Step:
    """Rank 1 gets seven times as many rows as rank 0, instead of as many."""
    rows = (_BATCH * 2, _BATCH * 14)[rank] if faulty else _BATCH * 8
    batch = torch.randn(rows, _WIDTH)
    return _data_parallel(lambda: batch)


def barrier_each_step(rank: int, faulty: bool) -> Step:
    """Ranks whose work varies wait for each other at a barrier after each phase, instead of at the gradients alone."""
    batch, steps = torch.randn(_BATCH, _WIDTH), iter(range(10**9))
    weight = torch.randn(3 * _WIDTH, 3 * _WIDTH)

    def inputs() -> Tensor:
        number = next(steps)
        for phase in range(4):
            for _ in range(12 if (number + phase) % WORLD == rank else 2):
                torch.mm(weight, weight)
            if faulty:
                distributed.barrier()
        return batch

    return _data_parallel(inputs)


def scalar_all_reduces(rank: int, faulty: bool) -> Step:
    """Forty metrics are reduced one by one, instead of together."""
    batch = torch.randn(_BATCH, _WIDTH)
    metrics = [torch.tensor(float(number)) for number in range(40)]

    def after() -> None:
        for metric in metrics if faulty else [torch.stack(metrics)]:
            distributed.all_reduce(metric)

    return _data_parallel(lambda: batch, after)


def gradients_one_by_one(rank: int, faulty: bool) -> Step:
    """Gradients of 64 small layers are reduced one by one after backward, instead of as one tensor."""
    model = nn.Sequential(*(nn.Linear(32, 32) for _ in range(64)))
    batch = torch.randn(_BATCH, 32)

    def step() -> None:
        model.zero_grad()
        model(batch).mean().backward()
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        for gradient in gradients if faulty else [torch.cat([one.flatten() for one in gradients])]:
            distributed.all_reduce(gradient)

    return step


def synchronized_accumulation(rank: int, faulty: bool) -> Step:
    """Gradients are reduced after each of eight microbatches, instead of after the last."""
    model = DistributedDataParallel(_model(8))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)
    batch = torch.randn(16, _WIDTH)

    def step() -> None:
        optimizer.zero_grad()
        for microbatch in range(8):
            with nullcontext() if faulty or microbatch == 7 else model.no_sync():
                model(batch).mean().backward()
        optimizer.step()

    return step


def clean_data_parallel(rank: int, faulty: bool) -> Step:
    """Nothing to mend."""
    batch = torch.randn(1024, _WIDTH)
    return _data_parallel(lambda: batch)


JOBS: dict[str, Callable[[int, bool], Step]] = {
    function.__name__: function
    for function in (
        sleeping_rank,
        moving_straggler,
        skewed_rank,
        barrier_each_step,
        scalar_all_reduces,
        gradients_one_by_one,
        synchronized_accumulation,
        clean_data_parallel,
    )
}
