"""The timeline of a job: the slices of all ranks on aligned clocks, their collectives, and the critical path."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracebraid.analysis.slices.path_on_slices import path_on_slices
from tracebraid.analysis.slices.rank_slices import RankSlices
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.critical_path import CriticalPath
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.report.timeline_tables import (
    TIMELINE_LINKS,
    TIMELINE_RANKS,
    TIMELINE_SLICES,
    TIMELINE_TRACKS,
)

__all__ = ["timeline_view"]


def timeline_view(
    parts: Sequence[RankSlices], ranks: LinkedRanks, path: CriticalPath | None = None
) -> dict[str, pl.DataFrame]:
    """What the timeline of a job is drawn from: `TIMELINE_TABLES`, by their names in `RunResults.views`.

    Slices stand on the reference's clock, from the earliest start of a rank's window. A rank whose clock is unknown is
    moved so that its window starts with the others'.

    Args:
        parts: what `rank_slices` gave of each rank that is drawn.
        ranks: the ranks, linked with each other.
        path: the critical path, whose segments of the shown steps are drawn; None: there is none.
    """
    shown = sorted((part for part in parts if part.slices.height), key=lambda part: part.rank)
    clocks = _clocks(shown, ranks)
    origin = clocks.select(pl.col("start_ns").min()).item() or 0
    slices = _all_slices(shown, clocks, ranks, origin)
    tracks = _tracks(shown, slices)
    keys = ["rank", "lane"]
    numbered = slices.join(tracks.select(*keys, "track"), on=keys, how="left", maintain_order="left")
    links = [part.links.with_columns(pl.col("before", "after") + first) for part, first in _firsts(shown)]
    return {
        "timeline-slices": TIMELINE_SLICES.conform(numbered),
        "timeline-tracks": TIMELINE_TRACKS.conform(tracks),
        "timeline-ranks": _ranks(shown, clocks, origin),
        "timeline-links": TIMELINE_LINKS.conform(pl.concat([TIMELINE_LINKS.empty(), *links])),
        "timeline-path": path_on_slices(path, _drawn(shown), tracks, shown, origin),
    }


def _clocks(shown: Sequence[RankSlices], ranks: LinkedRanks) -> pl.DataFrame:
    """rank, start_ns, end_ns of the window on the reference's clock, shift_ns of what has no clock, is_aligned."""
    windows = pl.DataFrame(
        [(part.rank, *(part.window_ns or (0, 0))) for part in shown],
        schema={"rank": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64},
        orient="row",
    )
    known = ranks.clocks.select("rank", pl.col("offset_ns").is_not_null().alias("is_aligned"))
    aligned = ranks.aligned(windows, "start_ns", "end_ns").join(
        known, on="rank", how="left", maintain_order="left"
    )
    is_aligned = pl.col("is_aligned").fill_null(value=False) | (pl.len() == 1)
    aligned = aligned.with_columns(is_aligned.alias("is_aligned"))
    first = pl.col("start_ns").filter("is_aligned").min()
    laid_on = pl.coalesce(first, pl.col("start_ns").min())
    shift = pl.when("is_aligned").then(0).otherwise(laid_on - pl.col("start_ns"))
    return aligned.with_columns(shift.alias("shift_ns")).with_columns(
        pl.col("start_ns", "end_ns") + pl.col("shift_ns")
    )


def _firsts(shown: Sequence[RankSlices]) -> list[tuple[RankSlices, int]]:
    """Each part with the row of its first slice among those of all ranks."""
    firsts, first = [], 0
    for part in shown:
        firsts.append((part, first))
        first += part.slices.height
    return firsts


def _drawn(shown: Sequence[RankSlices]) -> pl.DataFrame:
    """rank, event_id, and the row of its slice."""
    rank = pl.Series("rank", [], dtype=pl.Int64)
    none = pl.DataFrame({"rank": rank, "event_id": rank.alias("event_id"), "row": rank.alias("row")})
    found = [
        part.drawn.select(pl.lit(part.rank, dtype=pl.Int64).alias("rank"), "event_id", pl.col("row") + first)
        for part, first in _firsts(shown)
    ]
    return pl.concat([none, *found])


def _all_slices(
    shown: Sequence[RankSlices], clocks: pl.DataFrame, ranks: LinkedRanks, origin: int
) -> pl.DataFrame:
    frames = [
        part.slices.with_columns(
            pl.lit(part.rank, dtype=pl.Int64).alias("rank"), pl.col("call", "op") + first
        )
        for part, first in _firsts(shown)
    ]
    if not frames:
        of_rank = [pl.lit(None, dtype=pl.Int64).alias(name) for name in ("rank", "lane")]
        return TIMELINE_SLICES.empty().drop("track").with_columns(of_rank)
    members = ranks.members.select(
        "rank",
        "event_id",
        "collective",
        "group",
        "sequence",
        pl.max_horizontal("in_bytes", "out_bytes").alias("_bytes"),
    ).unique(["rank", "event_id"], keep="first")
    every = ranks.aligned(pl.concat(frames), "start_ns")
    return (
        every.join(members, on=["rank", "event_id"], how="left", maintain_order="left")
        .join(clocks.select("rank", "shift_ns"), on="rank", how="left", maintain_order="left")
        .with_columns(
            pl.coalesce("size_bytes", "_bytes").alias("size_bytes"),
            pl.col("start_ns") + pl.col("shift_ns") - origin,
        )
    )


def _tracks(shown: Sequence[RankSlices], slices: pl.DataFrame) -> pl.DataFrame:
    keys = ["rank", "lane"]
    on_device = as_text("kind").is_in(["kernel", "copy", "communication", "device annotation"])
    found = slices.group_by(keys).agg(
        (on_device | as_text("family").is_not_null()).any().alias("has_work"),
        (pl.col("level").max() + 1).alias("levels"),
        pl.len().cast(pl.Int64).alias("slices"),
        pl.col("count").sum().alias("events"),
    )
    lanes = [part.lanes.with_columns(pl.lit(part.rank, dtype=pl.Int64).alias("rank")) for part in shown]
    if not lanes:
        return TIMELINE_TRACKS.empty()
    named = found.join(pl.concat(lanes), on=keys, how="left")
    pid, tid = (pl.coalesce(as_text(name), pl.col(f"{name}_text")) for name in ("pid", "tid"))
    is_device = pl.col("has_work") | pl.col("process_labels").str.starts_with("GPU").fill_null(value=False)
    process = pl.when(is_device).then(pl.format("device {}", pid)).otherwise(pl.format("process {}", pid))
    label = pl.when(is_device).then(pl.format("stream {}", tid)).otherwise(pl.format("thread {}", tid))
    return (
        named.with_columns(
            is_device.alias("is_device"),
            pl.coalesce("thread_name", label, pl.lit("?")).alias("label"),
            pl.coalesce(process, pl.lit("?")).alias("process"),
        )
        .sort("rank", "is_device", "lane")
        .with_row_index("track")
    )


def _ranks(shown: Sequence[RankSlices], clocks: pl.DataFrame, origin: int) -> pl.DataFrame:
    rows = [
        (", ".join(part.steps) or None, part.drawn.height, part.slices.height, part.merged_ns)
        for part in shown
    ]
    schema = {"steps": pl.String, "events": pl.Int64, "slices": pl.Int64, "merged_ns": pl.Int64}
    counts = pl.DataFrame(rows, schema=schema, orient="row")
    found = clocks.with_columns(
        pl.col("start_ns", "end_ns") - origin, pl.lit(origin, dtype=pl.Int64).alias("origin_ns")
    )
    return TIMELINE_RANKS.conform(found.hstack(counts))
