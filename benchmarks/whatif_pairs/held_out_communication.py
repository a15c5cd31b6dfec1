"""Pairs of two and four ranks held out, whose change is in what they exchange and wait for."""

from __future__ import annotations

import gc
import time
from itertools import count

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import record_function

from benchmarks.whatif_pairs.declare import Step, pair
from benchmarks.whatif_pairs.held_out_models import CLASSES, WIDTH, classifier, training

MEGABYTE = 1 << 20
GRADIENTS = tuple(8192 * (1 + number % 8) for number in range(24))
"""Elements of gradients that are reduced one by one."""


def is_rank(rank: int) -> bool:
    """Whether this is the process of a rank."""
    return bool(distributed.get_rank() == rank)


@pair("as-median rank=1", kind="straggler", ranks=2)
def uneven_batches(changed: bool) -> Step:
    """DDP with a larger batch on rank 1; changed, with equal ones."""
    batch = 96 if is_rank(1) and not changed else 16
    return training(batch, DistributedDataParallel(classifier()))


@pair("as-median rank=2 name=fetch", kind="straggler", ranks=4)
def late_rank_of_four(changed: bool) -> Step:
    """Four ranks that fetch their input, rank 2 from far away; changed, from as near as the others."""
    train, total = training(4, nn.Linear(WIDTH, CLASSES)), torch.zeros(1000)

    def step() -> None:
        with record_function("fetch"):
            time.sleep(0.015 if is_rank(2) and not changed else 0.005)
        train()
        distributed.all_reduce(total)

    return step


@pair("remove name='Garbage collection'", kind="straggler", ranks=2)
def collection_on_one_rank(changed: bool) -> Step:
    """DDP, of which rank 1 collects garbage beside many objects; changed, it does not."""
    train = training(32, DistributedDataParallel(classifier()))
    records = [[number] for number in range(80_000)] if is_rank(1) else []

    def step() -> None:
        if records and not changed:
            gc.collect()
        train()

    return step


@pair("bandwidth 2 collective=all_gather", kind="collectives", ranks=2)
def features_halved(changed: bool) -> Step:
    """Features of several sizes are gathered; changed, half as many."""
    train = training()
    sizes = [MEGABYTE // parts // (2 if changed else 1) for parts in (1, 2, 3, 4)]
    own = [torch.zeros(size) for size in sizes]
    gathered = [[torch.zeros(size) for _ in range(2)] for size in sizes]

    def step() -> None:
        train()
        for target, source in zip(gathered, own, strict=True):
            distributed.all_gather(target, source)

    return step


@pair("remove name=gloo:all_gather,c10d::allgather_", kind="collectives", ranks=2)
def gathered_losses_removed(changed: bool) -> Step:
    """Losses of all samples are gathered in each step; changed, they are not."""
    train, total = training(), torch.zeros(MEGABYTE // 4)
    losses = torch.zeros(16)
    gathered = [torch.zeros(16) for _ in range(2)]

    def step() -> None:
        train()
        if not changed:
            for _ in range(8):
                distributed.all_gather(gathered, losses)
        distributed.all_reduce(total)

    return step


@pair("merge 1MB name=gloo:all_reduce", kind="collectives", ranks=2)
def gradients_bucketed(changed: bool) -> Step:
    """Gradients are reduced one by one; changed, in buckets of a megabyte."""
    train = training()
    buckets: list[list[int]] = [[]]
    for size in GRADIENTS:
        if 4 * (sum(buckets[-1]) + size) > 1_000_000:
            buckets.append([])
        buckets[-1].append(size)
    parts = [torch.zeros(sum(bucket)) for bucket in buckets] if changed else list(map(torch.zeros, GRADIENTS))

    def step() -> None:
        train()
        for part in parts:
            distributed.all_reduce(part)

    return step


@pair("defer name=gloo:broadcast", kind="overlap", ranks=2)
def table_broadcast_beside(changed: bool) -> Step:
    """A table is broadcast, and waited for at once; changed, at the end of the step."""
    train, table = training(48), torch.zeros(2 * MEGABYTE)

    def step() -> None:
        work = distributed.broadcast(table, 0, async_op=True)
        if not changed:
            work.wait()
        with record_function("read"):
            time.sleep(0.006)
        train()
        if changed:
            work.wait()

    return step


@pair("defer name=gloo:all_reduce", kind="overlap", ranks=2)
def gradients_reduced_beside(changed: bool) -> Step:
    """Each gradient is reduced as it is there, and waited for; changed, all are waited for behind backward."""
    model = classifier(width=768, depth=3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch, labels = torch.randn(64, 768), torch.randint(CLASSES, (64,))
    works: list[distributed.Work] = []

    def reduce(weight: Tensor) -> None:
        work = distributed.all_reduce(weight.grad, async_op=True)
        if changed:
            works.append(work)
        else:
            work.wait()

    for weight in model.parameters():
        weight.register_post_accumulate_grad_hook(reduce)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch), labels).backward()
        while works:
            works.pop().wait()
        optimizer.step()

    return step


@pair("remove name=gloo:all_reduce,c10d::allreduce_", kind="sync", ranks=2)
def loss_all_reduce_removed(changed: bool) -> Step:
    """Ranks that are late in turn agree on a loss in each step; changed, they do not."""
    train, loss = training(), torch.zeros(1)
    turns = count()

    def step() -> None:
        with record_function("read"):
            time.sleep(0.012 if (next(turns) + distributed.get_rank()) % 2 else 0.003)
        train()
        if not changed:
            distributed.all_reduce(loss)

    return step


@pair("scale 0.5 name=aten::mm rank=1", kind="kernels", ranks=2)
def faster_second_stage(changed: bool) -> Step:
    """Rank 0 computes and sends, rank 1 receives, computes less, and waits for the next; changed, half of that."""
    first = is_rank(0)
    rows = 768 if first else 128 if changed else 256
    left, right, activations = torch.randn(rows, 512), torch.randn(512, 512), torch.zeros(MEGABYTE // 8)

    def step() -> None:
        if not first:
            distributed.recv(activations, 0)
        for _ in range(2):
            torch.mm(left, right)
        if first:
            distributed.send(activations, 1)

    return step
