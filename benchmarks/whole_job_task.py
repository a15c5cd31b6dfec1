"""A job of copies of one trace, asked in this process: `python -m benchmarks.whole_job_task PATH RANKS` prints JSON.

The trace is read once; each time a rank is asked for, it gets a copy of the tables with its own rank and clock, which
is linked anew. So time and memory are those of a job but for the reading. The parts, in seconds:

- `first QUESTION`: the questions one after another, each with what it takes of the ranks beyond those before it.
- `again QUESTION`: the same once more. Of ranks nothing is taken a second time: what is left is between the ranks.
- `advise`, `metrics`: alone, on a job that was asked nothing before.
- `bytes TABLE`: bytes, no time: what is kept of all ranks for each table.
"""

from __future__ import annotations

import json
import resource
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from benchmarks.measure import Measured, Stopwatch

if TYPE_CHECKING:
    from tracebraid.model.job import Job
    from tracebraid.model.timeline import Timeline

__all__ = ["RANKS_PER_HOST", "SKEW_NS", "job_of_copies"]

RANKS_PER_HOST = 8
SKEW_NS = 3_000_000
"""By how much the clock of each host is ahead of that of the host before it."""
_LATE_NS = 150_000
"""By how much a rank's events may be late: each has its own amount below that, so that there is something to find."""


def job_of_copies(timeline: Timeline, ranks: int) -> Job:
    """A job whose ranks are copies of one trace, each with its rank, its host's clock and its lateness."""
    import polars as pl

    from tracebraid.linking.link_traces import link_traces
    from tracebraid.model.job import Job
    from tracebraid.model.rank_files import RankFiles

    def load(files: RankFiles, _: object) -> Any:
        moved = files.rank // RANKS_PER_HOST * SKEW_NS + files.rank * 7919 % _LATE_NS
        tables = {
            name: table.with_columns(pl.col("ts_ns") + moved) if "ts_ns" in table.columns else table
            for name, table in timeline.tables.items()
        }
        return link_traces(replace(timeline, rank=files.rank, world_size=ranks, tables=tables))

    return Job("copies", tuple(RankFiles(rank, "copy", None) for rank in range(ranks)), load)


def _questions() -> dict[str, Callable[[Any], object]]:
    import tracebraid
    from tracebraid.analysis.job_catalog import JOB_ANALYSES

    asked: dict[str, Callable[[Any], object]] = {
        analysis.name: getattr(tracebraid, analysis.name) for analysis in JOB_ANALYSES
    }
    return {**asked, "metrics": tracebraid.metrics, "advise": tracebraid.advise}


def _kept_bytes(job: Job) -> dict[str, float]:
    """Bytes of the tables that the job keeps, by the name of the function that took them."""
    import polars as pl

    sums: dict[str, float] = defaultdict(float)
    for (_, key), kept in job._taken.items():
        question = key[0] if isinstance(key, tuple) else key
        if isinstance(kept, pl.DataFrame):
            sums[f"bytes {getattr(question, '__name__', question)}"] += int(kept.estimated_size())
    return dict(sums)


def _whole_job(path: str, ranks: int) -> Measured:
    from tracebraid import demo_path, read_timeline

    questions = _questions()
    small = job_of_copies(read_timeline(demo_path() / "kineto_trace_0.json.gz"), 2)
    for ask in questions.values():
        ask(small)
    timeline = read_timeline(path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    whole, parts = Stopwatch(), {}
    job = job_of_copies(timeline, ranks)
    for occasion in ("first", "again"):
        for name, ask in questions.items():
            watch = Stopwatch()
            ask(job)
            parts[f"{occasion} {name}"] = watch.stop().seconds
    for name in ("advise", "metrics"):
        watch = Stopwatch()
        questions[name](job_of_copies(timeline, ranks))
        parts[f"alone {name}"] = watch.stop().seconds
    parts |= _kept_bytes(job)
    parts["peak before"] = before
    return replace(whole.stop(), parts=parts)


if __name__ == "__main__":
    print(json.dumps(asdict(_whole_job(sys.argv[1], int(sys.argv[2])))))
