"""Idle time in segments: each with one cause, and with what the host was in all the while."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.host.host_rows import NO_ROW, host_rows
from tracebraid.analysis.host.surroundings import surroundings
from tracebraid.analysis.host.thread_timelines import by_lane, innermost_at, thread_timelines
from tracebraid.analysis.time.idle.blamed_threads import blamed_threads
from tracebraid.analysis.time.idle.cause_parts import CAUSES, cause_parts
from tracebraid.analysis.time.idle.host_context import FIRST_OF_WORK, host_context
from tracebraid.analysis.time.idle.launches import gap_launches
from tracebraid.model.answers import IdleCause
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["idle_segments"]

_Ints = NDArray[np.int64]

_BY_HOST = [
    CAUSES.index(cause.value) for cause in (IdleCause.HOST_LATE, IdleCause.NO_MORE_WORK, IdleCause.UNKNOWN)
]
"""The causes for which it is asked what the host did."""


def idle_segments(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """The parts of `cause_parts`, split further where the host's innermost event changed, in the order of time.

    Columns: `part`, `row` (of `gap_launches`), `start_ns`, `end_ns`, `cause`; `activity`, a number of `Activity`, null
    where the host is not the cause; and rows of `HostRows`, -1 for none: `op`, `top_op`, `annotation`, `module`,
    `frame`.

    Where the host is the cause, a segment is about the thread that launched what ended the gap, if the trace
    shows that it works then; else about its partner, if that works; else about the thread itself if it is in any
    event, and then the partner. A thread that has no annotation or frame of its own borrows those of the other: the
    backward pass runs inside of what the main thread called. Of other causes the op is that of the launch.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    parts = cause_parts(linked, annotation).with_row_index("part").with_columns(pl.col("part").cast(pl.Int64))
    by_host = pl.col("cause").is_in(_BY_HOST)
    late = parts.filter(by_host)
    found = pl.concat(
        [_of_launches(linked, parts.filter(~by_host), annotation), _of_host(linked, late, annotation)]
    )
    # Each of the two is in the order of its parts: a stable sort keeps the order within a part.
    return found[np.argsort(found.get_column("part").to_numpy(), kind="stable")]


def _of_launches(linked: LinkedTrace, parts: pl.DataFrame, annotation: str) -> pl.DataFrame:
    """Parts with what encloses the launch; the call's op counts, or what the work names as its op."""
    launch = gap_launches(linked, annotation).select(pl.coalesce("call_event", "op_event").fill_null(-1))
    events = launch.to_series().to_numpy()[parts.get_column("row").to_numpy()]
    rows = host_rows(linked).rows(events)
    within = surroundings(linked, annotation)
    return parts.with_columns(
        pl.lit(None, dtype=pl.Int8).alias("activity"),
        pl.Series("op", within.op[rows]),
        pl.Series("top_op", within.top_op[rows]),
        pl.Series("annotation", within.annotation[rows]),
        pl.Series("module", within.module[rows]),
        pl.Series("frame", within.frame[rows]),
    )


def _of_host(linked: LinkedTrace, parts: pl.DataFrame, annotation: str) -> pl.DataFrame:
    threads = blamed_threads(linked, annotation)[parts.get_column("row").to_numpy()]
    start, end = (parts.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    thread, partner = (threads.get_column(name).to_numpy() for name in ("thread", "partner"))
    index, moments = _split(linked, start, end, (thread, partner))
    ends = np.r_[moments[1:], 0]
    last = np.r_[index[1:] != index[:-1], True] if len(index) else np.empty(0, dtype=np.bool_)
    ends = np.where(last, end[index], ends[: len(index)])
    own, other = (innermost_at(linked, lanes[index], moments) for lanes in (thread, partner))
    context, within = host_context(linked), surroundings(linked, annotation)
    own_works, other_works = (context.activity[rows] >= FIRST_OF_WORK for rows in (own, other))
    by_own = own_works | (~other_works & (own != NO_ROW))
    rows, helping = np.where(by_own, own, other), np.where(by_own, other, own)
    return parts[index].with_columns(
        pl.Series("start_ns", moments),
        pl.Series("end_ns", ends),
        pl.Series("activity", context.activity[rows]),
        pl.Series("op", within.op[rows]),
        pl.Series("top_op", within.top_op[rows]),
        pl.Series("annotation", _first(within.annotation, rows, helping)),
        pl.Series("module", within.module[rows]),
        pl.Series("frame", _first(within.frame, rows, helping)),
    )


def _first(enclosing: _Ints, rows: _Ints, others: _Ints) -> _Ints:
    found: _Ints = np.where(enclosing[rows] >= 0, enclosing[rows], enclosing[others])
    return found


def _split(
    linked: LinkedTrace, start: _Ints, end: _Ints, threads: tuple[_Ints, _Ints]
) -> tuple[_Ints, _Ints]:
    """The moments at which segments begin, with the index of their interval: its start, and changes of its threads."""
    indices, moments = [np.arange(len(start))], [start]
    timelines = thread_timelines(linked)
    for lanes in threads:
        for lane, members in by_lane(lanes):
            if lane in timelines:
                index, moment = timelines[lane].changes_within(start[members], end[members])
                indices.append(members[index])
                moments.append(moment)
    index, moment = np.concatenate(indices), np.concatenate(moments)
    order = np.lexsort((moment, index))
    index, moment = index[order], moment[order]
    distinct = np.ones(len(index), dtype=np.bool_)
    distinct[1:] = (index[1:] != index[:-1]) | (moment[1:] != moment[:-1])
    return index[distinct], moment[distinct]
