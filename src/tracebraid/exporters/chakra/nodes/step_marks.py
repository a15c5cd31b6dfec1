"""When the steps of a rank begin and end on its host."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.expressions import as_text
from tracebraid.model.graph.codes import ActivityKind
from tracebraid.model.graph.rank_graph import RankGraph

__all__ = ["step_at", "step_marks"]

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


def step_at(marks: pl.DataFrame, times_ns: NDArray[np.int64]) -> pl.Series:
    """The name of the step that each time lies in: from its start up to its end; null: in none.

    Args:
        marks: of `step_marks`; where steps overlap the one that began last counts.
        times_ns: in any order.
    """
    if marks.is_empty():
        return pl.select(pl.repeat(None, len(times_ns), dtype=pl.String)).to_series()
    start_ns, end_ns = (marks.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    row = np.searchsorted(start_ns, times_ns, side="right") - 1
    inside = pl.Series((row >= 0) & (times_ns < end_ns[row]))
    names = marks.get_column("step").gather(np.maximum(row, 0))
    found: pl.Series = pl.select(pl.when(inside).then(names)).to_series()
    return found
