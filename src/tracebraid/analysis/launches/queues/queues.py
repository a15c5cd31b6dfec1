"""How many launches wait on each stream: the changes of its queue, one after the other."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.launches.launched_work import STREAM, launched_work
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["queue_changes", "queue_changes_of"]


def queue_changes_of(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """`queue_changes` of a rank's device events.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    return linked.derived(_queue_changes_of, annotation)


def _queue_changes_of(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    return queue_changes(launched_work(linked, annotation))


def queue_changes(work: pl.DataFrame) -> pl.DataFrame:
    """The changes of each stream's queue, by stream and time.

    Columns: device, stream, step, ts_ns, length, launches, call_event.

    A device event joins the queue of its stream when the call that launches it starts, and leaves it when it starts
    itself (HTA's definition); all events of a graph join at once. `length` counts device events, `launches` the
    calls of which some event on the stream has not started. At one moment, events join before others leave. An event
    that starts before its call, by an error of clocks, joins when it starts. `call_event` is null where an event
    leaves. Events without a call in the trace are left out.

    Args:
        work: as `launched_work` gives it.
    """
    known = work.filter(pl.col("call_event").is_not_null())
    of_call = [*STREAM, "call_event"]
    joins = known.select(
        *STREAM,
        "step",
        "event_id",
        "call_event",
        pl.min_horizontal("called_ns", "ts_ns").alias("ts_ns"),
        pl.lit(1, dtype=pl.Int64).alias("change"),
        pl.struct(of_call).is_first_distinct().cast(pl.Int64).alias("change_of_launches"),
    )
    # Rows of a stream stand in the order of their starts: the last of a call is the last to start.
    leaves = known.select(
        *STREAM,
        "step",
        "event_id",
        pl.lit(None, dtype=pl.Int64).alias("call_event"),
        "ts_ns",
        pl.lit(-1, dtype=pl.Int64).alias("change"),
        (-pl.struct(of_call).is_last_distinct().cast(pl.Int64)).alias("change_of_launches"),
    )
    return (
        pl.concat([joins, leaves])
        .sort(*STREAM, "ts_ns", "change", "event_id", descending=[False, False, False, True, False])
        .with_columns(
            pl.col("change").cum_sum().over(STREAM).alias("length"),
            pl.col("change_of_launches").cum_sum().over(STREAM).alias("launches"),
        )
        .select(*STREAM, "step", "ts_ns", "length", "launches", "call_event")
    )
