"""Pairs held out, whose change is on the host."""

from __future__ import annotations

import copy
import json
import queue
import random
import threading
import time
import weakref
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor, nn
from torch.profiler import record_function
from torch.utils.data import DataLoader

from benchmarks.whatif_pairs.declare import Step, pair
from benchmarks.whatif_pairs.held_out_models import CLASSES, WIDTH, classifier, learn, training


class Sorted:
    """Samples that are computed as they are read."""

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> Tensor:
        values = np.random.default_rng(index).random(12_000)
        values.sort()
        return torch.from_numpy(values[:WIDTH].astype(np.float32))


@pair("remove name=*poll_queue*", kind="host work", stacks=True)
def polling_removed(changed: bool) -> Step:
    """A loop polls for messages, and sleeps in between; changed, it does not."""
    train = training(128)

    def poll_queue() -> None:
        for _ in range(6):
            time.sleep(0.001)

    def step() -> None:
        train()
        if not changed:
            poll_queue()

    return step


@pair("remove name='log metrics'", kind="host work")
def json_metrics_removed(changed: bool) -> Step:
    """Metrics of all layers are written as JSON; changed, they are not."""
    train = training(128)
    metrics = {f"layer_{number}": random.random() for number in range(6000)}

    def step() -> None:
        train()
        if not changed:
            with record_function("log metrics"):
                json.dumps(metrics)

    return step


@pair("remove name='keep best'", kind="host work")
def copies_of_weights_removed(changed: bool) -> Step:
    """The weights are copied in each step; changed, they are not."""
    model = classifier(width=512, depth=4)
    train = training(64, model, 512)

    def step() -> None:
        train()
        if not changed:
            with record_function("keep best"):
                copy.deepcopy(model.state_dict())

    return step


@pair("scale 0.5 name=augment", kind="host work")
def augmentation_halved(changed: bool) -> Step:
    """Python augments each sample; changed, it is twice as fast."""
    train = training(128)

    def step() -> None:
        with record_function("augment"):
            for number in range(50_000 if changed else 100_000):
                number * number
        train()

    return step


@pair("offload 2 name='read batch'", kind="data loading")
def reader_thread(changed: bool) -> Step:
    """The loop reads its batches itself; changed, a thread does, up to two ahead."""
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    labels = torch.randint(CLASSES, (64,))
    stored = np.random.default_rng(0).random((64, WIDTH), dtype=np.float32).tobytes()
    batches: queue.Queue[Tensor] = queue.Queue(2)
    stopped = threading.Event()

    def read() -> Tensor:
        with record_function("read batch"):
            time.sleep(0.005)
            return torch.frombuffer(bytearray(stored), dtype=torch.float32).reshape(64, WIDTH)

    def reader() -> None:
        while not stopped.is_set():
            batches.put(read())

    thread = threading.Thread(target=reader, daemon=True)
    if changed:
        thread.start()

    def step() -> None:
        learn(model, optimizer, batches.get() if changed else read(), labels)

    def end() -> None:
        # A thread that is in an op of torch when the process ends aborts it.
        stopped.set()
        while thread.is_alive():
            with suppress(queue.Empty):
                batches.get(timeout=0.01)

    weakref.finalize(step, end)
    return step


@pair("offload 2 name=enumerate*", kind="data loading")
def worker_that_computes(changed: bool) -> Step:
    """A loader whose samples take computing, without workers; changed, with one."""
    model = classifier(depth=6)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batches = iter(DataLoader(Sorted(), 8, num_workers=1 if changed else 0))
    labels = torch.randint(CLASSES, (8,))
    head = nn.Linear(WIDTH, WIDTH)
    beside = torch.randn(256, WIDTH)

    def step() -> None:
        with torch.no_grad():
            head(beside)
        learn(model, optimizer, next(batches), labels)

    return step
