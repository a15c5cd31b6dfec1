"""From which other activities the duration of an activity may be drawn: those of the same op in the other steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.graph.critical_path.slack import own_work
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.codes import ActivityKind
from tracebraid.model.graph.dependency_graph import DependencyGraph

__all__ = ["Samples", "samples"]

_Ints = NDArray[np.int64]

_SAME = ["rank", "kind", "name", "op"]
_FIXED = (ActivityKind.THREAD.value, ActivityKind.COLLECTIVE.value)
"""A thread is there once for all steps, a collective has no work of its own."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Durations that activities may have.

    Args:
        first: where the durations of each activity's group begin in `work_ns`.
        count: how many there are; below 2: nothing to draw from.
        work_ns: the own work of the members of all groups.
        own_ns: the own work of each activity.
    """

    first: _Ints
    count: _Ints
    work_ns: _Ints
    own_ns: _Ints


def samples(graph: DependencyGraph) -> Samples:
    """What each activity's duration may be drawn from.

    That are the activities of the same rank, kind, name and op at the same position among these in every step, its
    own step among them. Where there is one step, or none, it is all activities of the same rank, kind, name and op.
    The names of steps count without their number.
    """
    own_ns = own_work(graph)
    rows = graph.activities.select(
        "rank", as_text("kind", "op", "step"), as_text("name").str.replace(r"#\d+$", "")
    ).with_columns(position=pl.int_range(pl.len()).over([*_SAME, "step"]))
    by_position, shared = _groups(rows, [*_SAME, "position"], pl.col("step").is_not_null())
    by_name, _ = _groups(rows, _SAME, pl.lit(True))
    group = np.where(shared, by_position, by_name + rows.height)
    fixed = rows.select(pl.col("kind").is_in(_FIXED).fill_null(True)).to_series().to_numpy()
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    first = np.searchsorted(ordered, group, side="left")
    count = np.where(fixed, 0, np.searchsorted(ordered, group, side="right") - first)
    return Samples(first, count, own_ns[order], own_ns)


def _groups(rows: pl.DataFrame, same: list[str], counts: pl.Expr) -> tuple[_Ints, NDArray[np.bool_]]:
    """The group of each row, as the row of its first member; whether several rows that count are in it."""
    numbered = rows.with_row_index("row").with_columns(counts=counts)
    found = numbered.select(
        pl.col("row").first().over([*same, "counts"]).cast(pl.Int64).alias("group"),
        (pl.col("counts") & (pl.len().over([*same, "counts"]) > 1)).alias("shared"),
    )
    return found.get_column("group").to_numpy(), found.get_column("shared").to_numpy()
