"""Ranks that are as fast as the others."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.model.graph.codes import ActivityKind, Point
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.simulation.changes.work import with_totals, work_of

__all__ = ["as_median"]

_COMMUNICATES = (ActivityKind.COMMUNICATION.value, ActivityKind.COLLECTIVE.value)


def as_median(graph: DependencyGraph, chosen: NDArray[np.bool_]) -> DependencyGraph:
    """Each chosen activity works as long as the median of its counterparts on the ranks that are not chosen.

    Counterparts have its kind, name, op and step, and are the n-th of these on their rank, as it is on its own;
    threads are the n-th of their rank. What has none stays as it is, and so does communication.

    Args:
        graph: the graph.
        chosen: whether each activity is meant.

    Raises:
        ArgumentError: there is no other rank, or nothing has a counterpart.
    """
    ranks = graph.activities.get_column("rank")
    of_chosen = ranks.filter(pl.Series(chosen)).unique().drop_nulls()
    others = ranks.is_not_null() & ~ranks.is_in(of_chosen.implode()).fill_null(value=True)
    if not others.any():
        raise ArgumentError("there is no other rank to compare with; select fewer, such as as-median rank=3")
    is_thread = pl.col("kind") == ActivityKind.THREAD.value
    name = pl.when(is_thread).then(None).otherwise("name").alias("name")
    table = graph.activities.select("rank", "kind", name, "op", "step").with_columns(
        pl.Series("work_ns", work_of(graph)),
        pl.Series("position", graph.moment_of[:, Point.START], dtype=pl.Int64),
        pl.Series("is_chosen", chosen),
        others.alias("is_other"),
    )
    table = table.with_row_index("activity").filter(
        (pl.col("is_chosen") | pl.col("is_other")) & ~pl.col("kind").cast(pl.String).is_in(_COMMUNICATES)
    )
    key = ["kind", "name", "op", "step"]
    table = table.sort("position").with_columns(pl.int_range(pl.len()).over("rank", *key).alias("number"))
    median = (
        table.filter("is_other").group_by(*key, "number").agg(pl.col("work_ns").median().alias("median_ns"))
    )
    found = (
        table.filter("is_chosen")
        .join(median, on=[*key, "number"], how="inner", nulls_equal=True)
        .select("activity", "median_ns")
    )
    if found.is_empty():
        raise ArgumentError("nothing that was selected has a counterpart on another rank")
    rows = found.get_column("activity").to_numpy()
    totals, matched = np.zeros(len(chosen)), np.zeros(len(chosen), dtype=np.bool_)
    totals[rows], matched[rows] = found.get_column("median_ns").to_numpy(), True
    return with_totals(graph, matched, totals)
