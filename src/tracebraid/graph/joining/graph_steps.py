"""The moments at which the steps of each rank begin and end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.expressions import as_text
from tracebraid.model.graph.codes import ActivityKind
from tracebraid.model.schema.graph import GRAPH_STEPS
from tracebraid.model.step import is_step_name

__all__ = ["graph_steps"]

_ON_DEVICE = [ActivityKind.KERNEL.value, ActivityKind.COPY.value, ActivityKind.COMMUNICATION.value]


def graph_steps(
    activities: pl.DataFrame,
    moment_of: NDArray[np.int32],
    annotation: str,
    steps: Sequence[str] | None = None,
) -> pl.DataFrame:
    """`GRAPH_STEPS`.

    Args:
        activities: `ACTIVITIES`.
        moment_of: the moment of the start and the end of each.
        annotation: what marks a step.
        steps: the names of the steps that are listed; None: all.
    """
    # Those of collectives stand last. Of all activities, text and whole rows would be copies as large as the graph.
    of_ranks = activities.height - activities.get_column("rank").null_count()
    rows = activities.select("rank", "kind", "name", "step", "start_ns", "end_ns", "stream").head(of_ranks)
    rows = rows.with_columns(
        pl.Series("start_moment", moment_of[: rows.height, 0], dtype=pl.Int64),
        pl.Series("end_moment", moment_of[: rows.height, 1], dtype=pl.Int64),
    )
    marks = _of_names(rows, annotation).filter(pl.col("kind").is_in(["annotation", "op"]))
    if steps is not None:
        marks = marks.filter(pl.col("name").is_in(list(steps)))
    if marks.is_empty():
        return _whole(rows)
    ends = _last_of_device(rows, "rank", "step")
    found = (
        marks.sort("start_ns", "rank", maintain_order=True)
        .unique(["name", "rank"], keep="first", maintain_order=True)
        .select("rank", "start_ns", "start_moment", step="name", host_end_moment="end_moment")
        .join(ends, on=["rank", "step"], how="left", maintain_order="left")
    )
    order = found.group_by("step", maintain_order=True).agg(pl.col("start_ns").min().alias("first_ns"))
    found = found.join(order, on="step", maintain_order="left").sort("first_ns", "step", "rank")
    return GRAPH_STEPS.conform(found)


def _of_names(rows: pl.DataFrame, annotation: str) -> pl.DataFrame:
    """The rows with the name of a step."""
    names = rows.get_column("name").unique()
    steps = names.to_frame().filter(is_step_name(as_text("name"), annotation)).get_column("name")
    return rows.filter(pl.col("name").is_in(steps.implode())).with_columns(as_text("kind", "name", "step"))


def _whole(rows: pl.DataFrame) -> pl.DataFrame:
    host = rows.filter(pl.col("stream").is_null())
    begun = rows.sort("start_ns", maintain_order=True).group_by("rank", maintain_order=True).first()
    ended = host.sort("end_ns", maintain_order=True).group_by("rank", maintain_order=True).last()
    found = begun.select("rank", "start_moment").join(
        ended.select("rank", host_end_moment="end_moment"), on="rank", how="left", maintain_order="left"
    )
    found = found.join(_last_of_device(rows, "rank"), on="rank", how="left", maintain_order="left")
    return GRAPH_STEPS.conform(found.sort("rank").with_columns(pl.lit(None).alias("step")))


def _last_of_device(rows: pl.DataFrame, *by: str) -> pl.DataFrame:
    works = rows.filter(pl.col("stream").is_not_null()).select(*by, "kind", "end_ns", "end_moment")
    work = works.with_columns(as_text("kind", "step") if "step" in by else as_text("kind")).filter(
        pl.col("kind").is_in(_ON_DEVICE)
    )
    last = work.sort("end_ns", maintain_order=True).group_by(by, maintain_order=True).last()
    return last.select(*by, device_end_moment="end_moment")
