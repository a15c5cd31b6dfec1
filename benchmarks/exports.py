"""Exports: timelines for Perfetto and Chrome, and Chakra traces."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import tracebraid
from benchmarks.inputs import Given
from benchmarks.made_jobs import ranks_in
from benchmarks.measure import (
    Measured,
    Row,
    Stopwatch,
    Target,
    command,
    row_of,
    side_by_side,
    typical,
)
from tracebraid.api.exports.export import ExportOptions
from tracebraid.api.exports.job_facts import job_facts
from tracebraid.api.exports.perfetto import rank_timeline
from tracebraid.exporters.perfetto.chrome import CHROME
from tracebraid.exporters.perfetto.protobuf import PROTOBUF
from tracebraid.files import write_whole
from tracebraid.model.engine import Job

T = TypeVar("T")

LEAST_SLICES_PER_SECOND = 300e3
"""From the tables of a trace to Perfetto's protobuf: the project's target."""


def rows_of_trace(job: Job, folder: Path, rounds: int) -> list[Row]:
    """Measure each part of an export of a single trace."""
    print("  single trace", file=sys.stderr)
    options = ExportOptions()
    facts = job_facts(job, options)
    linked = facts.only
    if linked is None:
        raise SystemExit("give one trace")
    made, process = _timed(rounds, lambda: rank_timeline(linked, facts, options, 0))
    protobuf, chunks = _timed(rounds, lambda: list(PROTOBUF.process(process, 0)))
    chrome, text = _timed(rounds, lambda: list(CHROME.process(process, facts.earliest_ns)))
    target = folder / "x.pftrace.gz"
    gzipped, packed = _timed(rounds, lambda: write_whole(target, chunks, overwrite=True))
    slices, binary = len(process.slices), sum(map(len, chunks))
    cpu_seconds = made.cpu_seconds + protobuf.cpu_seconds
    both = Measured(made.seconds + protobuf.seconds, cpu_seconds, protobuf.peak_bytes)
    goal = Target(f"{LEAST_SLICES_PER_SECOND:,.0f} slices/s", slices / cpu_seconds >= LEAST_SLICES_PER_SECOND)
    times = chrome.cpu_seconds / protobuf.cpu_seconds
    return [
        _sliced("tracks and arguments", made, slices, slices=slices),
        _sliced("Perfetto", protobuf, slices, MB=binary / 1e6),
        _sliced("both", both, slices, goal),
        _sliced("gzip", gzipped, slices, MB=packed / 1e6),
        _sliced("Chrome JSON", chrome, slices, MB=sum(map(len, text)) / 1e6, times_perfetto=times),
    ]


def rows_of_job(job: Job, folder: Path, rounds: int) -> list[Row]:
    """Measure whole exports of a job, from its files to the new one."""
    rows = []
    for to, name in (("perfetto", "job.pftrace.gz"), ("chrome", "job.json.gz")):
        print(f"  {len(job)} ranks, {to}", file=sys.stderr)
        target = folder / name

        def whole(to: str = to, target: Path = target) -> int:
            target.unlink(missing_ok=True)
            return tracebraid.export(job, target, to).rows or 0

        took, slices = _timed(rounds, whole)
        size = target.stat().st_size / 1e6
        rows.append(_sliced(f"{len(job)} ranks, {to}, files to file", took, slices, slices=slices, MB=size))
    return rows


def _timed(rounds: int, work: Callable[[], T]) -> tuple[Measured, T]:
    """The medians of some rounds, and the last answer."""
    runs = []
    for _ in range(rounds):
        watch = Stopwatch()
        answer = work()
        runs.append(watch.stop())
    return typical(runs), answer


def export(given: Given) -> list[Row]:
    """Slices a second of processor time, sizes, and the parts of an export; then whole exports of copies of a rank."""
    rows = rows_of_trace(tracebraid.open(given.timeline), given.folder, given.rounds)
    for ranks in given.ranks:
        job = tracebraid.open(ranks_in(given.folder / f"exported{ranks}", given.inputs.nccl, ranks))
        rows += rows_of_job(job, given.folder, given.rounds)
    return rows


def _sliced(subject: str, took: Measured, count: int, target: Target | None = None, **figures: float) -> Row:
    return row_of("export", subject, took, {"slices/s": count / took.cpu_seconds, **figures}, target)


MOST_SECONDS = 3.0
MOST_BYTES = 500_000_000
"""The project's targets for a rank of 216,000 events."""
_DETAILS = ("full", "device", "merged")


def _export(out: Path, source: Path, detail: str) -> Measured:
    shutil.rmtree(out, ignore_errors=True)
    words = [sys.executable, "-m", "tracebraid", "export", str(source), "--to", "chakra", "-o", str(out)]
    took = command([*words, "--detail", detail, "--missing", "shrink", "--engine", "in-process"])
    written = sum(path.stat().st_size for path in out.glob("*.et"))
    return Measured(took.seconds, took.cpu_seconds, took.peak_bytes, {"MB": written / 1e6})


def chakra_export(given: Given) -> Iterator[Row]:
    """The whole command in one process: a large rank at each level of detail, and jobs of copies of a rank."""
    subjects = {f"one rank, {detail}": (given.timeline, detail) for detail in _DETAILS}
    for ranks in given.ranks:
        job = ranks_in(given.folder / f"chakra{ranks}", given.inputs.nccl, ranks)
        subjects[f"{ranks} ranks, full"] = (job, "full")
    exports: dict[str, Callable[[], Measured]] = {
        name: partial(_export, given.folder / "chakra_out", *subject) for name, subject in subjects.items()
    }
    for name, runs in side_by_side(exports, given.rounds).items():
        took = typical(runs)
        met = took.seconds <= MOST_SECONDS and took.peak_bytes <= MOST_BYTES
        goal = Target(f"{MOST_SECONDS:g} s, {MOST_BYTES / 1e6:g} MB", met)
        yield row_of("chakra export", name, took, took.parts, goal if name == "one rank, full" else None)
