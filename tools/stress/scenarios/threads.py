"""Many threads that run operators, start and end while windows open and close."""

from __future__ import annotations

import threading

import torch

from tools.stress.model import Scenario
from tools.stress.run import Run, digest_of


def work(run: Run) -> None:
    """Long threads through all steps, and short ones in each."""
    over = threading.Event()
    long = [threading.Thread(target=_endless, args=(over,)) for _ in range(4)]
    for thread in long:
        thread.start()
    with run.captured() as step:
        for number in range(12):
            results = [""] * 8
            short = [threading.Thread(target=_compute, args=(results, place, number)) for place in range(8)]
            for thread in short:
                thread.start()
            if run.random.random() < 0.5:
                step()
                for thread in short:
                    thread.join()
            else:
                for thread in short:
                    thread.join()
                step()
            run.note(*results)
    over.set()
    for thread in long:
        thread.join()


def _endless(over: threading.Event) -> None:
    total = torch.zeros(4, requires_grad=True)
    while not over.wait(0.0005):
        with torch.profiler.record_function("long"):
            (total * 2).sum().backward()


def _compute(results: list[str], place: int, number: int) -> None:
    value = torch.full((16, 16), float(place + number), requires_grad=True)
    (value @ value).sin().sum().backward()
    results[place] = digest_of(value.grad)


SCENARIO = Scenario("threads that start, run operators and end at any time", work)
