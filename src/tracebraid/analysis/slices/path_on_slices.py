"""The critical path of the shown steps, on the slices of a timeline."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracebraid.analysis.slices.rank_slices import RankSlices
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.critical_path import CriticalPath
from tracebraid.model.report.timeline_tables import TIMELINE_PATH

__all__ = ["path_on_slices"]


def path_on_slices(
    path: CriticalPath | None,
    drawn: pl.DataFrame,
    tracks: pl.DataFrame,
    shown: Sequence[RankSlices],
    origin: int,
) -> pl.DataFrame:
    """The segments of the shown steps: `TIMELINE_PATH`.

    Args:
        path: the critical path; None: there is none.
        drawn: rank, event_id and the row of its slice.
        tracks: `TIMELINE_TRACKS`.
        shown: the ranks that are drawn.
        origin: moment 0 of the timeline.
    """
    if path is None or not shown:
        return TIMELINE_PATH.empty()
    steps = list(dict.fromkeys(step for part in shown for step in part.steps))
    of_steps = pl.col("step").is_in(steps) if steps else pl.lit(value=True)
    segments = path.segments.filter(of_steps)
    found = (
        segments.join(drawn, on=["rank", "event_id"], how="left", maintain_order="left")
        .join(tracks.select("rank", "lane", "track"), on=["rank", "lane"], how="left", maintain_order="left")
        .sort("start_ns", "order")
    )
    return TIMELINE_PATH.conform(
        found.select(
            pl.col("track").cast(pl.Int64),
            pl.col("row").alias("slice"),
            pl.col("start_ns") - origin,
            "duration_ns",
            as_text("kind", "name"),
        )
    )
