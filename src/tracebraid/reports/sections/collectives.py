"""Collectives: how long ranks transfer and wait, and what bandwidth they reach."""

from __future__ import annotations

import polars as pl

from tracebraid.model.report.parts import Chart, ChartKind, Note, Part, Section
from tracebraid.model.report.run_results import RunResults
from tracebraid.reports.sections.asked import answer_table, frame_of, missing
from tracebraid.reports.sections.bandwidth import bandwidth
from tracebraid.reports.sections.rank_choice import different, rank_label
from tracebraid.reports.units import duration, percent, size

__all__ = ["collectives"]

_MOST_BARS = 24
"""Bars that a chart has at most: more do not fit a screen."""

_PARTS = (
    ("transfer_ns", "transfer", "communication"),
    ("waiting_ns", "waiting for other ranks", "idle"),
    ("rest_ns", "sends before the receiver arrives", "memory"),
)
_FORMULA = (
    "The durations of a rank's members of collectives, all groups together, in three parts. A member waits until the "
    "last member of its collective has arrived; what follows is transfer. Where a rank is missing from the traces that "
    "may have come later, its transfer is an upper bound (analysis collective_totals)."
)
_TOTALS = "rank group count dur_ns transfer_ns waiting_ns waiting_share rest_ns bounds caused_ns times_last description"
_EXPOSED_FORMULA = (
    "Time in which the collective runs and nothing computes; of collectives that overlap the one that began first "
    "counts. Summed over steps and ranks (analysis exposed_collectives)."
)


def collectives(results: RunResults) -> Section | None:
    """The section; None where no question on collectives was asked."""
    if results.answers.get("collective_totals") is None:
        return None
    lead = "Transfer is what the network takes; waiting is what the slowest rank takes."
    lacks = missing(results, "collective_totals", "Collectives")
    parts: list[Part] = [*lacks] if lacks else [*_totals(results), *_exposed(results), *bandwidth(results)]
    return Section("collectives", "Collectives", parts, lead) if parts else None


def _totals(results: RunResults) -> list[Part]:
    totals = frame_of(results, "collective_totals")
    if totals is None:
        return [Note("No collective is in the traces.")]
    names = [column for column, _, _ in _PARTS]
    sums = pl.col(names).fill_null(0).sum()
    by_rank = totals.group_by("rank").agg(sums, pl.col("bounds").sum(), pl.col("count").sum()).sort("rank")
    kept = different(by_rank, names, [], _MOST_BARS - 1)
    shown = by_rank.filter(pl.col("rank").is_in(kept))
    labels = [rank_label(rank) for rank in shown.get_column("rank")]
    bars = shown.select(pl.Series("label", labels, dtype=pl.String), pl.col(names).cast(pl.Float64))
    notes = _notes(by_rank, len(kept))
    if len(kept) < by_rank.height:
        mean = by_rank.select(
            pl.lit(f"mean of {by_rank.height:,} ranks").alias("label"), pl.col(names).mean()
        )
        bars = pl.concat([mean, bars])
    all_sums = by_rank.select(pl.col(names).sum()).row(0)
    share = percent(all_sums[1] / sum(all_sums)) if sum(all_sums) else percent(0)
    series = [
        {"column": column, "name": name, "colour": colour}
        for (column, name, colour), total in zip(_PARTS, all_sums, strict=True)
        if total
    ]
    table = answer_table(results, "collective_totals", "Collectives by rank and group", _TOTALS.split())
    options = {"unit": "ns", "title": "time in collectives", "series": series}
    summary = f"Of the time in collectives {share} is waiting for other ranks."
    title = "Transfer and waiting, by rank"
    chart = Chart(
        "collectives-time", ChartKind.STACKED_BARS, title, summary, {"bars": bars}, options, _FORMULA, table
    )
    return [chart, *notes]


def _notes(by_rank: pl.DataFrame, shown: int) -> list[Part]:
    notes: list[Part] = []
    if shown < by_rank.height:
        text = f"{shown} of {by_rank.height:,} ranks are shown, those that differ most, and the mean of all."
        notes.append(Note(text))
    bounds, count = by_rank.get_column("bounds").sum(), by_rank.get_column("count").sum()
    if bounds:
        text = (
            f"Of {bounds:,} of {count:,} members the transfer is, or may be, an upper bound: a rank that may have come "
            "later is not in the traces. Waiting is a lower bound there."
        )
        notes.append(Note(text))
    return notes


def _exposed(results: RunResults) -> list[Part]:
    """The collectives for which devices wait, with nothing to compute."""
    exposed = frame_of(results, "exposed_collectives")
    if exposed is None:
        return []
    whole = exposed.filter(pl.col("step").is_null())
    rows = exposed if whole.is_empty() else whole
    keys = ("name", "dtype", "message_bytes")
    groups = (
        rows.group_by(keys)
        .agg(pl.col("exposed_ns", "total_ns", "count").sum())
        .sort("exposed_ns", *keys, descending=[True, False, False, False], nulls_last=True)
    )
    groups = groups.filter(pl.col("exposed_ns") > 0)
    if groups.is_empty():
        return []
    shown = groups.head(_MOST_BARS)
    labels = [_label(row) for row in shown.iter_rows(named=True)]
    bars = shown.select(
        pl.Series("label", labels, dtype=pl.String),
        pl.col("exposed_ns").alias("exposed"),
        (pl.col("total_ns") - pl.col("exposed_ns")).clip(0).alias("hidden"),
    )
    series = [
        {"column": "exposed", "name": "exposed", "colour": "communication"},
        {"column": "hidden", "name": "hidden, or beside another", "colour": "compute"},
    ]
    series = [item for item in series if bars.get_column(item["column"]).sum()]
    columns = ("name", "dtype", "message_bytes", "count", "total_ns", "exposed_ns")
    title = "Exposed collectives"
    table = answer_table(results, "exposed_collectives", title, columns, groups.select(columns))
    first = duration(groups.item(0, "exposed_ns"))
    summary = f"Devices wait the longest for {labels[0]}: {first} over all steps and ranks."
    options = {"unit": "ns", "title": "time, over all ranks", "series": series}
    return [
        Chart(
            "collectives-exposed",
            ChartKind.STACKED_BARS,
            title,
            summary,
            {"bars": bars},
            options,
            _EXPOSED_FORMULA,
            table,
        )
    ]


def _label(row: dict[str, object]) -> str:
    bytes_ = row["message_bytes"]
    what = [str(row["name"])]
    if isinstance(bytes_, int):
        what.append(size(bytes_))
    return ", ".join(what)
