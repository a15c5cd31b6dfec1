"""Stragglers: which ranks hold the others up, and who waits for whom."""

from __future__ import annotations

import polars as pl

from tracebraid.model.answer_sentences import code_name
from tracebraid.model.answers.job.ranks import LateCause
from tracebraid.model.report.parts import Chart, ChartKind, Note, Part, Section
from tracebraid.model.report.run_results import RunResults
from tracebraid.reports.sections.asked import answer_table, frame_of, missing
from tracebraid.reports.sections.rank_choice import rank_label
from tracebraid.reports.units import duration

__all__ = ["stragglers"]

_MOST_BARS = 20
"""Ranks of the bars; the table has more."""
_MOST_RANKS = 40
"""Rows, and columns, of the map of who waits for whom."""

_CAUSED = (
    "How long other ranks waited for the rank, or for a rank that inherited its lateness, at collectives at which it "
    "was late by a cause of its own: summed over the ranks that waited. Systematic: it is late more often than chance "
    "would have it, by a binomial test corrected for the number of ranks (analysis stragglers)."
)
_WAITS = (
    "How long a rank waited in collectives for the rank that came last; what several collectives wait for at once "
    "counts once (analysis rank_waits)."
)
_STRAGGLERS = (
    "rank systematic p_value late_count blocks worst_count share lateness_ns mean_ns caused_ns cause name "
    "cause_share"
)
_LATE = (
    "rank step type group start_ns lateness_ns margin_ns caused_ns cause name time_ns others_ns explained_share "
    "origin_rank"
)


def stragglers(results: RunResults) -> Section | None:
    """The section; None where no question on ranks was asked."""
    if results.answers.get("stragglers") is None:
        return None
    lead = "A rank that comes late to a collective makes all others wait."
    lacks = missing(results, "stragglers", "Stragglers")
    if lacks:
        return Section("stragglers", "Stragglers", lacks, lead)
    late = frame_of(results, "stragglers")
    parts: list[Part] = []
    if late is None:
        parts.append(Note("No rank is late at a collective by a cause of its own."))
    else:
        parts.append(_caused(results, late))
    parts += [*_waits(results), *_late_arrivals(results)]
    return Section("stragglers", "Stragglers", parts, lead)


def _caused(results: RunResults, late: pl.DataFrame) -> Chart:
    """How long others waited for each rank."""
    ordered = late.sort("caused_ns", "rank", descending=[True, False])
    shown = ordered.head(_MOST_BARS)
    bars = shown.select(
        pl.Series("label", [rank_label(rank) for rank in shown.get_column("rank")], dtype=pl.String),
        pl.col("caused_ns").alias("value"),
        pl.col("systematic").fill_null(False).cast(pl.Int64).alias("strong"),
        pl.Series("note", [_cause(row) for row in shown.iter_rows(named=True)], dtype=pl.String),
    )
    systematic = shown.filter(pl.col("systematic")).get_column("rank").to_list()
    ranks = ", ".join(map(str, systematic))
    first = shown.row(0, named=True)
    summary = f"Others waited {duration(first['caused_ns'])} for rank {first['rank']}, the most. " + (
        f"Systematic stragglers: rank {ranks}." if systematic else "No rank is late systematically."
    )
    options = {
        "unit": "ns",
        "title": "waiting that the rank caused",
        "colour": "series-1",
        "strong": "critical",
        "strong_name": "systematic straggler",
        "colour_name": "late at times",
    }
    table = answer_table(results, "stragglers", "Ranks that are late", _STRAGGLERS.split(), ordered)
    title = "Waiting that each rank caused"
    return Chart("stragglers-caused", ChartKind.BARS, title, summary, {"bars": bars}, options, _CAUSED, table)


def _cause(row: dict[str, object]) -> str:
    """What made a rank late, in words."""
    known = {code.value: code for code in LateCause}
    cause = known.get(str(row["cause"]))
    name = f": {row['name']}" if row["name"] else ""
    often = f"late at {row['late_count']:,}, the latest in {row['worst_count']:,} of {row['blocks']:,}"
    return often if cause is None else f"{often}; {code_name(cause)}{name}"


def _waits(results: RunResults) -> list[Part]:
    """Who waits for whom."""
    waits = frame_of(results, "rank_waits")
    if waits is None:
        return []
    summed = waits.group_by("rank", "waited_for").agg(pl.col("waiting_ns").sum())
    waiting = summed.group_by("rank").agg(pl.col("waiting_ns").sum())
    caused = summed.group_by(pl.col("waited_for").alias("rank")).agg(pl.col("waiting_ns").sum())
    ranks, causes = _most(waiting), _most(caused)
    cells = summed.filter(pl.col("rank").is_in(ranks), pl.col("waited_for").is_in(causes)).select(
        pl.col("waited_for").replace_strict(dict(zip(causes, range(len(causes)), strict=True))).alias("x"),
        pl.col("rank").replace_strict(dict(zip(ranks, range(len(ranks)), strict=True))).alias("y"),
        pl.col("waiting_ns").alias("value"),
    )
    most = summed.sort("waiting_ns", "rank", descending=[True, False]).row(0, named=True)
    summary = f"Rank {most['rank']} waits the longest for rank {most['waited_for']}: {duration(most['waiting_ns'])}."
    options = {
        "unit": "ns",
        "x_labels": [str(rank) for rank in causes],
        "y_labels": [str(rank) for rank in ranks],
        "x_title": "for rank",
        "y_title": "rank",
        "value_title": "waiting",
        "from_zero": True,
    }
    columns = ("rank", "waited_for", "waiting_ns", "share", "count", "longest_ns")
    order = waits.sort("waiting_ns", descending=True, maintain_order=True)
    table = answer_table(results, "rank_waits", "Who waits for whom", columns, order)
    chart = Chart(
        "stragglers-waits",
        ChartKind.HEAT_MAP,
        "Who waits for whom",
        summary,
        {"cells": cells.sort("y", "x")},
        options,
        _WAITS,
        table,
    )
    return [chart, *_left_out(waiting.height, len(ranks), caused.height, len(causes))]


def _most(waits: pl.DataFrame) -> list[int]:
    """The ranks with the most waiting, in order."""
    ordered = waits.sort("waiting_ns", "rank", descending=[True, False]).head(_MOST_RANKS)
    return sorted(ordered.get_column("rank"))


def _left_out(waiting: int, rows: int, causing: int, columns: int) -> list[Part]:
    if waiting == rows and causing == columns:
        return []
    text = (
        f"Of {waiting:,} ranks that wait the {rows} are shown that wait longest, of {causing:,} that others wait for "
        f"the {columns} that others wait for longest."
    )
    return [Note(text)]


def _late_arrivals(results: RunResults) -> list[Part]:
    arrivals = frame_of(results, "late_arrivals")
    if arrivals is None:
        return []
    ordered = arrivals.sort("caused_ns", descending=True, maintain_order=True)
    return [
        answer_table(
            results, "late_arrivals", "Late arrivals, and what made them late", _LATE.split(), ordered
        )
    ]
