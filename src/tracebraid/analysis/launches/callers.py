"""Who made a call: the ops, the annotation and the Python function around it."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.host.host_rows import events_of_rows, host_rows, names_of_rows
from tracebraid.analysis.host.surroundings import surroundings
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["callers", "with_callers"]


def with_callers(calls: pl.DataFrame, linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Add to calls what encloses each on its thread: `op_event`, and the names `op`, `top_op`, `annotation`, `frame`.

    `op` is the innermost op, `top_op` the outermost; `annotation` the innermost annotation that is no step; `frame` the
    innermost Python function of the user's (`model.user_frame`), or where there is none, the innermost function.

    Args:
        calls: have the column `call_event`.
        linked: one rank.
        annotation: what marks a step.
    """
    return calls.join(callers(linked, annotation), on="call_event", how="left", maintain_order="left")


def callers(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """The same for every call of the host: `call_event` and those columns."""
    return linked.derived(_callers, annotation)


def _callers(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    calls = linked.timeline.host_calls.select("event_id").sort("event_id")
    row = host_rows(linked).rows(calls.get_column("event_id").to_numpy())
    within = surroundings(linked, annotation)
    op = within.op[row]
    names = {
        "op": op,
        "top_op": within.top_op[row],
        "annotation": within.annotation[row],
        "frame": within.frame[row],
    }
    return calls.select(
        pl.col("event_id").alias("call_event"),
        events_of_rows(linked, op).alias("op_event"),
        *(names_of_rows(linked, rows).cast(pl.String).alias(name) for name, rows in names.items()),
    )
