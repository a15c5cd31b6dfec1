"""Report section: the bound of the step, its size and place, and the first change to make."""

from __future__ import annotations

from typing import Any

import polars as pl

from tracebraid.model.answers.graph import ACCOUNTING, StepCause
from tracebraid.model.expressions import as_text
from tracebraid.model.quantities import duration, percent
from tracebraid.model.questions import Advice
from tracebraid.model.report import (
    TIMELINE_SLICES,
    Card,
    Cards,
    Chart,
    ChartKind,
    DataTable,
    Part,
    RunResults,
    Section,
    Verdict,
)
from tracebraid.reports.advice import basis_text, where_rows
from tracebraid.reports.names import capitalised
from tracebraid.reports.verdict import CAUSES, lead, verdict

_MOST_CARDS = 5
_SEEN = 0.005
"""Minimum share of a bar; smaller causes are not drawn separately."""
_COLOURS = {
    StepCause.COMPUTE: "compute",
    StepCause.COPY: "memory",
    StepCause.COMMUNICATION: "communication",
    StepCause.RANK_WAIT: "series-4",
    StepCause.HOST: "host",
    StepCause.LAUNCH: "series-5",
    StepCause.BLOCKED: "series-9",
    StepCause.UNKNOWN: "idle",
}
_FORMULA = (
    "The critical path of the steps, from the end of the last one back over what each moment waited for the longest, "
    "cut where steps end. Its stretches are without gaps, so the parts add up to the step exactly. Of the job it goes "
    "over all ranks; of a rank it stays on the rank, and what it waits for others is a part of its own."
)


def verdict_section(results: RunResults) -> Section | None:
    """Build the section; None without advice or dependency graph."""
    advice = results.advice
    if advice is not None and advice.is_unknown:
        return Section("verdict", "What bounds the step", [Verdict(verdict(advice))])
    if advice is None or advice.accounting.is_empty():
        return None
    parts: list[Part] = [Verdict(verdict(advice)), _bars(advice)]
    first = advice.items.filter(pl.col("under").is_null()).head(_MOST_CARDS)
    if not first.is_empty():
        slices = _slices(results)
        parts.append(Cards([_card(advice, row, slices) for row in first.iter_rows(named=True)]))
    return Section("verdict", "What bounds the step", parts)


def _bars(advice: Advice) -> Chart:
    """Chart the accounting: a bar for the job, and one for each rank."""
    sums = (
        advice.accounting.group_by("of_rank", "cause")
        .agg(pl.col("ns").sum() / max(advice.steps, 1))
        .sort("of_rank", nulls_last=False)
    )
    causes, sums = _visible(sums)
    wide = sums.pivot("cause", index="of_rank", values="ns").with_columns(
        pl.col(cause.value).fill_null(0.0) for cause in causes
    )
    alone = wide.height <= 2
    if alone:
        wide = wide.head(1)
    ranks = wide.get_column("of_rank").to_list()
    labels = ["" if alone else "job" if rank is None else f"rank {rank}" for rank in ranks]
    bars = wide.select(
        pl.Series("label", labels, dtype=pl.String), *(pl.col(cause.value) for cause in causes)
    )
    names = {**CAUSES, StepCause.UNKNOWN: "other, unexplained"}
    series = [{"column": cause.value, "name": names[cause], "colour": _COLOURS[cause]} for cause in causes]
    each = "a step" if advice.steps else "the trace"
    schema = DataTable("accounting-table", "By step, cause and activity", advice.of_job, ACCOUNTING)
    return Chart(
        "accounting",
        ChartKind.STACKED_BARS,
        f"The time of {each}" if alone else f"The time of {each}, of the job and of each rank",
        lead(advice),
        {"bars": bars},
        {"unit": "ns", "title": f"time of {each}", "series": series},
        _FORMULA,
        schema,
    )


def _visible(sums: pl.DataFrame) -> tuple[list[StepCause], pl.DataFrame]:
    """Return the causes visible in any bar, and the sums, with all others as unexplained."""
    share = pl.col("ns") / pl.col("ns").sum().over("of_rank")
    seen = set(sums.filter(share >= _SEEN).get_column("cause").to_list())
    cause = (
        pl.when(pl.col("cause").is_in(list(seen))).then("cause").otherwise(pl.lit(StepCause.UNKNOWN.value))
    )
    merged = (
        sums.with_columns(cause)
        .group_by("of_rank", "cause")
        .agg(pl.col("ns").sum())
        .sort("of_rank", nulls_last=False)
    )
    return [cause for cause in StepCause if (merged.get_column("cause") == cause.value).any()], merged


def _card(advice: Advice, row: dict[str, Any], slices: pl.DataFrame) -> Card:
    detector = advice.detectors[row["detector"]]
    each = " per step" if advice.steps else ""
    low, high = duration(row["saving_low_per_step_ns"]), duration(row["saving_high_per_step_ns"])
    rows = [
        ("interval", f"{low} to {high}"),
        ("basis", basis_text(row)),
        *where_rows(advice, row, listed_by=""),
    ]
    figure = f"Saves about {duration(row['saving_per_step_ns'])}{each} ({percent(row['share'])})"
    title = f"{row['item']}. {capitalised(detector.title)}"
    drawn = _drawn_of(advice, row, slices)
    near = slices.filter(pl.col("rank").is_in(row["ranks"])).sort(
        "duration_ns", "slice", descending=[True, False]
    )
    shown_at = next((frame.item(0, "slice") for frame in (drawn, near) if not frame.is_empty()), None)
    change = capitalised(advice.change_of(row["detector"]))
    return Card(title, figure, rows, change, shown_at, is_drawn=not drawn.is_empty())


def _slices(results: RunResults) -> pl.DataFrame:
    """Return the slices of the timeline with rank and number; empty without a timeline."""
    slices, tracks = (results.views.get(f"timeline-{name}") for name in ("slices", "tracks"))
    if slices is None or tracks is None:
        return (
            TIMELINE_SLICES.empty()
            .select("event_id", as_text("name"), "duration_ns")
            .with_columns(rank=0, slice=0)
        )
    return (
        slices.select("track", "event_id", as_text("name"), "duration_ns")
        .with_row_index("slice")
        .join(tracks.select("track", "rank"), on="track", how="left", maintain_order="left")
    )


def _drawn_of(advice: Advice, row: dict[str, Any], slices: pl.DataFrame) -> pl.DataFrame:
    """Return the slices of an item, the best first: its worst drawn occurrences, else slices of its op."""
    occurrences = advice.evidence.filter(pl.col("item") == row["item"], pl.col("event_id").is_not_null())
    drawn = occurrences.join(slices, on=["rank", "event_id"], maintain_order="left")
    if not drawn.is_empty() or row["op"] is None:
        return drawn
    return slices.filter(pl.col("name") == row["op"]).sort("duration_ns", "slice", descending=[True, False])
