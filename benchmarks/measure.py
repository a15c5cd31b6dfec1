"""Measurements in fresh processes, side by side: time, and the most memory that a process held."""

from __future__ import annotations

import json
import logging
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]

_KINDS = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
_UNIT = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True)
class Measured:
    """A run's time and memory."""

    seconds: float  # wall time
    # processor time of all its threads and processes; steadier than `seconds` on a busy machine
    cpu_seconds: float
    peak_bytes: int  # the most resident memory of the largest of its processes, mapped files included
    parts: dict[str, float] = field(default_factory=dict)  # seconds of its parts, by name


@dataclass(frozen=True)
class Target:
    """A target in words, and whether it is met."""

    words: str
    met: bool


@dataclass(frozen=True)
class Row:
    """One subject of one benchmark."""

    benchmark: str  # which one
    subject: str  # what was measured
    seconds: float | None = None  # median wall time; None for a figure that is no time
    cpu_seconds: float | None = None  # median processor time of all its processes
    peak_bytes: int | None = None  # median of the most resident memory of its largest process
    figures: dict[str, float] = field(default_factory=dict)  # further figures by name
    target: Target | None = None  # what it has to reach; None for nothing


@contextmanager
def silenced() -> Iterator[None]:
    """Without logs and warnings: those of a tool beside us are none of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


def as_table(rows: Sequence[Row]) -> str:
    """Columns of text, aligned."""
    lines = [("benchmark", "subject", "time", "processor", "peak memory", "figures", "target", "")]
    for row in rows:
        figures = ", ".join(f"{name} {value:.3g}" for name, value in row.figures.items())
        target = row.target or Target("", True)
        verdict = "" if row.target is None else "met" if target.met else "MISSED"
        time, processor = ("" if s is None else f"{s:.3f} s" for s in (row.seconds, row.cpu_seconds))
        peak = "" if row.peak_bytes is None else f"{row.peak_bytes / 1e6:,.0f} MB"
        lines.append((row.benchmark, row.subject, time, processor, peak, figures, target.words, verdict))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(_cell(line, widths, column) for column in range(len(line))).rstrip() for line in lines
    )


def as_json(rows: Sequence[Row]) -> str:
    """The rows with their field names; times in seconds, memory in bytes."""
    return json.dumps([asdict(row) for row in rows], indent=2)


def _cell(line: tuple[str, ...], widths: list[int], column: int) -> str:
    text = line[column]
    return text.rjust(widths[column]) if column in (2, 3, 4) else text.ljust(widths[column])


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
        """Return the time until now. Children count once they have ended."""
        seconds = time.perf_counter() - self._start
        peak = max(resource.getrusage(kind).ru_maxrss for kind in _KINDS) * _UNIT
        return Measured(seconds, _cpu_seconds() - self._cpu, peak, self._parts)


def _cpu_seconds() -> float:
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, _KINDS))


def task(
    function: str, *arguments: object, python: str = sys.executable, source: str | None = None
) -> Measured:
    """Call a function of a module of benchmarks, `MODULE:FUNCTION`, with texts, in a fresh process that `python` runs;
    `source` is the src folder of another checkout."""
    words = [python, "-m", "benchmarks.measure", function, *map(str, arguments)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH")))),
    }
    result = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} failed:\n{result.stderr[-2000:]}")
    return Measured(**json.loads(result.stdout.splitlines()[-1]))


def in_process(subjects: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Measured]:
    """Medians of what each subject takes in this process, in turn, after a round that does not count."""
    runs: dict[str, list[Measured]] = {name: [] for name in subjects}
    for number in range(rounds + 1):
        for name, subject in subjects.items():
            watch = Stopwatch()
            subject()
            if number:
                runs[name].append(watch.stop())
    return {name: typical(found) for name, found in runs.items()}


def command(words: Sequence[str]) -> Measured:
    """Run a whole command, from its start to its end; the memory is that of its first process."""
    start = time.perf_counter()
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} failed with exit code {process.returncode}")
    return Measured(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * _UNIT)


def side_by_side(subjects: Mapping[str, Callable[[], Measured]], rounds: int) -> dict[str, list[Measured]]:
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
    """Return the partner's time by this one's, the median over rounds."""
    return median(other.seconds / own.seconds for own, other in zip(runs, partner, strict=True))


def _main(function: str, *arguments: str) -> None:
    module, name = function.split(":")
    measured: Measured = getattr(import_module(f"benchmarks.{module}"), name)(*arguments)
    print(json.dumps(asdict(measured)))


def rows_of_function(function: str, given: object) -> list[Row]:
    """The rows of a benchmark, `MODULE:FUNCTION`."""
    module, name = function.split(":")
    return list(getattr(import_module(f"benchmarks.{module}"), name)(given))


def row_of(
    benchmark: str,
    subject: str,
    took: Measured,
    figures: dict[str, float] | None = None,
    target: Target | None = None,
) -> Row:
    """A row of a measurement."""
    return Row(benchmark, subject, took.seconds, took.cpu_seconds, took.peak_bytes, figures or {}, target)


if __name__ == "__main__":
    _main(*sys.argv[1:])
