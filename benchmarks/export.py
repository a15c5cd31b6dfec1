"""Measure the export of timelines to Perfetto and to Chrome JSON: slices a second, sizes, and the shares of each part.

    python -m benchmarks.export [TRACE] [--rounds 3] [--ranks 8] [--traces DIR] [--json]

The trace is read once, and what analyses know of it is computed once; `tracks and arguments` makes the timeline from
its tables, `Perfetto` and `Chrome JSON` encode that, `gzip` compresses what Perfetto takes. Each is a median over rounds
in this process. The job has so many copies of a trace with NCCL, each with a rank of its own; its rows are whole
exports, with reading both times, clocks, counters and the critical path. Without TRACE, that of 54 MB is measured.
"""

from __future__ import annotations

import argparse
import gzip
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import TypeVar

import tracebraid
from benchmarks.inputs import DEMO, Inputs, find_real_traces
from benchmarks.table import Row, Target, as_json, as_table
from tracebraid.api.exports.job_facts import job_facts
from tracebraid.api.exports.options import ExportOptions
from tracebraid.api.exports.rank_timeline import rank_timeline
from tracebraid.exporters.perfetto.chrome import chrome_chunks
from tracebraid.exporters.perfetto.protobuf import protobuf_chunks
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
    made_s, process = _timed(rounds, lambda: rank_timeline(linked, facts, options, 0))
    protobuf_s, chunks = _timed(rounds, lambda: list(protobuf_chunks([process])))
    chrome_s, text = _timed(rounds, lambda: list(chrome_chunks([process], facts.earliest_ns)))
    target = folder / "x.pftrace.gz"
    gzip_s, packed = _timed(rounds, lambda: write_whole(target, chunks, overwrite=True))
    slices, binary = len(process.slices), sum(map(len, chunks))
    both = made_s + protobuf_s
    goal = Target(f"{LEAST_SLICES_PER_SECOND:,.0f} slices/s", slices / both >= LEAST_SLICES_PER_SECOND)
    return [
        Row(
            "export", "tracks and arguments", made_s, figures={"slices/s": slices / made_s, "slices": slices}
        ),
        Row("export", "Perfetto", protobuf_s, figures={"slices/s": slices / protobuf_s, "MB": binary / 1e6}),
        Row("export", "both", both, figures={"slices/s": slices / both}, target=goal),
        Row("export", "gzip", gzip_s, figures={"slices/s": slices / gzip_s, "MB": packed / 1e6}),
        Row(
            "export",
            "Chrome JSON",
            chrome_s,
            figures={
                "slices/s": slices / chrome_s,
                "MB": sum(map(len, text)) / 1e6,
                "times Perfetto": chrome_s / protobuf_s,
            },
        ),
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

        seconds, slices = _timed(rounds, whole)
        figures = {"slices/s": slices / seconds, "slices": slices, "MB": target.stat().st_size / 1e6}
        rows.append(Row("export", f"{len(job)} ranks, {to}, files to file", seconds, figures=figures))
    return rows


def ranks_in(folder: Path, source: Path, ranks: int) -> Path:
    """A folder of so many ranks, each with a copy of a trace."""
    folder.mkdir()
    text = gzip.decompress(source.read_bytes())
    for rank in range(ranks):
        own = _RANK.sub(rb"\g<1>%d" % rank, text, count=1)
        (folder / f"kineto_trace_{rank}.json").write_bytes(own)
    return folder


def _timed(rounds: int, work: Callable[[], T]) -> tuple[float, T]:
    """The median time of some rounds, and the last answer."""
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        answer = work()
        seconds.append(time.perf_counter() - start)
    return median(seconds), answer


if __name__ == "__main__":
    main()
