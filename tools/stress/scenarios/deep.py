"""Very deep nesting: annotations, autograd graphs, recursion to its limit, nested lists as inputs."""

from __future__ import annotations

import sys
from contextlib import ExitStack

import torch

from tools.stress.model import Scenario
from tools.stress.run import Run


def work(run: Run) -> None:
    """Go deep in some of the steps."""
    depth = 20_000 if run.is_full else 2_000
    with run.captured() as step:
        for number in range(12):
            if number in (3, 6, 7):
                with ExitStack() as open_ones:
                    for level in range(depth):
                        open_ones.enter_context(torch.profiler.record_function(f"level {level % 7}"))
                    run.note(torch.ones(3).sum())
                    if number == 7:
                        step()
                value = torch.ones(2, requires_grad=True)
                long = value
                for _ in range(depth):
                    long = long + 1
                long.sum().backward()
                run.note(value.grad, _recurse(0))
                run.note(torch.stack([torch.ones(1)] * depth).sum())
            step()


def _recurse(level: int) -> int:
    try:
        with torch.profiler.record_function("recursion"):
            torch.ones(1)
            return _recurse(level + 1) if level < sys.getrecursionlimit() else level
    except RecursionError:
        return 0


SCENARIO = Scenario("annotations and autograd graphs 2,000 deep (20,000), RecursionError", work)
