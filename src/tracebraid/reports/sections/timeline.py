"""The timeline of a step: all ranks on aligned clocks."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from tracebraid.model.analysis import Need
from tracebraid.model.expressions import as_text
from tracebraid.model.quantities import duration, ranges
from tracebraid.model.report import (
    TIMELINE_LONGEST,
    TIMELINE_TABLES,
    Chart,
    ChartKind,
    DataTable,
    Level,
    Missing,
    Note,
    RunResults,
    Section,
    SliceKind,
)

_LONGEST = 500
"""Maximum slices in the table beside the timeline."""
_TITLE = "Timeline"
_LISTED = 100
"""Maximum characters of a list of ranks; longer lists become a count."""
_FORMULA = (
    "Each slice is an event of the trace at its own start and duration, on the clock of the reference rank: its own "
    "time plus the offset and drift that matched collectives give (see clocks). Slices that lie in another one, or "
    "overlap it, are drawn below it. Where there are too many slices, those shorter than a limit that follow each "
    "other on a line are drawn as one, which says how many they are and the sum of their durations. Shown are all "
    "events that overlap the step or the device work that was launched in it; allocations and counters are not. "
    "Launches are by correlation; waits are what dependencies shows; the last to wait on a stream is what ran before."
)


def timeline(results: RunResults) -> Section:
    """Build the section; a note if the traces have no event with a duration."""
    views = results.views
    slices = views.get("timeline-slices")
    if slices is None or slices.is_empty():
        return Section("timeline", _TITLE, [Missing(_TITLE, Need.EVENTS.missing, Need.EVENTS.capture)])
    ranks, tracks = views["timeline-ranks"], views["timeline-tracks"]
    frames = {name.removeprefix("timeline-"): views[name] for name in TIMELINE_TABLES}
    steps = ranks.item(0, "steps")
    what = f"Step {steps}" if steps else "The whole trace, in which no step is marked"
    summary = (
        f"{what}: {ranks.get_column('events').sum():,} events on {tracks.height:,} threads and streams"
        f"{_of_ranks(len(results.ranks), ranks.height)}; the longest are in the table below."
    )
    chart = Chart(
        "timeline-chart",
        ChartKind.TIMELINE,
        f"{what}{_of_ranks(len(results.ranks), ranks.height)}",
        summary,
        frames,
        {"most": _LONGEST},
        _FORMULA,
        _longest(views),
    )
    return Section("timeline", _TITLE, [*_notes(results, ranks), chart], _lead(ranks))


def _of_ranks(every: int, drawn: int) -> str:
    return "" if every == 1 else ", all ranks" if every == drawn else f", {drawn:,} of {every:,} ranks"


def _lead(ranks: pl.DataFrame) -> str:
    of = "a typical step: its length is the median" if ranks.item(0, "steps") else "the whole trace"
    return (
        f"What ran when, in {of}. Scroll with Ctrl held to zoom, drag to move, click a slice for its details."
    )


def _notes(results: RunResults, ranks: pl.DataFrame) -> list[Note]:
    """Note slices that are omitted, merged, or on an unknown clock."""
    notes = []
    shown = set(ranks.get_column("rank").to_list())
    absent = [rank for rank in results.ranks if rank not in shown]
    if absent:
        notes.append(
            Note(
                f"Left out: {_ranks(absent)}, so that each drawn rank has enough slices, or without events there."
            )
        )
    merged = ranks.filter(pl.col("merged_ns") > 0)
    if merged.height:
        widest = merged.select(pl.col("merged_ns").max()).item()
        events, slices = (ranks.get_column(name).sum() for name in ("events", "slices"))
        notes.append(
            Note(
                f"{events:,} events are drawn as {slices:,} slices: those shorter than {duration(widest)} that follow "
                "each other on a line are merged. Choose fewer steps to see each."
            )
        )
    unaligned = ranks.filter(~pl.col("is_aligned")).get_column("rank").to_list()
    if unaligned:
        notes.append(
            Note(
                f"How the clocks of {_ranks(unaligned)} go is unknown: their steps are laid to start with the others'.",
                Level.WARNING,
            )
        )
    return notes


def _ranks(ranks: list[int]) -> str:
    listed = f"{'rank' if len(ranks) == 1 else 'ranks'} {ranges(ranks)}"
    return listed if len(listed) <= _LISTED else f"{len(ranks):,} ranks"


def _longest(views: Mapping[str, pl.DataFrame]) -> DataTable:
    slices, tracks = views["timeline-slices"], views["timeline-tracks"]
    single = slices.filter(as_text("kind") != SliceKind.MERGED.value)
    longest = single.sort("duration_ns", descending=True, maintain_order=True).head(_LONGEST)
    where = tracks.select("track", "rank", pl.col("label").alias("where"))
    frame = longest.join(where, on="track", how="left", maintain_order="left")
    return DataTable(
        "timeline-longest",
        "The longest slices",
        TIMELINE_LONGEST.conform(frame),
        TIMELINE_LONGEST,
        left_out=slices.height - frame.height,
    )
