"""The gain of a step for every group of work, were it faster."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.answers.graph.sweep import SWEEP, SweepBy
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.step import PROFILER_STEP
from tracebraid.simulation.replay import replay
from tracebraid.simulation.replay_many import Scenarios, replay_many
from tracebraid.simulation.step_times import job_step_times, step_moments
from tracebraid.simulation.sweep.path import edges_of_path
from tracebraid.simulation.sweep.targets import Partition, partitions

__all__ = ["DEFAULT_GROUPS", "sweep_of"]

_Ints = NDArray[np.int64]

DEFAULT_GROUPS = 300
"""Groups of which gains are computed, those with most work on the path: more than traces of 50 MB have."""

_GONE = (0.1, 0.5, 1.0)


@dataclass(frozen=True, eq=False)
class _Base:
    """A run as it was.

    Args:
        graph: the graph.
        end: the moments at which its last step ends, on any rank.
        end_ns: when the last of these is.
        total_ns: the time of all steps.
        steps: how many there are.
        counts: whether each edge lies in the steps, and not before the first.
        on_path: whether each edge is on the critical path.
    """

    graph: DependencyGraph
    end: _Ints
    end_ns: int
    total_ns: int
    steps: int
    counts: NDArray[np.bool_]
    on_path: NDArray[np.bool_]


def sweep_of(
    graph: DependencyGraph,
    *,
    by: Collection[SweepBy] = tuple(SweepBy),
    groups: int = DEFAULT_GROUPS,
    annotation: str = PROFILER_STEP,
) -> pl.DataFrame:
    """The gain of a step were each group of work faster by 10 %, 50 % and 100 %: `SWEEP`.

    The run ends by so much earlier, over the number of its steps; what happens before the first step stays as it was,
    and so do residuals. No gain is more than the group's work on the critical path, so that groups off the path gain 0
    without a replay.

    Args:
        graph: the graph.
        by: by what work is grouped.
        groups: of how many groups gains are computed: those with most work on the critical path.
        annotation: what marks a step.
    """
    if graph.steps.is_empty() or not len(graph.edges):
        return SWEEP.empty()
    base = _base(graph)
    chosen = [partition for partition in partitions(graph, annotation) if partition.by in by]
    tables = [_works(base, partition, number) for number, partition in enumerate(chosen)]
    rows = _without_repeats(pl.concat(tables)).sort("on_path_ns", descending=True, maintain_order=True)
    rows = rows.with_columns(computed=pl.int_range(pl.len()) < groups)
    if rows.is_empty():  # Nothing takes any time.
        return SWEEP.empty()
    gains = [
        _gains(base, chosen[number], part)
        for (number,), part in rows.group_by("partition", maintain_order=True)
    ]
    found = rows.join(pl.concat(gains), on=["partition", "code"], how="left", maintain_order="left")
    return _table(base, found)


def _base(graph: DependencyGraph) -> _Base:
    edges, moments = graph.edges, step_moments(graph.steps)
    times = replay(edges.first, edges.before, edges.work_ns, graph.moments.residual_ns)
    steps = job_step_times(times, moments)
    ends = np.unique(np.concatenate([moments.host_end, moments.device_end]))
    end = int(ends[times[ends].argmax()])
    counts = times[graph.after] > steps.start_ns.min()
    return _Base(
        graph,
        ends,
        int(times[end]),
        max(int(times[end] - steps.start_ns.min()), 1),
        len(moments.names),
        counts,
        edges_of_path(edges, times, end) & counts,
    )


def _works(base: _Base, partition: Partition, number: int) -> pl.DataFrame:
    """The work of each group of a partition, of those that have any."""
    edges = base.graph.edges
    rows = np.flatnonzero(base.counts & (partition.group >= 0))
    group, work = partition.group[rows], edges.work_ns[rows]
    frame = pl.DataFrame(
        {
            "code": group,
            "activity": edges.activity[rows],
            "work_ns": work,
            "path_ns": np.where(base.on_path[rows], work, 0),
        }
    )
    found = frame.group_by("code").agg(
        pl.col("activity").n_unique().cast(pl.Int64).alias("activities"),
        pl.col("work_ns").sum().alias("total_ns"),
        pl.col("path_ns").sum().alias("on_path_ns"),
    )
    names = pl.Series("name", partition.names, dtype=pl.String)
    return found.sort("code").select(
        pl.lit(number, dtype=pl.Int64).alias("partition"),
        pl.col("code").cast(pl.Int64),
        pl.lit(partition.by.value).alias("group_by"),
        pl.lit(partition.scope.value).alias("scope"),
        names.gather(found.sort("code").get_column("code")),
        "activities",
        "total_ns",
        "on_path_ns",
    )


def _without_repeats(rows: pl.DataFrame) -> pl.DataFrame:
    """Without groups that launched nothing: with what they launched they have the same work as alone."""
    return rows.unique(["group_by", "name", "activities", "total_ns"], keep="first", maintain_order=True)


def _gains(base: _Base, partition: Partition, rows: pl.DataFrame) -> pl.DataFrame:
    """By how much earlier the run ends, by group and how much of its work is gone."""
    off = rows.filter(pl.col("on_path_ns") == 0).get_column("code")
    codes = rows.filter(pl.col("computed") & (pl.col("on_path_ns") > 0)).get_column("code")
    gains = _replayed(base, partition, codes.to_numpy())
    keys = pl.concat([codes, off])
    values = np.concatenate([gains, np.zeros((len(off), len(_GONE)), dtype=np.int64)])
    return pl.DataFrame(
        {
            "partition": np.full(len(keys), rows.item(0, "partition"), dtype=np.int64),
            "code": keys,
            **{f"run_{round(100 * gone)}_ns": values[:, column] for column, gone in enumerate(_GONE)},
        }
    )


def _replayed(base: _Base, partition: Partition, codes: _Ints) -> _Ints:
    """The gain of the run: a row for each of the groups, a column for each of `_GONE`."""
    if not len(codes):
        return np.zeros((0, len(_GONE)), dtype=np.int64)
    # Column 0 of the factors is of all edges that are in no group whose gain is computed.
    column = np.zeros(len(partition.names) + 1, dtype=np.int32)
    column[codes] = np.arange(1, len(codes) + 1)
    group = np.where(base.counts, column[partition.group], np.int32(0))
    factor = np.ones((len(codes), len(_GONE), len(codes) + 1))
    for row in range(len(codes)):
        factor[row, :, row + 1] -= _GONE
    scenarios = Scenarios(group, factor.reshape(-1, len(codes) + 1))
    graph = base.graph
    times = replay_many(graph.edges, graph.moments.residual_ns, scenarios, base.end)
    gains: _Ints = base.end_ns - times.max(axis=1)
    return gains.reshape(len(codes), len(_GONE))


def _table(base: _Base, rows: pl.DataFrame) -> pl.DataFrame:
    percents = [round(100 * gone) for gone in _GONE]
    found = rows.with_columns(
        (pl.col("on_path_ns") / base.total_ns).alias("on_path"),
        *((pl.col(f"run_{percent}_ns") / base.steps).alias(f"gain_{percent}_ns") for percent in percents),
        *((pl.col(f"run_{percent}_ns") / base.total_ns).alias(f"gain_{percent}") for percent in percents),
    )
    order = ["gain_50_ns", "gain_100_ns", "on_path_ns", "total_ns"]
    return SWEEP.conform(found.sort(order, descending=True, nulls_last=True, maintain_order=True))
