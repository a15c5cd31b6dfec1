"""When the steps of a rank begin and end on its host."""

from __future__ import annotations

import polars as pl

from tracebraid.model.expressions import as_text
from tracebraid.model.graph.codes import ActivityKind
from tracebraid.model.graph.rank_graph import RankGraph

__all__ = ["step_marks"]

_MARKS = (ActivityKind.ANNOTATION.value, ActivityKind.OP.value)


def step_marks(graph: RankGraph) -> pl.DataFrame:
    """A row for each step: `step`, `activity`, `start_ns`, `end_ns`, by their starts.

    Args:
        graph: of one rank, whose activities name their steps.
    """
    rows = graph.activities.select("kind", "name", "step", "start_ns", "end_ns").with_row_index("activity")
    steps = rows.get_column("step").unique().drop_nulls().cast(pl.String)
    marks = rows.filter(as_text("name").is_in(steps.implode()), as_text("kind").is_in(_MARKS))
    return (
        marks.select(as_text("name").alias("step"), pl.col("activity").cast(pl.Int64), "start_ns", "end_ns")
        .sort("start_ns", "end_ns", maintain_order=True)
        .unique("step", keep="first", maintain_order=True)
    )
