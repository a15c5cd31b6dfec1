"""Threads that run Python at the same time: one has the interpreter's lock, the others wait for it."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.host.host_rows import BETWEEN_FRAMES, HostWork
from tracebraid.model.answers.graph import SegmentKind
from tracebraid.model.answers.job import EVIDENCE
from tracebraid.model.expressions import as_text
from tracebraid.model.graph import ActivityKind, DependencyGraph, EdgeKind
from tracebraid.model.name_rules import flags_by_name
from tracebraid.model.questions import PathDetector, Removal
from tracebraid.model.user_frame import is_user_frame

_LEAST_SHARE = 0.05
"""Threads take turns now and then in any program: what is less of the path is no cause."""
_PYTHON = [SegmentKind.PYTHON.value, SegmentKind.ANNOTATION.value]
"""Kinds of segments in which a thread runs Python: in an annotation, what is in no function and no op in it."""
_LEAST_WAIT_NS = 50_000
"""What waits for a thread that computes waits longer: shorter overlaps are threads that wake up or fall asleep."""
_WITHOUT_LOCK = (
    r"^<built-in (function|method) (sleep|acquire|__enter__|wait|select|poll|recv|read|write|fsync|run_backward)\b"
    r"|numpy|^<built-in method \w+ of _io\."
)
"""Built-in functions that give the lock away for most of their time."""
_OPENED_NS = 1_000
"""Functions that begin so soon on their thread were open when the recording began: nobody knows whether they wait."""


def _detect(graph: DependencyGraph, segments: pl.DataFrame) -> pl.DataFrame:
    """Stretches of the path in which a thread is in Python while n others are: n / (n + 1) of it, it waits.

    Ops do not count, nor built-in functions that give the lock away.
    """
    running = _running(graph)
    if running.is_empty() or not (running.get_column("lane") != running.get_column("lane")[0]).any():
        return EVIDENCE.empty()
    python = as_text("host_work").fill_null(HostWork.PYTHON.value) == HostWork.PYTHON.value
    python &= as_text("kind").is_in(_PYTHON) & ~as_text("name").str.contains(_WITHOUT_LOCK)
    found = []
    for (rank, lane), rows in segments.filter(python).group_by("rank", "lane", maintain_order=True):
        others = running.filter((pl.col("rank") == rank) & (pl.col("lane") != lane))
        if not others.is_empty():
            found.append(_waits(rows, others))
    waits = pl.concat([EVIDENCE.empty(), *found])
    saved = waits.get_column("saving_ns").sum()
    if saved <= _LEAST_SHARE * int(segments.get_column("duration_ns").sum()):
        return EVIDENCE.empty()
    return EVIDENCE.conform(graph.ranks.unaligned(waits, "start_ns", "end_ns").sort("rank", "start_ns"))


def _running(graph: DependencyGraph) -> pl.DataFrame:
    """When threads run Python in a user's function: `rank`, `lane`, `start_ns`, `end_ns`, `frames`."""
    columns = ("rank", "lane", "start_ns", "frames")
    table = graph.activities
    if ActivityKind.PYTHON.value not in table.get_column("kind").unique().cast(pl.String):
        return table.select(*columns).clear()
    of_user = flags_by_name(table.get_column("name"), lambda name: is_user_frame(name) | _is_built_in(name))
    opened_ns = pl.col("start_ns").min().over("rank", "lane") + _OPENED_NS
    chosen = (
        (as_text("kind") == ActivityKind.PYTHON.value)
        & (as_text("host_work") == HostWork.PYTHON.value)
        & pl.col("frames").is_not_null()
        & (pl.col("start_ns") > opened_ns)
    )
    flags = of_user & table.select(chosen.fill_null(value=False)).to_series().to_numpy()
    own = flags[graph.edges.activity] & (graph.edges.kind == EdgeKind.HOST) & (graph.edges.work_ns > 0)
    edge, times = np.flatnonzero(own), graph.moments.time_ns
    return table.select(*columns)[graph.edges.activity[edge]].select(
        "rank",
        "lane",
        pl.Series("start_ns", times[graph.edges.before[edge]]),
        pl.Series("end_ns", times[graph.after[edge]]),
        as_text("frames").alias("frames"),
    )


def _is_built_in(name: pl.Expr) -> pl.Expr:
    """Whether it is a built-in function that keeps the lock."""
    return name.str.starts_with("<built-in ") & ~name.str.contains(_WITHOUT_LOCK)


def _waits(rows: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """How long stretches of one thread wait for others, and what these run."""
    starts, ends = (others.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    moments, number = np.unique(np.r_[starts, ends], return_inverse=True)
    change = np.zeros(len(moments), dtype=np.int64)
    np.add.at(change, number, np.r_[np.ones(len(starts), np.int64), np.full(len(ends), -1)])
    count = np.cumsum(change)[:-1]
    waited = np.r_[0.0, np.cumsum(np.diff(moments) * count / (count + 1))]
    begin = rows.get_column("start_ns").to_numpy()
    until = begin + rows.get_column("duration_ns").to_numpy()
    # Times since the epoch have more digits than a float.
    saving = np.interp(until - moments[0], moments - moments[0], waited)
    saving -= np.interp(begin - moments[0], moments - moments[0], waited)
    long = pl.col("end_ns") - pl.col("start_ns")
    functions = others.group_by(
        pl.col("frames").str.split(BETWEEN_FRAMES).list.first().alias("function")
    ).agg(long.sum())
    function = functions.sort("end_ns", "function", descending=[True, False]).item(0, "function")
    threads = others.get_column("lane").n_unique()
    found = rows.select(
        "rank",
        as_text("step").alias("step"),
        "start_ns",
        pl.Series("end_ns", until),
        pl.Series("saving_ns", np.rint(saving).astype(np.int64)),
        "event_id",
        as_text("op").alias("op"),
        pl.lit(function).alias("call_site"),
        pl.lit(f"{threads} other thread{'s' if threads > 1 else ''} run Python meanwhile").alias("subject"),
    )
    return EVIDENCE.conform(found.filter(pl.col("saving_ns") >= _LEAST_WAIT_NS), fill_missing=True)


INTERPRETER_LOCK = PathDetector(
    "interpreter-lock",
    "threads that run Python keep the interpreter's lock from the step",
    "Run this in processes (DataLoader workers, ProcessPoolExecutor) or, where it is little, in the step itself: only "
    "one thread of a process runs Python at a time, and each op waits for its turn, up to 5 ms",
    _detect,
    explains=("host-work",),
    removes=Removal.HOST,
)
