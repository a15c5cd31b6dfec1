"""Pairs whose change is on the host: reading, logging, saving, collecting garbage."""

from __future__ import annotations

import gc
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch.profiler import record_function
from torch.utils.data import DataLoader

from benchmarks.whatif_pairs.declare import Step, pair
from benchmarks.whatif_pairs.models import BATCH, FEATURES, Samples, mlp, sgd, trained

READ_S = 0.001
"""What it takes to read a sample from a remote disk."""
TARGETS_S = 0.02
"""What it takes to make targets."""


@pair("remove name=read", kind="data loading")
def loader_sleep(changed: bool) -> Step:
    """Samples that are read in the loop; changed, they are in memory."""
    model = mlp(width=1024)
    optimizer = sgd(model)
    batches = iter(DataLoader(Samples(0.0 if changed else READ_S), BATCH))
    return lambda: trained(model, optimizer, next(batches))


@pair("offload 1 name=load", kind="data loading")
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


@pair("offload 2 name=enumerate*", kind="data loading")
def loader_workers(changed: bool) -> Step:
    """A loader without workers; changed, with two, which read ahead."""
    model = mlp(width=1024)
    optimizer = sgd(model)
    batches = iter(DataLoader(Samples(READ_S), BATCH, num_workers=2 if changed else 0))
    return lambda: trained(model, optimizer, next(batches))


@pair("remove name='make targets'", kind="host work", stacks=True)
def second_thread(changed: bool) -> Step:
    """Another thread makes the targets while the model computes, and the loop waits for it; changed, none are made.

    Stacks say which thread is waited for.
    """
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


@pair("remove name='Garbage collection'", kind="host work")
def collection_removed(changed: bool) -> Step:
    """Garbage is collected in each step, beside many live objects; changed, it is not."""
    model = mlp()
    optimizer, batch = sgd(model), torch.randn(64, FEATURES)
    records = [[number] for number in range(60_000)]

    def step() -> None:
        trained(model, optimizer, batch)
        if not changed:
            gc.collect()
        assert records

    return step


@pair("remove name=*write_metrics*", kind="host work", stacks=True)
def log_removed(changed: bool) -> Step:
    """A line for each metric is written in each step; changed, none."""
    model = mlp()
    optimizer, batch = sgd(model), torch.randn(64, FEATURES)
    log = tempfile.TemporaryFile("w")  # noqa: SIM115

    def write_metrics() -> None:
        for number in range(400):
            log.write(f"metric {number}: {number / 7:.6f}, {number / 11:.6f}\n")
            log.flush()

    def step() -> None:
        trained(model, optimizer, batch)
        if not changed:
            write_metrics()

    return step


@pair("remove name=save", kind="host work")
def saving_removed(changed: bool) -> Step:
    """The weights are saved to a file in each step; changed, they are not."""
    model = mlp()
    optimizer, batch = sgd(model), torch.randn(64, FEATURES)
    folder = tempfile.TemporaryDirectory()

    def step() -> None:
        trained(model, optimizer, batch)
        if not changed:
            with record_function("save"):
                torch.save(model.state_dict(), Path(folder.name) / "model.pt")

    return step
