"""Forks in the middle of a recording: `native_fork.py FILE KIND [follow]`."""

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
FILE, KIND = Path(sys.argv[1]), sys.argv[2]


def own() -> None:
    mine = tracebraid.ExecutionTraceObserver("native").register_callback(FILE.with_name("own.json"))
    mine.start()
    torch.full((2,), 3.0)
    mine.stop()
    mine.unregister_callback()


def child() -> None:
    # Twice: the first one takes the parent's callbacks out.
    torch.zeros(2)
    torch.zeros(3)
    if KIND.startswith("thread"):
        thread = threading.Thread(target=lambda: torch.zeros(4))
        thread.start()
        thread.join()
    if KIND == "own":
        own()
    if KIND == "again":
        forked(lambda: torch.zeros(5))


def keep_busy(until: threading.Event) -> None:
    while not until.wait(0.003):
        for _ in range(3):
            torch.ones(3)


def forked(work: Callable[[], object]) -> None:
    pid = os.fork()
    if pid == 0:
        work()
        if KIND == "unregister":
            observer.unregister_callback()
            os._exit(0)
        if KIND == "os-exit":
            os._exit(0)
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def fork_after_an_op() -> None:
    torch.ones(5)
    forked(child)


observer = tracebraid.ExecutionTraceObserver("native", follow_forks="follow" in sys.argv)
observer.register_callback(FILE)
observer.start()
with torch.profiler.record_function("around"):
    torch.ones(2)
    if KIND == "multiprocessing":
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join()
        assert process.exitcode == 0
    elif KIND == "loader":
        data = torch.utils.data.TensorDataset(torch.full((64, 2), 1.0))
        loader = torch.utils.data.DataLoader(data, 4, num_workers=2, multiprocessing_context="fork")
        assert len(list(loader)) == 16
    elif KIND == "silent":
        forked(lambda: None)
    elif KIND == "thread-forks":
        thread = threading.Thread(target=fork_after_an_op)
        thread.start()
        thread.join()
    elif KIND == "busy":
        busy = threading.Event()
        threads = [threading.Thread(target=lambda: keep_busy(busy)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(5):
            forked(child)
        busy.set()
        for thread in threads:
            thread.join()
    else:
        forked(child)
    torch.randn(2)
observer.stop()
observer.unregister_callback()
print("done")
