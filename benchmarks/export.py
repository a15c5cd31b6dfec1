"""Measure the export of timelines to Perfetto and to Chrome JSON: slices a second, sizes, and the shares of each part.

    python -m benchmarks.export [TRACE] [--rounds 3] [--ranks 8] [--traces DIR] [--json]

The trace is read once, and what analyses know of it is computed once; `tracks and arguments` makes the timeline from
its tables, `Perfetto` and `Chrome JSON` encode that, `gzip` compresses what Perfetto takes. Each is a median over
rounds in this process, and slices a second are of processor time. The job has so many copies of a trace with NCCL,
each with a rank of its own; its rows are whole exports, with reading both times, clocks, counters and the critical
path. Without TRACE, that of 54 MB is measured.
"""

from __future__ import annotations

import argparse
import gzip
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import tracebraid
from benchmarks.inputs import DEMO, Inputs, find_real_traces
from benchmarks.measure import Measured, Stopwatch, typical
from benchmarks.table import Row, Target, as_json, as_table
from tracebraid.api.exports.job_facts import job_facts
from tracebraid.api.exports.options import ExportOptions
from tracebraid.api.exports.rank_timeline import rank_timeline
from tracebraid.exporters.perfetto.chrome import CHROME
from tracebraid.exporters.perfetto.protobuf import PROTOBUF
from tracebraid.files import write_whole
from tracebraid.model.job import Job

__all__ = ["ranks_in", "rows_of_job", "rows_of_trace"]

T = TypeVar("T")

LEAST_SLICES_PER_SECOND = 300e3
"""From the tables of a trace to Perfetto's protobuf: the project's target."""
_NCCL = "kineto/a100_ddp_nccl_rank0of2.json.gz"
_RANK = re.compile(rb'("rank": ?)\d+')


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trace", type=Path, nargs="?", metavar="TRACE")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often each is measured (3)")
    parser.add_argument("--ranks", type=int, default=8, metavar="N", help="ranks of the job (8)")
    parser.add_argument("--traces", type=Path, metavar="DIR", help="the folder of real traces")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    real = find_real_traces(given.traces)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        trace = given.trace or Inputs(folder, real).timeline()
        rows = rows_of_trace(tracebraid.open(trace), folder, given.rounds)
        source = DEMO / "kineto_trace_0.json.gz" if real is None else real / _NCCL
        rows += rows_of_job(
            tracebraid.open(ranks_in(folder / "ranks", source, given.ranks)), folder, given.rounds
        )
    print(as_json(rows) if given.json else as_table(rows))


def rows_of_trace(job: Job, folder: Path, rounds: int) -> list[Row]:
    """What each part of an export of a single trace takes."""
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
        _row("tracks and arguments", made, slices, slices=slices),
        _row("Perfetto", protobuf, slices, MB=binary / 1e6),
        _row("both", both, slices, goal),
        _row("gzip", gzipped, slices, MB=packed / 1e6),
        _row("Chrome JSON", chrome, slices, MB=sum(map(len, text)) / 1e6, times_perfetto=times),
    ]


def rows_of_job(job: Job, folder: Path, rounds: int) -> list[Row]:
    """What whole exports of a job take, from its files to the new one."""
    rows = []
    for to, name in (("perfetto", "job.pftrace.gz"), ("chrome", "job.json.gz")):
        print(f"  {len(job)} ranks, {to}", file=sys.stderr)
        target = folder / name

        def whole(to: str = to, target: Path = target) -> int:
            target.unlink(missing_ok=True)
            return tracebraid.export(job, target, to).rows or 0

        took, slices = _timed(rounds, whole)
        size = target.stat().st_size / 1e6
        rows.append(_row(f"{len(job)} ranks, {to}, files to file", took, slices, slices=slices, MB=size))
    return rows


def ranks_in(folder: Path, source: Path, ranks: int) -> Path:
    """A folder of so many ranks, each with a copy of a trace."""
    folder.mkdir()
    text = gzip.decompress(source.read_bytes())
    for rank in range(ranks):
        own = _RANK.sub(rb"\g<1>%d" % rank, text, count=1)
        (folder / f"kineto_trace_{rank}.json").write_bytes(own)
    return folder


def _timed(rounds: int, work: Callable[[], T]) -> tuple[Measured, T]:
    """The medians of some rounds, and the last answer."""
    runs = []
    for _ in range(rounds):
        watch = Stopwatch()
        answer = work()
        runs.append(watch.stop())
    return typical(runs), answer


def _row(subject: str, took: Measured, count: int, target: Target | None = None, **figures: float) -> Row:
    """A row; slices a second are of processor time, which other programs on the machine change less."""
    rates = {"slices/s": count / took.cpu_seconds, **figures}
    return Row("export", subject, took.seconds, took.cpu_seconds, took.peak_bytes, rates, target)


if __name__ == "__main__":
    main()
