"""The slices of a rank: its events in the chosen steps, on lines, the short ones merged where there are too many."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracebraid.analysis.slices.choice import SliceChoice, window_of
from tracebraid.analysis.slices.dependencies import links_of
from tracebraid.analysis.slices.described import described
from tracebraid.analysis.slices.levels import levels_of
from tracebraid.analysis.slices.merging import merged, merging_width
from tracebraid.model.category import Role, categories_of
from tracebraid.model.compact import compact
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.schema.kineto import LANES

__all__ = ["RankSlices", "rank_slices"]

_SPAN_CATEGORY = "Trace"
"""The profiler's own span over all that it recorded."""


@dataclass(frozen=True, eq=False)
class RankSlices:
    """What a timeline shows of a rank; holds nothing of the linked trace.

    Args:
        rank: the rank.
        steps: names of the steps that are shown; empty: the whole trace.
        window_ns: from when to when, on the rank's own clock; None: there is nothing to show.
        merged_ns: slices shorter than this were merged where they follow each other; 0: none were.
        slices: as `TIMELINE_SLICES`, on the rank's own clock, with `lane` instead of `track`, and without what is
            known of collectives; `call` and `op` are rows of this table.
        links: as `TIMELINE_LINKS`, by rows of this table.
        drawn: `event_id` of each event in the window, and the `row` of the slice that stands for it.
        lanes: `LANES` that have slices.
    """

    rank: int
    steps: tuple[str, ...]
    window_ns: tuple[int, int] | None
    merged_ns: int
    slices: pl.DataFrame
    links: pl.DataFrame
    drawn: pl.DataFrame
    lanes: pl.DataFrame


def rank_slices(linked: LinkedTrace, choice: SliceChoice) -> RankSlices:
    """The slices of a rank; each event with a duration is one of them, or counted in one.

    Drawn are ops, annotations, Python functions and calls of the host, and work, waits and annotations of devices.
    Moments such as allocations are not.

    Args:
        linked: one rank.
        choice: which steps, and how many slices.

    Raises:
        InputError: the Execution Trace cannot be read.
    """
    window = window_of(linked, choice)
    events = _events_in(linked, window)
    events = events.with_columns(levels_of(events))
    width = merging_width(events, choice.most)
    slices, rows = merged(events, width)
    drawn = events.select("event_id").with_columns(rows.alias("row")).sort("event_id")
    lanes = linked.timeline.lanes.filter(pl.col("lane").is_in(slices.get_column("lane").unique().implode()))
    return RankSlices(
        linked.rank,
        choice.steps,
        window,
        width,
        compact(described(linked, slices, drawn)),
        compact(links_of(linked, drawn)),
        drawn,
        compact(LANES.conform(lanes)),
    )


def _events_in(linked: LinkedTrace, window: tuple[int, int] | None) -> pl.DataFrame:
    """event_id, lane, ts_ns, dur_ns, depth of the events that are drawn, by lane and start, long ones first."""
    start, end = window or (0, 0)
    stop = pl.col("ts_ns") + pl.col("dur_ns")
    inside = (pl.col("ts_ns") < end) & (stop > start) | (pl.col("dur_ns") == 0) & pl.col("ts_ns").is_between(
        start, end
    )
    category = as_text("category").fill_null("")
    moments = categories_of(Role.INSTANT)
    idle = category.is_in(categories_of(Role.OTHER)) & (pl.col("dur_ns") == 0)
    return (
        linked.timeline.events.filter(inside if window else pl.lit(value=False))
        .filter(~category.is_in([*moments, _SPAN_CATEGORY]) & ~idle)
        .select("event_id", "lane", "ts_ns", "dur_ns")
        .join(linked.host_tree.select("event_id", "depth"), on="event_id", how="left", maintain_order="left")
        .sort("lane", "ts_ns", "dur_ns", "event_id", descending=[False, False, True, False])
    )
