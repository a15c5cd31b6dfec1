"""Pairs of two and four ranks over gloo, whose change is in what they exchange and wait for."""

from __future__ import annotations

import time

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import record_function

from benchmarks.whatif_pairs.declare import Step, pair
from benchmarks.whatif_pairs.models import FEATURES, mlp, sgd, trained

LATE_S = 0.015
ELEMENTS = 4 * 1024 * 1024
BUCKETS = tuple(ELEMENTS // parts for parts in (2, 4, 8, 16))
"""Elements of buckets: their sizes differ, so that the trace shows what of a transfer is latency."""
SMALL = tuple(256 * 2 ** (number % 8) for number in range(20))
"""Elements of small all-reduces, whose sizes differ for the same reason."""
TINY = 20
"""Number of all-reduces of a single element."""


@pair("remove name='late input'", kind="straggler", ranks=2)
def straggler(changed: bool) -> Step:
    """DDP, of which rank 1 waits for its input; changed, it does not."""
    model = DistributedDataParallel(mlp())
    optimizer, batch = sgd(model), torch.randn(16, FEATURES)

    def step() -> None:
        if distributed.get_rank() == 1:
            with record_function("late input"):
                time.sleep(0.0 if changed else LATE_S)
        trained(model, optimizer, batch)

    return step


@pair("remove name='slow disk'", kind="straggler", ranks=4)
def straggler_of_four(changed: bool) -> Step:
    """Four ranks that mostly wait for their input, one of them for a slow disk, too; changed, for none."""
    model = mlp(width=64)
    optimizer, batch, total = sgd(model), torch.randn(4, FEATURES), torch.zeros(1024)

    def step() -> None:
        with record_function("read"):
            time.sleep(LATE_S / 3)
        if distributed.get_rank() == 3:
            with record_function("slow disk"):
                time.sleep(0.0 if changed else LATE_S)
        trained(model, optimizer, batch)
        distributed.all_reduce(total)

    return step


@pair("bandwidth 2 name=gloo:all_reduce", kind="collectives", ranks=2)
def all_reduce_halved(changed: bool) -> Step:
    """Large all-reduces beside the model; changed, of half the bytes."""
    model = mlp()
    optimizer, batch = sgd(model), torch.randn(16, FEATURES)
    statistics = [torch.zeros(elements // 2 if changed else elements) for elements in BUCKETS]

    def step() -> None:
        trained(model, optimizer, batch)
        for bucket in statistics:
            distributed.all_reduce(bucket)

    return step


@pair("merge 1MB name=gloo:all_reduce", kind="collectives", ranks=2)
def all_reduces_merged(changed: bool) -> Step:
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


@pair("remove name=gloo:all_reduce bytes=-64B", kind="collectives", ranks=2)
def tiny_all_reduces_removed(changed: bool) -> Step:
    """Tiny all-reduces of metrics, in the first of which ranks wait for the late one; changed, the gradients' does."""
    model = mlp()
    optimizer, batch = sgd(model), torch.randn(16, FEATURES)
    metrics, gradients = [torch.zeros(1) for _ in range(TINY)], torch.zeros(ELEMENTS // 16)

    def step() -> None:
        if distributed.get_rank() == 1:
            with record_function("late input"):
                time.sleep(LATE_S)
        trained(model, optimizer, batch)
        if not changed:
            for metric in metrics:
                distributed.all_reduce(metric)
        distributed.all_reduce(gradients)

    return step


@pair("remove name=gloo:all_reduce,c10d::allreduce_", kind="collectives", ranks=2)
def idle_all_reduces_removed(changed: bool) -> Step:
    """Tiny all-reduces that run while the loop reads, and are waited for behind it; changed, there are none."""
    model = mlp()
    optimizer, batch = sgd(model), torch.randn(16, FEATURES)
    metrics = [torch.zeros(1) for _ in range(TINY)]

    def step() -> None:
        works = [] if changed else [distributed.all_reduce(metric, async_op=True) for metric in metrics]
        with record_function("read"):
            time.sleep(LATE_S)
        trained(model, optimizer, batch)
        for work in works:
            work.wait()

    return step


@pair("defer name=gloo:all_reduce", kind="overlap", ranks=2)
def wait_at_the_end(changed: bool) -> Step:
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


@pair("early name=gloo:all_reduce", kind="overlap", ranks=2)
def all_reduce_earlier(changed: bool) -> Step:
    """An all-reduce of the last step's statistics behind the reading; changed, it is requested before."""
    model = mlp()
    optimizer, batch = sgd(model), torch.randn(16, FEATURES)
    statistics = torch.zeros(ELEMENTS // 2)

    def step() -> None:
        if changed:
            work = distributed.all_reduce(statistics, async_op=True)
        with record_function("read"):
            time.sleep(LATE_S)
        if not changed:
            work = distributed.all_reduce(statistics, async_op=True)
        work.wait()
        trained(model, optimizer, batch)

    return step


@pair("scale 3 within=metrics", kind="overlap", ranks=2)
def compute_behind_all_reduce(changed: bool) -> Step:
    """Metrics are computed while an all-reduce runs; changed, three times as many."""
    model = mlp()
    optimizer, batch = sgd(model), torch.randn(16, FEATURES)
    statistics, outputs = torch.zeros(ELEMENTS), torch.randn(256, 256)

    def step() -> None:
        work = distributed.all_reduce(statistics, async_op=True)
        with record_function("metrics"):
            for _ in range(6 if changed else 2):
                torch.mm(outputs, outputs)
        work.wait()
        trained(model, optimizer, batch)

    return step


@pair("remove name=gloo:barrier,c10d::barrier", kind="sync", ranks=2)
def barrier_removed(changed: bool) -> Step:
    """Ranks that are late in turn, with a barrier in each step; changed, without it."""
    model = mlp()
    optimizer, batch = sgd(model), torch.randn(16, FEATURES)
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        with record_function("read"):
            time.sleep(LATE_S if (count + distributed.get_rank()) % 2 else LATE_S / 5)
        trained(model, optimizer, batch)
        if not changed:
            distributed.barrier()

    return step
