"""Forks in the middle of recordings: `native_fork.py FOLDER KIND,KIND... [follow]`; a folder and a recording each."""

import multiprocessing
import os
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

import tracebraid

warnings.simplefilter("ignore")
FOLDER, KINDS = Path(sys.argv[1]), sys.argv[2].split(",")


def own() -> None:
    mine = tracebraid.ExecutionTraceObserver("native").register_callback(FOLDER / "own" / "own.json")
    mine.start()
    torch.full((2,), 3.0)
    mine.stop()
    mine.unregister_callback()


def child(kind: str) -> None:
    # Twice: the first one takes the parent's callbacks out.
    torch.zeros(2)
    torch.zeros(3)
    if kind.startswith("thread"):
        thread = threading.Thread(target=lambda: torch.zeros(4))
        thread.start()
        thread.join()
    if kind == "own":
        own()
    if kind == "again":
        forked(lambda: torch.zeros(5), kind)


def keep_busy(until: threading.Event) -> None:
    while not until.wait(0.003):
        for _ in range(3):
            torch.ones(3)


def forked(work: Callable[[], object], kind: str) -> None:
    pid = os.fork()
    if pid == 0:
        work()
        if kind == "unregister":
            observers[-1].unregister_callback()
            os._exit(0)
        if kind == "os-exit":
            os._exit(0)
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def fork(kind: str) -> None:
    forked(lambda: child(kind), kind)


def fork_after_an_op(kind: str) -> None:
    torch.ones(5)
    fork(kind)


def inside(kind: str) -> None:
    if kind == "multiprocessing":
        process = multiprocessing.get_context("fork").Process(target=child, args=(kind,))
        process.start()
        process.join()
        assert process.exitcode == 0
    elif kind == "loader":
        data = torch.utils.data.TensorDataset(torch.full((64, 2), 1.0))
        loader = torch.utils.data.DataLoader(data, 4, num_workers=2, multiprocessing_context="fork")
        assert len(list(loader)) == 16
    elif kind == "silent":
        forked(lambda: None, kind)
    elif kind == "thread-forks":
        thread = threading.Thread(target=fork_after_an_op, args=(kind,))
        thread.start()
        thread.join()
    elif kind == "busy":
        busy = threading.Event()
        threads = [threading.Thread(target=lambda: keep_busy(busy)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(5):
            fork(kind)
        busy.set()
        for thread in threads:
            thread.join()
    else:
        fork(kind)


def record(kind: str) -> None:
    (FOLDER / kind).mkdir(parents=True)
    observer = tracebraid.ExecutionTraceObserver("native", follow_forks="follow" in sys.argv)
    observers.append(observer)
    observer.register_callback(FOLDER / kind / "et.json")
    observer.start()
    with torch.profiler.record_function("around"):
        torch.ones(2)
        inside(kind)
        torch.randn(2)
    observer.stop()
    observer.unregister_callback()


observers: list[tracebraid.ExecutionTraceObserver] = []
for name in KINDS:
    record(name)
print("done")
