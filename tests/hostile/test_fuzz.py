"""2,000 mutants of all formats of which one takes some milliseconds: none fails. `make fuzz` tries all, and more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.fuzz.formats import QUICK, format_of
from tools.fuzz.model import Seed
from tools.fuzz.mutants import seeds_over
from tools.fuzz.watching import Limits, Watched, write_samples
from tools.fuzz.worker import Task

TURNS = (*QUICK * 30, "arrow_zip", "capture_folder", "job", "store")
"""Slow formats are tried less; two whose samples alone take seconds are left to `make fuzz`."""
SEEDS = 2_000
ALL_CALLS_EVERY = 20
"""Of so many seeds of a format one is asked all; the others only what is asked of every mutant, which is quick."""
BLOCKS = 8


@pytest.fixture(scope="session")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("fuzz")
    write_samples(folder, sorted({*TURNS}))
    with Watched(folder / "worker", Limits()) as watched:
        yield watched


def task_of(seed: Seed) -> Task:
    if seed.number % ALL_CALLS_EVERY == 0:
        return Task(seed)
    return Task(seed, calls=tuple(call.name for call in format_of(seed.format).calls))


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_mutant_fails(worker: Watched, block: int) -> None:
    size = SEEDS // BLOCKS
    failed = [
        f"python -m tools.fuzz --replay {seed}: {asked.failure.kind.value} in {asked.call} at {asked.failure.place}: "
        f"{asked.failure.message}"
        for seed in seeds_over(TURNS, block * size, (block + 1) * size)
        for asked in worker.ask(task_of(seed))
        if asked.failure is not None
    ]
    assert failed == []
