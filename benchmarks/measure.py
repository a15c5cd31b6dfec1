"""Measurements in fresh processes, side by side: time, and the most memory that a process held."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

__all__ = ["ROOT", "Measured", "Stopwatch", "command", "side_by_side", "speed_ratio", "task", "typical"]

ROOT = Path(__file__).resolve().parents[1]

_KINDS = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
_UNIT = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True)
class Measured:
    """What one run took.

    Args:
        seconds: wall time.
        cpu_seconds: processor time of all its threads and processes; steadier than `seconds` on a busy machine.
        peak_bytes: the most resident memory of the largest of its processes, mapped files included.
        parts: seconds of its parts, by name.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    parts: dict[str, float] = field(default_factory=dict)


class Stopwatch:
    """Measures this process and its children from the moment it is made."""

    def __init__(self) -> None:
        self._cpu = _cpu_seconds()
        self._start = self._lap = time.perf_counter()
        self._parts: dict[str, float] = {}

    def lap(self, part: str) -> None:
        """Note the time since the start or the lap before as that of a part."""
        now = time.perf_counter()
        self._parts[part] = now - self._lap
        self._lap = now

    def stop(self) -> Measured:
        """What it took until now. Children count once they have ended."""
        seconds = time.perf_counter() - self._start
        peak = max(resource.getrusage(kind).ru_maxrss for kind in _KINDS) * _UNIT
        return Measured(seconds, _cpu_seconds() - self._cpu, peak, self._parts)


def _cpu_seconds() -> float:
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, _KINDS))


def task(arguments: Sequence[str], python: str = sys.executable) -> Measured:
    """Run Python with these arguments; its last line of output is what it measured, as JSON.

    Raises:
        RuntimeError: it failed.
    """
    result = subprocess.run([python, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{result.stderr[-2000:]}")
    return Measured(**json.loads(result.stdout.splitlines()[-1]))


def command(words: Sequence[str]) -> Measured:
    """Run a whole command, from its start to its end; the memory is that of its first process.

    Raises:
        RuntimeError: it failed.
    """
    start = time.perf_counter()
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} failed with exit code {process.returncode}")
    return Measured(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * _UNIT)


def side_by_side(subjects: dict[str, Callable[[], Measured]], rounds: int) -> dict[str, list[Measured]]:
    """Run all subjects in each round, so that what else the machine does falls on all of them alike.

    Each round begins with another one.
    """
    runs: dict[str, list[Measured]] = {name: [] for name in subjects}
    names = list(subjects)
    for number in range(rounds):
        first = number % len(names)
        for name in [*names[first:], *names[:first]]:
            print(f"  {name} ({number + 1} of {rounds})", file=sys.stderr)
            runs[name].append(subjects[name]())
    return runs


def typical(runs: Sequence[Measured]) -> Measured:
    """The medians over all rounds."""
    return Measured(
        median(run.seconds for run in runs),
        median(run.cpu_seconds for run in runs),
        int(median(run.peak_bytes for run in runs)),
        {part: median(run.parts[part] for run in runs) for part in runs[0].parts},
    )


def speed_ratio(runs: Sequence[Measured], partner: Sequence[Measured]) -> float:
    """How many times as fast as the partner, the median over rounds."""
    return median(other.seconds / own.seconds for own, other in zip(runs, partner, strict=True))
