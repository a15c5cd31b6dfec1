"""Captures of pairs, before and after the change in turns; one that is not steady is captured in more rounds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import ROOT
from benchmarks.whatif_pairs.declare import Pair

__all__ = ["STEADY", "Loop", "capture_pair", "control", "loop_of", "loops_of", "typical_ms", "whole_rounds"]

STEADY = 0.03
"""By how much of a step a program may differ from itself in other rounds."""
TIMEOUT_S = 300
VARIANTS = ("before", "after")
_STEADY_ENVIRONMENT = {
    # Memory stays in the process: else whether an op waits for pages depends on what was freed before it.
    "MALLOC_MMAP_THRESHOLD_": str(1 << 25),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
}
_Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Loop:
    """Times of a job's steps in a capture, in ms: from the end of the step before to its own, the latest of all ranks.

    Args:
        recorded: of the steps in the traces.
        unrecorded: of as many before them, and as many after.
    """

    recorded: _Floats
    unrecorded: tuple[_Floats, _Floats]

    @property
    def recorded_ms(self) -> float:
        """A typical recorded step."""
        return typical_ms(self.recorded)

    @property
    def untraced_ms(self) -> float:
        """A typical step that is not recorded."""
        return typical_ms(np.concatenate(self.unrecorded))


def typical_ms(times_ms: _Floats) -> float:
    """The mean of the middle half: steady, and right where steps alternate."""
    ordered = np.sort(times_ms)
    quarter = len(ordered) // 4
    return float(ordered[quarter : len(ordered) - quarter].mean())


def captures_of(rounds: Iterable[int]) -> list[str]:
    """Names of the captures of a pair, in the order in which they are made."""
    return [f"{variant}_{number}" for number in rounds for variant in VARIANTS]


def loop_of(capture: Path) -> Loop:
    """Read what the ranks of a capture noted."""
    ranks = [json.loads(path.read_text()) for path in sorted(capture.glob("steps_*.json"))]
    recorded = _times_ms([rank["recorded"] for rank in ranks])
    first, second = (_times_ms([rank["unrecorded"][part] for rank in ranks]) for part in range(2))
    return Loop(recorded, (first, second))


def _times_ms(ends_ns: Sequence[Sequence[int]]) -> _Floats:
    return np.diff(np.array(ends_ns).max(axis=0)) / 1e6


def control(loops: Sequence[Sequence[Loop]]) -> float:
    """How far a program is off itself, as a share of its step: the most of both variants, recorded or not.

    The median of every second round is compared with that of the others.

    Args:
        loops: of each variant, the rounds; a single one is compared with itself before and after the recorded steps.
    """
    found = []
    for rounds in loops:
        if len(rounds) == 1:
            found.append(_apart([typical_ms(part) for part in rounds[0].unrecorded]))
            continue
        found.append(_apart([each.untraced_ms for each in rounds]))
        found.append(_apart([each.recorded_ms for each in rounds]))
    return max(found)


def _apart(times_ms: Sequence[float]) -> float:
    first, second = float(np.median(times_ms[::2])), float(np.median(times_ms[1::2]))
    return abs(first - second) / ((first + second) / 2)


def loops_of(folder: Path, pair: Pair) -> list[list[Loop]]:
    """The rounds of each variant of a pair that are captured."""
    rounds = range(1, whole_rounds(folder, pair) + 1)
    return [[loop_of(folder / f"{variant}_{number}") for number in rounds] for variant in VARIANTS]


def whole_rounds(folder: Path, pair: Pair) -> int:
    """Number of rounds that are captured, of both variants and all ranks."""
    return next(
        number - 1
        for number in count(1)
        if not all(_is_whole(folder / name, pair) for name in captures_of([number]))
    )


def capture_pair(pair: Pair, folder: Path, rounds: int, attempts: int) -> None:
    """Capture what is missing of some rounds of a pair, and as many again until it is steady.

    All rounds count: at most `attempts` times as many as were asked for.

    Raises:
        RuntimeError: the program failed.
    """
    target = folder / pair.name
    while (done := whole_rounds(target, pair)) < rounds * attempts:
        if done >= rounds and control(loops_of(target, pair)) <= STEADY:
            break
        _run(pair, target, captures_of(range(done + 1, done + rounds - done % rounds + 1)))
        if whole_rounds(target, pair) <= done:
            raise RuntimeError(f"{pair.name} left no round")


def _is_whole(capture: Path, pair: Pair) -> bool:
    return all((capture / f"steps_{rank}.json").exists() for rank in range(pair.ranks))


def _run(pair: Pair, folder: Path, captures: Sequence[str]) -> None:
    """Run all ranks of a pair; what a broken run left of these captures goes."""
    for name in captures:
        shutil.rmtree(folder / name, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        logs = [Path(work) / f"rank_{rank}" for rank in range(pair.ranks)]
        words = [sys.executable, "-m", "benchmarks.whatif_pairs.run", pair.name, str(folder.absolute())]
        environment = os.environ | _STEADY_ENVIRONMENT | {"OMP_NUM_THREADS": str(pair.threads)}
        running = []
        for rank, log in enumerate(logs):
            arguments = [*words, f"{work}/store", str(rank), *captures]
            with log.open("w") as out:
                running.append(subprocess.Popen(arguments, cwd=ROOT, env=environment, stdout=out, stderr=out))
        failed = _failed(running)
        if failed is not None:
            raise RuntimeError(f"{pair.name} failed on rank {failed}:\n{logs[failed].read_text()[-2000:]}")


def _failed(running: Sequence[subprocess.Popen[bytes]]) -> int | None:
    """Wait for processes; the first that failed or did not end, of which the others wait in vain."""
    until = time.monotonic() + TIMEOUT_S
    try:
        while any(process.poll() is None for process in running):
            failed = [rank for rank, process in enumerate(running) if process.poll()]
            if failed:
                return failed[0]
            if time.monotonic() > until:
                return next(rank for rank, process in enumerate(running) if process.poll() is None)
            time.sleep(0.05)
        return next((rank for rank, process in enumerate(running) if process.returncode), None)
    finally:
        for process in running:
            process.kill()
            process.wait()
