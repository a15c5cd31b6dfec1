"""What slices waited for, beside what launched them and what ran before them on their stream."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.event_columns import fetched, rows_of_events
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.report.timeline_tables import TIMELINE_LINKS

__all__ = ["links_of", "rows_of"]

_SHOWN_BY_SLICES = ("launch", "stream_order", "forward_backward")
"""Kinds that need no links: slices have `call` and `op` and an order; `forward_backward` is a table of its own."""


def rows_of(drawn: pl.DataFrame, events: pl.Series) -> pl.Series:
    """The row of the slice that stands for each event; null for one that is null, or not drawn.

    Args:
        drawn: see `RankSlices.drawn`.
        events: ids of events.
    """
    at = rows_of_events(drawn.get_column("event_id"), events)
    return fetched(drawn.select("row"), at).get_column("row")


def links_of(linked: LinkedTrace, drawn: pl.DataFrame) -> pl.DataFrame:
    """The dependencies whose ends are both drawn, each once: `TIMELINE_LINKS`, by rows of the rank's slices.

    Args:
        linked: one rank.
        drawn: see `RankSlices.drawn`.
    """
    waits = linked.dependencies.filter(~as_text("kind").is_in(_SHOWN_BY_SLICES)).select(
        "before_event", "after_event", as_text("kind"), "slack_ns"
    )
    backward = linked.forward_backward.select(
        pl.col("forward_event").alias("before_event"),
        pl.col("backward_event").alias("after_event"),
        pl.lit("forward_backward").alias("kind"),
        pl.lit(None, dtype=pl.Int64).alias("slack_ns"),
    )
    both = pl.concat([waits, backward])
    found = both.with_columns(
        rows_of(drawn, both.get_column(f"{end}_event")).alias(end) for end in ("before", "after")
    )
    ends = found.filter(pl.col("before").is_not_null() & (pl.col("before") != pl.col("after")))
    ends = ends.drop_nulls("after").unique(["before", "after", "kind"], keep="first", maintain_order=True)
    return TIMELINE_LINKS.conform(ends)
