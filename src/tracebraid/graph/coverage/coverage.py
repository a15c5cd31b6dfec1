"""How much of the measured time is explained, by kind?"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.graph.coverage.intervals import Intervals, intervals
from tracebraid.graph.coverage.steps import steps_of_intervals
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.codes import EdgeKind, Residual, TimePart, Track
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.schema.graph import GRAPH_COVERAGE

__all__ = ["TRANSFER", "TRANSFER_BOUND", "coverage_of"]

_Ints = NDArray[np.int64]

TRANSFER, TRANSFER_BOUND = "transfer", "transfer_bound"
"""Work of collectives: of all ranks of the group, and an upper bound where ranks are missing."""


def coverage_of(graph: DependencyGraph) -> pl.DataFrame:
    """`GRAPH_COVERAGE`: of each rank and step, what the time of its threads and streams is made of.

    The time of a thread or stream is cut at each of its moments. Of an interval that ends with a moment, the
    moment's residual comes last, at most the interval; before it what its latest edge has as work, at most the rest;
    what remains is waiting for what that edge comes from. So rows add up to the time, to the ns.

    Args:
        graph: the graph.
    """
    found = intervals(graph)
    edge = np.maximum(found.edge, 0)
    has_edges = len(graph.edges) > 0
    kind = graph.edges.kind[edge] if has_edges else np.zeros(len(edge), dtype=np.uint8)
    origins = _origins(graph, found)
    by_edge = _codes(kind, EdgeKind)
    rows = [
        _part(origins, TimePart.WORK, _owners(graph, edge, kind) if has_edges else by_edge, found.work_ns),
        _part(origins, TimePart.LATENCY, by_edge, found.latency_ns),
        _part(origins, TimePart.WAITING, by_edge, found.waiting_ns),
        _part(
            origins,
            TimePart.RESIDUAL,
            _codes(graph.moments.residual[found.moment], Residual),
            found.residual_ns,
        ),
    ]
    by_step = pl.concat(rows)
    if not graph.is_whole:
        by_step = by_step.filter(pl.col("step").is_not_null())
    every = by_step.with_columns(pl.lit(None, dtype=pl.String).alias("step"))
    listed = pl.concat([every, by_step.filter(pl.col("step").is_not_null())])
    summed = listed.group_by("step", "rank", "track", "part", "kind").agg(pl.col("ns").sum())
    whole = pl.col("ns").sum().over("step", "rank", "track")
    return GRAPH_COVERAGE.conform(
        summed.with_columns((pl.col("ns") / whole).alias("share")).sort(
            *("rank", _order(graph), "track", _rank_of_part(), "ns", "kind"),
            descending=[False, False, True, False, True, False],
        )
    )


def _part(origins: pl.DataFrame, part: TimePart, kind: pl.Series, ns: _Ints) -> pl.DataFrame:
    """The sums of a part of the intervals."""
    return (
        origins.with_columns(kind.alias("kind"), pl.Series("ns", ns))
        .filter(pl.col("ns") > 0)
        .group_by("step", "rank", "track", "kind")
        .agg(pl.col("ns").sum())
        .with_columns(as_text("kind"), pl.lit(part.value).alias("part"))
    )


def _origins(graph: DependencyGraph, found: Intervals) -> pl.DataFrame:
    """Step, rank and track of each interval."""
    activity = graph.moments.activity[found.moment]
    rank = graph.activities.get_column("rank").to_numpy()[activity]
    on_device = graph.activities.get_column("stream").is_not_null().to_numpy()[activity]
    step = steps_of_intervals(graph, found, on_device)
    return pl.DataFrame(
        {
            "step": step,
            "rank": pl.Series(rank).cast(pl.Int64),
            "track": pl.Series(np.where(on_device, 1, 0)).replace_strict(
                {0: Track.HOST.value, 1: Track.DEVICE.value}, return_dtype=pl.String
            ),
        }
    )


def _codes(codes: NDArray[np.uint8], names: type[EdgeKind] | type[Residual]) -> pl.Series:
    listed = pl.Series([name.name.lower() for name in names], dtype=pl.String).cast(pl.Categorical())
    found: pl.Series = listed.gather(pl.Series(codes).cast(pl.UInt32))
    return found


def _owners(graph: DependencyGraph, edge: _Ints, kind: NDArray[np.uint8]) -> pl.Series:
    """The kind of the activity that does the work of each edge."""
    bound = graph.ranks.collectives.select(
        "collective", pl.coalesce(pl.col("missing").list.len() > 0, pl.lit(value=True)).alias("is_bound")
    )
    owner = graph.activities.select("kind", "collective")[graph.edges.activity[edge]]
    named = owner.join(bound, on="collective", how="left", maintain_order="left").select(
        pl.when(pl.Series(kind == EdgeKind.TRANSFER))
        .then(pl.when("is_bound").then(pl.lit(TRANSFER_BOUND)).otherwise(pl.lit(TRANSFER)))
        .otherwise(as_text("kind"))
        .alias("kind")
    )
    return named.to_series()


def _order(graph: DependencyGraph) -> pl.Expr:
    """All of a rank first, then its steps in their order."""
    steps = graph.steps.get_column("step").drop_nulls().unique(maintain_order=True).to_list()
    numbers = {step: number for number, step in enumerate(steps)}
    return pl.col("step").replace_strict(numbers, default=-1, return_dtype=pl.Int64)


def _rank_of_part() -> pl.Expr:
    numbers = {part.value: number for number, part in enumerate(TimePart)}
    return pl.col("part").replace_strict(numbers, return_dtype=pl.Int64)
