"""Cost of stragglers: a job's steps against a replay in which equal operations take equally long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct, field
from numpy.typing import NDArray

from tracebraid.model.answers.graph import StragglerMetric
from tracebraid.model.collectives import ranks_listed
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.graph import ActivityKind, DependencyGraph, EdgeKind
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.step import is_step_name
from tracebraid.simulation.replay import (
    Residuals,
    StepMoments,
    job_step_times,
    replay,
    step_moments,
    with_residuals,
)

_Ints = NDArray[np.int64]

_OWN_WORK = (EdgeKind.HOST, EdgeKind.DEVICE, EdgeKind.TRANSFER)


class Operations(Struct, frozen=True, eq=False):
    """Properties of a graph's activities, with an entry for each.

    Args:
        operation: the operation, a number from 0; activities of one number are the same, on several ranks or in
            several steps; -1: of none, its work stays.
        communicates: whether it is communication, whose ideal is the median of the same; else it is the mean.
        groups: labels of activities by kind of label, such as `rank`; null: none.
        workers: the label of each activity's worker; null: of none.
        scored_by: names in `groups`: a worker's score is the least of the slowdowns of its labels.
    """

    operation: _Ints
    communicates: NDArray[np.bool_]
    groups: Mapping[str, pl.Series]
    workers: pl.Series
    scored_by: tuple[str, ...]


def is_own_work(graph: DependencyGraph) -> NDArray[np.bool_]:
    """Return whether the work of each edge belongs to its activity and is not a latency."""
    return np.isin(graph.edges.kind, np.array(_OWN_WORK, dtype=np.uint8))


def ideal_work(graph: DependencyGraph, operations: Operations) -> _Ints:
    """The work of each edge, in ns, were the same operations equally long: their mean, of communication the median.

    An activity's work lies on one edge or on several; each gets its share.
    """
    edges = np.flatnonzero(is_own_work(graph) & (operations.operation[graph.edges.activity] >= 0))
    activity, work = graph.edges.activity[edges], graph.edges.work_ns[edges]
    own = np.bincount(activity, work, minlength=graph.activities.height).astype(np.float64)
    ideal = _ideal(own, np.unique(activity), operations)
    # Of an activity without work that should have some, the first edge gets it.
    empty = own[activity] == 0
    first = np.zeros(len(edges), dtype=np.bool_)
    first[np.unique(activity, return_index=True)[1]] = True
    share = np.where(empty, first, work / np.where(empty, 1, own[activity]))
    found: _Ints = graph.edges.work_ns.copy()
    found[edges] = np.rint(share * ideal[activity]).astype(np.int64)
    return found


def _ideal(own: NDArray[np.float64], present: _Ints, operations: Operations) -> NDArray[np.float64]:
    """The ideal work of each activity that is present, which others keep."""
    rows = pl.DataFrame(
        {
            "operation": operations.operation[present],
            "communicates": operations.communicates[present],
            "own": own[present],
        }
    )
    equal = rows.select(
        pl.when("communicates")
        .then(pl.col("own").median().over("operation"))
        .otherwise(pl.col("own").mean().over("operation"))
    )
    found: NDArray[np.float64] = own.copy()
    found[present] = equal.to_series().to_numpy()
    return found


_PIPELINE = r"(?i)pipeline|(^|[^a-z])pp([^a-z]|$)"
"""Descriptions of process groups of pipeline stages: Megatron's, and that of a mesh's dimension."""

_OF_DEVICES = [ActivityKind.KERNEL.value, ActivityKind.COPY.value]
_EVENT = ["rank", "event_id"]
_SAME = ["kind", "name", "op", "module", "shapes", "size_bytes"]


def job_operations(graph: DependencyGraph) -> Operations:
    """Activities of any rank and step are the same operation if all that is known of them is equal.

    That is: kind, name, innermost op and module, shapes of that op, bytes, and which of such it is in its step on its
    rank. Of communication the type counts instead of a kernel's name. All marks of steps are the same operation. What
    a thread does outside all events is none. Groups are `rank`, `optype`, and `stage` where process groups show it.
    """
    activities = graph.activities
    types = graph.ranks.members.select(*_EVENT, pl.col("type").cast(pl.String)).unique(_EVENT)
    rows = (
        activities.with_columns(pl.col("kind", "name", "op", "module", "shapes", "family").cast(pl.String))
        .join(types, on=_EVENT, how="left", maintain_order="left")
        .with_columns(name=_name(graph.annotation))
    )
    communicates = rows.get_column("kind") == ActivityKind.COMMUNICATION.value
    rows = rows.with_columns(pl.int_range(pl.len()).over("rank", "step", *_SAME).alias("order"))
    operation = rows.select(
        pl.when(pl.col("rank").is_not_null() & (pl.col("kind") != ActivityKind.THREAD.value)).then(
            pl.struct(*_SAME, "order").rank("dense").cast(pl.Int64) - 1
        )
    ).to_series()
    groups = {
        "rank": activities.get_column("rank").cast(pl.String),
        "optype": rows.select(_optype()).to_series(),
    }
    stages = stages_of_ranks(graph.ranks)
    if not stages.is_empty():
        labels = activities.select("rank").join(stages, on="rank", how="left", maintain_order="left")
        groups["stage"] = labels.get_column("stage").cast(pl.String)
    return Operations(
        operation.fill_null(-1).to_numpy(), communicates.to_numpy(), groups, groups["rank"], ("rank",)
    )


def _name(annotation: str) -> pl.Expr:
    is_step = is_step_name(pl.col("name"), annotation)
    return (
        pl.when(is_step)
        .then(pl.lit(annotation))
        .when(pl.col("kind") == ActivityKind.COMMUNICATION.value)
        .then(pl.coalesce("type", "name"))
        .otherwise("name")
    )


def _optype() -> pl.Expr:
    """Label of an activity: family of device work, type of communication, for host ops the family that they launch."""
    return (
        pl.when(pl.col("rank").is_null())
        .then(None)
        .when(pl.col("kind") == ActivityKind.COMMUNICATION.value)
        .then("name")
        .when(pl.col("family").is_null())
        .then("kind")
        .when(pl.col("kind").is_in(_OF_DEVICES))
        .then("family")
        .otherwise(pl.format("{} {}", "kind", "family"))
        .alias("optype")
    )


def stages_of_ranks(ranks: LinkedRanks) -> pl.DataFrame:
    """The pipeline stage of each rank: `rank` and `stage`, its position in its pipeline's process group.

    Empty if no description of a process group that communicates says that it is a pipeline's, or if a rank has
    several positions.
    """
    pipelines = ranks.members.filter(
        pl.col("description").str.contains(_PIPELINE) & pl.col("group_ranks").is_not_null()
    )
    found = (
        ranks_listed(pipelines.select("group_ranks").unique(maintain_order=True))
        .with_columns(stage=pl.int_ranges(pl.col("group_ranks").list.len()))
        .explode("group_ranks", "stage")
        .select(pl.col("group_ranks").cast(pl.Int64).alias("rank"), pl.col("stage").cast(pl.Int64))
        .drop_nulls()
        .unique()
        .sort("rank")
    )
    return found.clear() if found.get_column("rank").is_duplicated().any() else found


SLOWEST_PERCENT = 3
"""Workers that count as the slowest, in percent, rounded up: as the paper has it."""


class StragglerMetrics(Struct, frozen=True, eq=False):
    """Slowdowns, and shares of the time lost to stragglers.

    Args:
        step_ns: mean time of a step without residuals; null: there are no steps.
        ideal_ns: the same, were the same operations equally long.
        slowdown: S, `step_ns / ideal_ns`; null: a step takes no time.
        by: S_x, by what activities are grouped by and the label: the ideal with only that group's work put back,
            over the ideal.
        step_ns_by: the mean time of a step of which S_x comes.
        last_stage: M_S, the share of `step_ns - ideal_ns` that goes when the last stage's work is made ideal; null:
            there are no stages, or nothing is lost.
        slowest_workers: M_W, the same of the slowest workers.
        slowest: the labels of these workers.
    """

    step_ns: float | None
    ideal_ns: float | None
    slowdown: float | None
    by: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    step_ns_by: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    last_stage: float | None = None
    slowest_workers: float | None = None
    slowest: tuple[str, ...] = ()


class _Engine(Struct, frozen=True, eq=False):
    """Replays of a graph."""

    graph: DependencyGraph
    steps: StepMoments

    def step_ns(self, work_ns: _Ints) -> float:
        edges = self.graph.edges
        times = replay(edges.first, edges.before, work_ns, self.graph.moments.residual_ns)
        return float(job_step_times(times, self.steps).time_ns.mean())


def straggler_metrics_of(graph: DependencyGraph, operations: Operations) -> StragglerMetrics:
    """The straggler metrics of a graph."""
    if graph.steps.is_empty():
        return StragglerMetrics(None, None, None)
    graph = with_residuals(graph, Residuals.NONE)
    engine = _Engine(graph, step_moments(graph.steps))
    own, ideal = graph.edges.work_ns, ideal_work(graph, operations)
    step_ns, ideal_ns = engine.step_ns(own), engine.step_ns(ideal)
    if ideal_ns <= 0:
        return StragglerMetrics(step_ns, ideal_ns, None)
    times = {name: _put_back(engine, labels, ideal, ideal_ns) for name, labels in operations.groups.items()}
    by = {
        name: {label: time_ns / ideal_ns for label, time_ns in of_labels.items()}
        for name, of_labels in times.items()
    }

    def share(chosen: pl.Series) -> float | None:
        """Share of the lost time recovered if the selected activities were ideal."""
        if step_ns <= ideal_ns:
            return None
        work = np.where(chosen.fill_null(False).to_numpy()[graph.edges.activity], ideal, own)
        return (step_ns - engine.step_ns(work)) / (step_ns - ideal_ns)

    stages = operations.groups.get("stage")
    last = _last(stages) if stages is not None else None
    slowest = _slowest(operations, by)
    return StragglerMetrics(
        step_ns,
        ideal_ns,
        step_ns / ideal_ns,
        by,
        times,
        share(stages == last) if stages is not None and last is not None else None,
        share(operations.workers.is_in(slowest)) if slowest else None,
        slowest,
    )


def _put_back(engine: _Engine, labels: pl.Series, ideal: _Ints, ideal_ns: float) -> dict[str, float]:
    """The mean time of a step in which only the work of one label is as it was, by label."""
    edges = engine.graph.edges
    names = sorted(labels.drop_nulls().unique().to_list(), key=_numeric)
    number = {name: row for row, name in enumerate(names)}
    codes = labels.replace_strict(number, default=None, return_dtype=pl.Int64).fill_null(-1).to_numpy()
    of_edge = codes[edges.activity]
    differs = np.unique(of_edge[edges.work_ns != ideal])
    found = {}
    for name, code in number.items():
        if code in differs:
            found[name] = engine.step_ns(np.where(of_edge == code, edges.work_ns, ideal))
        else:
            found[name] = ideal_ns
    return found


def _slowest(operations: Operations, by: Mapping[str, Mapping[str, float]]) -> tuple[str, ...]:
    """Return the labels of the slowest workers; ties are broken by other slowdowns."""
    labels = pl.DataFrame(
        {"worker": operations.workers, **{name: operations.groups[name] for name in operations.scored_by}}
    )
    found = {}
    for worker, *own in labels.drop_nulls().unique(maintain_order=True).iter_rows():
        found[worker] = sorted(by[name][label] for name, label in zip(operations.scored_by, own, strict=True))
    count = -(-SLOWEST_PERCENT * len(found) // 100)
    return tuple(sorted(found, key=lambda worker: (found[worker], worker), reverse=True)[:count])


def _last(stages: pl.Series) -> str | None:
    names = stages.drop_nulls().unique().to_list()
    return max(names, key=_numeric) if names else None


def _numeric(name: str) -> tuple[bool, int, str]:
    """Numbers by their value, before other names."""
    return (False, int(name), "") if name.isdecimal() else (True, 0, name)


STRAGGLER_METRICS = Table(
    "straggler_metrics",
    "One row per metric, of S_x one for each group. S first, then S_x with the greatest first.",
    (
        Column("metric", Kind.TEXT, "the metric (`StragglerMetric`)"),
        Column("group_by", Kind.TEXT, "of S_x and M: `rank`, `stage` or `optype`; null: S"),
        Column("group", Kind.TEXT, "the rank, stage or kind of operation; of M_W the ranks; null: S"),
        Column("value", Kind.FLOAT, "the metric; null: nothing is lost, or a step takes no time"),
        Column(
            "step_ns",
            Kind.FLOAT,
            "mean time of a step: of S as it was without residuals, of S_x as it counts",
        ),
        Column("ideal_ns", Kind.FLOAT, "mean time of an ideal step"),
    ),
)


def straggler_table(metrics: StragglerMetrics) -> pl.DataFrame:
    """`STRAGGLER_METRICS`."""
    rows: list[dict[str, Any]] = [
        {"metric": StragglerMetric.SLOWDOWN, "value": metrics.slowdown, "step_ns": metrics.step_ns}
    ]
    by = [
        {
            "metric": StragglerMetric.SLOWDOWN_BY,
            "group_by": name,
            "group": label,
            "value": value,
            "step_ns": metrics.step_ns_by[name][label],
        }
        for name, of_labels in metrics.by.items()
        for label, value in of_labels.items()
    ]
    rows += sorted(by, key=lambda row: -row["value"])
    if "stage" in metrics.by:
        rows.append({"metric": StragglerMetric.LAST_STAGE, "group_by": "stage", "value": metrics.last_stage})
    slowest = ", ".join(metrics.slowest) or None
    rows.append(
        {
            "metric": StragglerMetric.SLOWEST_WORKERS,
            "group_by": "rank",
            "group": slowest,
            "value": metrics.slowest_workers,
        }
    )
    found = [{**row, "metric": row["metric"].value, "ideal_ns": metrics.ideal_ns} for row in rows]
    return STRAGGLER_METRICS.conform(
        pl.DataFrame(found, schema=STRAGGLER_METRICS.polars_schema()), fill_missing=True
    )
