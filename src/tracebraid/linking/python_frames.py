"""When Python frames end: Kineto may end one late, which the frames that run after it prove."""

from __future__ import annotations

import polars as pl

from tracebraid.linking.rounding import TOLERANCE_NS
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.timeline import Timeline
from tracebraid.model.units import NS_PER_MS

__all__ = ["EXIT_NS", "late_frame_findings", "proven_ends"]

EXIT_NS = 1_000_000
"""How long a built-in function that closes an annotation may go on after that: 1 ms, where traces have some µs."""

_BUILT_IN = "<built-in "
_TABLE_SCHEMA = {"event_id": pl.Int64, "python_id": pl.Int64, "python_parent_id": pl.Int64}
_FRAME_SCHEMA = {"event_id": pl.Int64, "proven_end_ns": pl.Int64}


def proven_ends(timeline: Timeline) -> pl.DataFrame:
    """The frames that end late, and when they ended at the latest: `event_id`, `proven_end_ns`.

    Kineto names each frame's caller by its `Python parent id`. A frame is over when its caller calls another
    function, and when its caller returns.
    """
    frames = _frames(timeline)
    if frames.is_empty():
        return pl.DataFrame(schema=_FRAME_SCHEMA)
    of_caller = ["lane", "python_parent_id"]
    cut = frames.sort(*of_caller, "ts_ns", "event_id").with_columns(
        pl.min_horizontal("end_ns", pl.col("ts_ns").shift(-1).over(of_caller)).alias("cut_ns")
    )
    callers = cut.select("lane", pl.col("python_id").alias("python_parent_id"), caller_end_ns="cut_ns")
    cut = cut.join(callers.unique(of_caller, keep="none"), on=of_caller, how="left").with_columns(
        pl.when(pl.col("caller_end_ns") >= pl.col("ts_ns"))
        .then(pl.min_horizontal("cut_ns", "caller_end_ns"))
        .otherwise("cut_ns")
        .alias("proven_end_ns")
    )
    late = cut.filter(pl.col("end_ns") > pl.col("proven_end_ns") + TOLERANCE_NS)
    return late.select(list(_FRAME_SCHEMA))


def late_frame_findings(timeline: Timeline, tree: pl.DataFrame) -> list[Finding]:
    """A finding that counts the frames whose end in the Kineto trace is wrong.

    That is proven by other frames (`proven_ends`), or by the op that a frame began in, which cannot end before what
    it calls. A frame that closes an annotation does outlast it; a built-in function by no more than `EXIT_NS`.

    Args:
        timeline: the Kineto trace.
        tree: its `host_tree`.
    """
    if not timeline.has_role(Role.PYTHON):
        return []
    events = timeline.events.select("event_id", "name", "category", "ts_ns", "dur_ns")
    frames = events.filter(as_text("category").is_in(categories_of(Role.PYTHON)))
    table = timeline.tables.get("python_functions", pl.DataFrame(schema=_TABLE_SCHEMA))
    cut = (
        frames.join(tree, on="event_id")
        .filter(pl.col("dur_ns") - pl.col("inclusive_ns") > TOLERANCE_NS)
        .join(table.select("event_id", "python_id"), on="event_id", how="left")
    )
    if cut.is_empty():
        return []
    of_op = events.select(op_event="event_id", op_category=as_text("category"))
    by_op = pl.col("op_category").is_in(categories_of(Role.OP)).fill_null(False)
    by_frames = pl.col("event_id").is_in(proven_ends(timeline).get_column("event_id").implode())
    over_long = pl.col("dur_ns") - pl.col("inclusive_ns") > EXIT_NS
    built_in = as_text("name").str.starts_with(_BUILT_IN)
    late = (
        cut.join(of_op, on="op_event", how="left")
        .filter(by_op | by_frames | (over_long & built_in & ~_calls_at_its_cut(cut, table, events)))
        .sort("event_id")
    )
    if late.is_empty():
        return []
    longest = late.select((pl.col("dur_ns") - pl.col("inclusive_ns")).max()).item() / NS_PER_MS
    where = f"event {late.item(0, 'event_id')} ({late.item(0, 'name')})"
    return [Finding.of(FindingCode.FRAME_END_LATE, timeline.path, where, late.height, longest_ms=longest)]


def _frames(timeline: Timeline) -> pl.DataFrame:
    table = timeline.tables.get("python_functions")
    if table is None or table.is_empty():
        return pl.DataFrame(schema={"event_id": pl.Int64})
    events = timeline.events.select(
        "event_id", "lane", "ts_ns", (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns")
    )
    return (
        table.select("event_id", "python_id", "python_parent_id")
        .filter(pl.col("python_id").is_not_null() & pl.col("python_parent_id").is_not_null())
        .join(events, on="event_id")
    )


def _calls_at_its_cut(cut: pl.DataFrame, table: pl.DataFrame, events: pl.DataFrame) -> pl.Expr:
    """Whether a frame was in a call of its own at the moment where it is cut: then that call closed the annotation."""
    callers = cut.select(
        pl.col("python_id").alias("python_parent_id"),
        pl.col("event_id").alias("caller"),
        (pl.col("ts_ns") + pl.col("inclusive_ns")).alias("cut_ns"),
    ).drop_nulls()
    calling = (
        table.select("event_id", "python_parent_id")
        .join(callers, on="python_parent_id")
        .join(events, on="event_id")
        .filter(
            (pl.col("ts_ns") <= pl.col("cut_ns")) & (pl.col("cut_ns") <= pl.col("ts_ns") + pl.col("dur_ns"))
        )
    )
    return pl.col("event_id").is_in(calling.get_column("caller").implode())
