"""Tries many seeds, in several workers at once."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tools.fuzz.model import Seed
from tools.fuzz.progress import Progress
from tools.fuzz.tally import Tally
from tools.fuzz.watching import Growth, Limits, Watched
from tools.fuzz.worker import Task

__all__ = ["Plan", "Run", "try_seeds"]


@dataclass(frozen=True)
class Plan:
    """What a run tries.

    Args:
        seeds: in this order.
        minutes: no seed is begun later than this; None: all are tried.
        processes: how many workers there are at once.
        limits: of each.
    """

    seeds: Iterator[Seed]
    minutes: float | None = None
    processes: int = 1
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class Run:
    """What became of a plan.

    Args:
        tally: of its calls.
        took_s: wall time in seconds.
        cpu_s: processor time of all workers, in seconds.
        growths: of the workers that lived long enough to say.
    """

    tally: Tally
    took_s: float
    cpu_s: float
    growths: list[Growth]


def try_seeds(plan: Plan, folder: Path, progress: Progress | None = None) -> Run:
    """Try the seeds of a plan; Ctrl-C ends it early.

    Args:
        plan: what to try.
        folder: holds the samples already, and gets a folder for each worker.
        progress: is told of each mutant.
    """
    tally, stop, began, cpu_began_s = Tally(), threading.Event(), time.monotonic(), _cpu_s()
    until = began + 60 * plan.minutes if plan.minutes is not None else None
    lock = threading.Lock()

    def next_seed() -> Seed | None:
        if stop.is_set() or (until is not None and time.monotonic() > until):
            return None
        with lock:
            return next(plan.seeds, None)

    def work(number: int) -> list[Growth]:
        with Watched(folder / f"worker_{number}", plan.limits) as worker:
            while (seed := next_seed()) is not None:
                tally.add(seed, worker.ask(Task(seed)))
                if progress is not None:
                    progress.show(tally)
        return worker.growths

    with ThreadPoolExecutor(plan.processes) as threads:
        working = [threads.submit(work, number) for number in range(plan.processes)]
        try:
            growths = [growth for one in working for growth in one.result()]
        finally:
            stop.set()
    return Run(tally, time.monotonic() - began, _cpu_s() - cpu_began_s, growths)


def _cpu_s() -> float:
    """The processor time of the children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
