"""Measure the engines side by side: commands on several ranks, in one process and in the process pool.

    python -m benchmarks.engine [TRACE] [--ranks 4] [--rounds 3] [--commands summary report pack] [--json]

Each rank is a copy of TRACE with its own number. `of in-process` is the time of the pool over that of one process, the
median of the rounds; `MB above` is the most memory that a process of the pool held above what one process takes for
one rank. With `--start` only what the pool itself costs is measured: one to many ranks that are next to nothing.
Without TRACE, the trace of 54 MB is measured.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.inputs import DEMO, Inputs, find_real_traces
from benchmarks.measure import Measured, command, side_by_side, speed_ratio, typical
from benchmarks.table import Row, Target, as_json, as_table
from benchmarks.whole_job import write_job

__all__ = ["rows_of"]

_SHARE_AT_MOST = 0.6
_ABOVE_AT_MOST_MB = 1000
_COMMANDS: dict[str, list[str]] = {
    "summary": ["summary", "JOB", "--json"],
    "check": ["check", "JOB"],
    "report": ["report", "JOB", "--json"],
    "export": ["export", "JOB", "--to", "parquet", "-o", "OUT"],
    "pack": ["pack", "JOB", "-o", "OUT"],
}
_HERE, _POOL, _ALONE = "in-process", "pool", "one rank"


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    given = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = _small(folder, given.rounds) if given.start else _large(folder, given)
    print(as_json(rows) if given.json else as_table(rows))


def rows_of(subject: str, runs: dict[str, list[Measured]]) -> list[Row]:
    """A row for each engine.

    Args:
        subject: the command.
        runs: what was measured in each round, by the engine; `one rank` is one process for one rank.
    """
    rows = [
        Row("engine", f"{subject}, {engine}", of.seconds, of.cpu_seconds, of.peak_bytes)
        for engine, of in ((engine, typical(found)) for engine, found in runs.items())
    ]
    share = 1 / speed_ratio(runs[_POOL], runs[_HERE])
    above_mb = (typical(runs[_POOL]).peak_bytes - typical(runs[_ALONE]).peak_bytes) / 1e6
    met = share <= _SHARE_AT_MOST and above_mb <= _ABOVE_AT_MOST_MB
    target = Target(f"{_SHARE_AT_MOST} of in-process, {_ABOVE_AT_MOST_MB:,} MB above one rank", met)
    figures = {"of in-process": share, "MB above": above_mb}
    return [*rows, Row("engine", f"{subject}, pool beside in-process", figures=figures, target=target)]


def _large(folder: Path, given: argparse.Namespace) -> list[Row]:
    """The commands on copies of a large trace."""
    trace = given.trace or Inputs(folder, find_real_traces(given.traces)).timeline()
    jobs = {"several": folder / "several", "one": folder / "one"}
    for job, ranks in ((jobs["several"], given.ranks), (jobs["one"], 1)):
        job.mkdir()
        write_job(trace, job, ranks, packed=False)
    rows = []
    for name in given.commands:
        runs = side_by_side(
            {
                _ALONE: _run(folder, name, jobs["one"], _HERE),
                _HERE: _run(folder, name, jobs["several"], _HERE),
                _POOL: _run(folder, name, jobs["several"], _POOL),
            },
            given.rounds,
        )
        rows += rows_of(f"{name}, {given.ranks} ranks", runs)
    return rows


def _small(folder: Path, rounds: int) -> list[Row]:
    """A summary of ever more ranks that are next to nothing: from how many on the pool pays."""
    rows = []
    with gzip.open(DEMO / "kineto_trace_0.json.gz") as packed:
        trace = folder / "trace.json"
        trace.write_bytes(packed.read())
    for ranks in (2, 16, 64):
        job = folder / f"small{ranks}"
        job.mkdir()
        write_job(trace, job, ranks)
        subjects = {engine: _run(folder, "check", job, engine) for engine in (_HERE, _POOL)}
        for engine, found in side_by_side(subjects, rounds).items():
            of = typical(found)
            subject = f"check of {ranks} small ranks, {engine}"
            rows.append(Row("engine", subject, of.seconds, of.cpu_seconds, of.peak_bytes))
    return rows


def _run(folder: Path, name: str, job: Path, engine: str) -> Callable[[], Measured]:
    return partial(_measured, folder, _COMMANDS[name], job, engine)


def _measured(folder: Path, words: Sequence[str], job: Path, engine: str) -> Measured:
    with tempfile.TemporaryDirectory(dir=folder) as out:
        paths = {"JOB": str(job), "OUT": str(Path(out) / "out")}
        given = [paths.get(word, word) for word in words]
        return command([sys.executable, "-m", "tracebraid", *given, "--engine", engine])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.engine", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "trace", nargs="?", type=Path, metavar="TRACE", help="a Kineto trace, .json or .json.gz"
    )
    parser.add_argument("--traces", type=Path, metavar="DIR", help="the folder of real traces")
    parser.add_argument("--ranks", type=int, default=4, metavar="N", help="how many ranks (4)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often each is measured (3)")
    parser.add_argument("--commands", nargs="+", choices=_COMMANDS, default=["summary", "report", "pack"])
    parser.add_argument("--start", action="store_true", help="measure small ranks instead")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


if __name__ == "__main__":
    main()
