"""Forks at any time, whose children run operators, record for themselves, fork again and end in different ways."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

import torch

from tools.stress.model import Scenario
from tools.stress.run import Run, digest_of


def work(run: Run) -> None:
    """A few children in each step, some with threads of the parent at work."""
    over = threading.Event()
    busy = [threading.Thread(target=_be_busy, args=(over,)) for _ in range(run.random.choice([0, 2]))]
    for thread in busy:
        thread.start()
    with run.captured() as step:
        for number in range(12):
            how = run.random.choice(["exit", "os-exit", "again", "thread", "train", "raise"])
            if run.random.random() < 0.3:
                with torch.profiler.record_function("around"):
                    run.note(*_forked(lambda how=how, number=number: _child(run, how, number)))  # type: ignore[misc]
            else:
                run.note(*_forked(lambda how=how, number=number: _child(run, how, number)))  # type: ignore[misc]
            step()
    over.set()
    for thread in busy:
        thread.join()


def _be_busy(over: threading.Event) -> None:
    value = torch.ones(3)
    while not over.wait(0.001):
        value.add(1)


def _forked(child: Callable[[], str]) -> tuple[str, int]:
    """What a child found, and its exit code."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        code = 9
        try:
            os.write(writing, child().encode())
            code = 0
        except ValueError:
            code = 5
        except SystemExit as end:
            code = int(str(end.code))
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        found = pipe.read().decode()
    return found, os.waitpid(pid, 0)[1]


def _child(run: Run, how: str, number: int) -> str:
    value = torch.full((4,), float(number), requires_grad=True)
    (value * value).sum()
    if how == "raise":
        raise ValueError(how)
    if how == "exit":
        sys.exit(3)
    if how == "os-exit":
        os._exit(4)
    if how == "again":
        return repr(_forked(lambda: digest_of(torch.arange(number + 1).sum())))
    if how == "thread":
        results: list[str] = []
        thread = threading.Thread(target=lambda: results.append(digest_of(torch.zeros(4) + number)))
        thread.start()
        thread.join()
        return results[0]
    run.train()
    return digest_of(value)


SCENARIO = Scenario("forks with operators in the child, at any time and in threads", work)
