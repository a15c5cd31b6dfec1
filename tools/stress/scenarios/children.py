"""Children that are spawned: by multiprocessing in three ways, and by subprocess; some train, some are killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from typing import Any

import torch

from tools.stress.model import Scenario
from tools.stress.run import Run, digest_of


def work(run: Run) -> None:
    """Start some in two of the steps."""
    method = run.random.choice(["fork", "spawn", "forkserver"])
    at = run.random.sample(range(1, 10), 2)
    with run.captured() as step:
        for number in range(12):
            if number in at:
                run.note(*_by_multiprocessing(method, number))
                run.note(_by_subprocess())
            step()
    os.environ.pop("PYTHONWARNINGS", None)


def _by_multiprocessing(method: str, number: int) -> tuple[object, ...]:
    context: Any = multiprocessing.get_context(method)
    results = context.SimpleQueue()
    child = context.Process(target=_compute, args=(results, number))
    killed = context.Process(target=_be_killed)
    child.start()
    killed.start()
    found = results.get()
    child.join()
    killed.join()
    return found, child.exitcode, killed.exitcode


def _compute(results: Any, number: int) -> None:
    value = torch.full((4,), float(number), requires_grad=True)
    optimizer = torch.optim.SGD([value], lr=0.1)
    for _ in range(3):
        value.square().sum().backward()
        optimizer.step()
    results.put(digest_of(value))
    sys.exit(3)


def _be_killed() -> None:
    torch.ones(2)
    os.kill(os.getpid(), signal.SIGKILL)


def _by_subprocess() -> tuple[int, bytes]:
    done = subprocess.run(
        [sys.executable, "-c", "import sys, torch; print(torch.arange(5).sum().item()); sys.exit(4)"],
        stdout=subprocess.PIPE,
        check=False,
    )
    return done.returncode, done.stdout


SCENARIO = Scenario("processes of multiprocessing (fork, spawn, forkserver) and of subprocess", work)
