"""Which activities of a job's ranks are the same operation."""

from __future__ import annotations

import polars as pl

from tracebraid.model.collectives.group_ranks import ranks_listed
from tracebraid.model.graph.codes import ActivityKind
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.step import PROFILER_STEP, is_step_name
from tracebraid.simulation.stragglers.operations import Operations

__all__ = ["job_operations", "stages_of_ranks"]

_PIPELINE = r"(?i)pipeline|(^|[^a-z])pp([^a-z]|$)"
"""How the description of a process group of pipeline stages reads: Megatron's, and that of a mesh's dimension."""

_OF_DEVICES = [ActivityKind.KERNEL.value, ActivityKind.COPY.value]
_EVENT = ["rank", "event_id"]
_SAME = ["kind", "name", "op", "module", "shapes", "size_bytes"]


def job_operations(graph: DependencyGraph, annotation: str = PROFILER_STEP) -> Operations:
    """Activities of any rank and step are the same operation if all that is known of them is equal.

    That is: kind, name, innermost op and module, shapes of that op, bytes, and which of such it is in its step on its
    rank. Of communication the type counts instead of a kernel's name. All marks of steps are the same operation. What
    a thread does outside of all events is none. Groups are `rank`, `optype`, and `stage` where process groups show it.

    Args:
        graph: the graph.
        annotation: what marks a step.
    """
    activities = graph.activities
    types = graph.ranks.members.select(*_EVENT, pl.col("type").cast(pl.String)).unique(_EVENT)
    rows = (
        activities.with_columns(pl.col("kind", "name", "op", "module", "shapes", "family").cast(pl.String))
        .join(types, on=_EVENT, how="left", maintain_order="left")
        .with_columns(name=_name(annotation))
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
    """Of device work its family, of communication its type, of ops of the host the family of what they launch."""
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

    Args:
        ranks: the ranks, linked with each other.
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
