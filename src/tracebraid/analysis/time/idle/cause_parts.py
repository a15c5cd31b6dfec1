"""Each gap in parts with one cause, split at the moments of the launch of what ended it."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.time.idle.launches import gap_launches
from tracebraid.analysis.time.work_events import HOST
from tracebraid.model.answers import IdleCause
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["BLOCKED_NS", "CAUSES", "SLOW_LAUNCH_NS", "cause_parts"]

SLOW_LAUNCH_NS = 50_000
"""A call that launches and lasts longer is itself why the host is late: the limit of HTA's launch statistics
(`runtime_cutoff`, 50 µs) above which a call counts as an outlier."""

BLOCKED_NS = 100_000
"""Work that has been launched and is not started for longer is blocked, by something that the trace does not show: the
limit of HTA's launch statistics (`launch_delay_cutoff`, 100 µs) above which a delay counts as an outlier."""

CAUSES: tuple[str, ...] = tuple(cause.value for cause in IdleCause)
"""The code of each cause, by its number in `cause_parts`."""

_NUMBER = {cause: number for number, cause in enumerate(IdleCause)}


def cause_parts(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """The parts of all gaps in the order of time: `row` (of `gap_launches`), `start_ns`, `end_ns`, `cause` (a number).

    With [g, h) the gap, and [b, e) the call that launched what ended it, both cut to the gap:

    1. Nothing followed: the gap is `no-more-work`. No launch is in the trace, and it is not known to be older than the
       gap: `unknown`. On the host itself the gap is `host-late`, for an op begins when its thread gets to it.
    2. [g, b) is `host-late`, and [b, e) too if the call lasts over `SLOW_LAUNCH_NS` and launches no graph. Where work
       of the same call (a graph) ran earlier, no part is.
    3. What is left, or all of the gap if the call ended before it, is `stream-wait` as far as the work
       of another stream ran in it that had to be waited for.
    4. What is left then: if the work lay in its queue when the gap began, `stream-wait` if it waited for another
       stream, else `queued`; if not, `graph-launch` where a graph is launched, else `launch-latency`.
    5. But if that last part is longer than `BLOCKED_NS`, and no graph was launched in it, it is `stream-wait` if the
       work had to wait for another stream, else `blocked`.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    return linked.derived(_cause_parts, annotation)


def _cause_parts(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    gaps = gap_launches(linked, annotation)
    start, end = (gaps.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    late, called, waited = _bounds(gaps, start, end)
    rest = _cause_of_rest(gaps.with_columns(pl.Series("rest_ns", end - waited)))
    bounds = np.stack([start, late, called, waited, end])
    host, wait = (
        np.full(len(start), _NUMBER[cause]) for cause in (IdleCause.HOST_LATE, IdleCause.STREAM_WAIT)
    )
    causes = np.stack([host, host, wait, rest])
    row = np.broadcast_to(np.arange(len(start)), causes.shape)
    parts = pl.DataFrame(
        {
            "row": row.T.ravel(),
            "start_ns": bounds[:-1].T.ravel(),
            "end_ns": bounds[1:].T.ravel(),
            "cause": causes.T.ravel(),
        },
        schema={"row": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64, "cause": pl.Int64},
    ).filter(pl.col("end_ns") > pl.col("start_ns"))
    # The two first parts of a gap, before and in the call, may be host-late: then they are one part.
    return (
        parts.group_by("row", "cause", maintain_order=True)
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        .select("row", "start_ns", "end_ns", "cause")
    )


def _bounds(
    gaps: pl.DataFrame, start: np.ndarray, end: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Until when the host was late, it was in a slow call, and another stream was waited for."""
    has_call = gaps.get_column("call_event").is_not_null().to_numpy()
    continues, is_graph, waits = (
        gaps.get_column(name).to_numpy() for name in ("continues", "is_graph", "waits")
    )
    begun = gaps.select(pl.coalesce("call_start_ns", "start_ns")).to_series().to_numpy()
    ended = gaps.select(pl.coalesce("call_end_ns", "start_ns")).to_series().to_numpy()
    until = gaps.select(pl.coalesce("until_ns", "start_ns")).to_series().to_numpy()
    on_host = (gaps.get_column("device") == HOST).to_numpy()
    followed = gaps.get_column("next_event").is_not_null().to_numpy()
    late = np.where(has_call & ~continues, np.clip(begun, start, end), start)
    late = np.where(on_host & followed, end, late)
    slow = has_call & ~continues & ~is_graph & (ended - begun > SLOW_LAUNCH_NS)
    called = np.where(slow, np.clip(ended, late, end), late)
    waited = np.where(waits & has_call, np.clip(until, called, end), called)
    return late, called, waited


def _cause_of_rest(gaps: pl.DataFrame) -> np.ndarray:
    """The cause of what is left of each gap, `rest_ns` long."""
    launched = pl.col("call_event").is_not_null() | pl.col("is_older")
    in_queue = pl.col("continues") | pl.col("is_older") | (pl.col("call_end_ns") <= pl.col("start_ns"))
    is_long = (pl.col("rest_ns") > BLOCKED_NS) & (in_queue | ~pl.col("is_graph"))
    number = {cause: pl.lit(value, dtype=pl.Int64) for cause, value in _NUMBER.items()}
    return (
        gaps.select(
            pl.when(pl.col("next_event").is_null())
            .then(number[IdleCause.NO_MORE_WORK])
            .when(~launched)
            .then(number[IdleCause.UNKNOWN])
            .when((in_queue | is_long) & pl.col("waits"))
            .then(number[IdleCause.STREAM_WAIT])
            .when(is_long)
            .then(number[IdleCause.BLOCKED])
            .when(in_queue)
            .then(number[IdleCause.QUEUED])
            .when(pl.col("is_graph"))
            .then(number[IdleCause.GRAPH_LAUNCH])
            .otherwise(number[IdleCause.LAUNCH_LATENCY])
        )
        .to_series()
        .to_numpy()
    )
