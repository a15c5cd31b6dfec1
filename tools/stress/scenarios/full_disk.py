"""A disk that is full from some step on, for a while or for ever: a limit on the size of files."""

from __future__ import annotations

import resource

from tools.stress.model import Scenario
from tools.stress.run import Run


def work(run: Run) -> None:
    """Let so many bytes fit into a file, from one step to another."""
    first = run.random.randrange(12)
    last = first + run.random.choice([1, 3, 100])
    size_bytes = run.random.choice([0, 1, 100, 4096, 20_000])
    with run.captured() as step:
        for number in range(14):
            if number == first:
                resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))
            if number == last:
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            step()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


SCENARIO = Scenario("a disk that is full from any step on, for a while or for ever", work, may_lose=True)
