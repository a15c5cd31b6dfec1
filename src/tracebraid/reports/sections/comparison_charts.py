"""Charts of a comparison: parts of the step, and steps of ranks."""

from __future__ import annotations

import polars as pl

from tracebraid.model.answer_sentences import code_name
from tracebraid.model.answers import DIFF_PARTS, DIFF_STEPS, DiffPart
from tracebraid.model.column import Table
from tracebraid.model.questions.comparison import Comparison
from tracebraid.model.report.parts import Chart, ChartKind, DataTable
from tracebraid.reports.units import duration

__all__ = ["parts_chart", "ranks_chart"]

_MOST_RANKS = 24
"""Bars that a chart has at most; the table has more."""
_TABLE_ROWS = 1_000
_COLUMNS = ("part", "a_ns", "b_ns", "difference_ns")
_TOTALS = Table(
    "diff_part_totals",
    "One row per part of the step.",
    tuple(column for column in DIFF_PARTS.columns if column.name in _COLUMNS),
)
_ADD_UP = (
    "Means over the steps and ranks that count. The differences of all parts add up to that of the step."
)


def parts_chart(found: Comparison) -> Chart | None:
    """By how much each part of the step differs; None where there is no part."""
    totals = {
        part: found.parts.filter(pl.col("part") == part.value).select(
            pl.col("a_ns", "b_ns", "difference_ns").sum()
        )
        for part in DiffPart
    }
    rows = [
        {"part": code_name(part), **total.row(0, named=True)}
        for part, total in totals.items()
        if any(total.row(0))
    ]
    if not rows:
        return None
    frame = pl.DataFrame(rows, schema=_TOTALS.polars_schema())
    bars = frame.select(pl.col("part").alias("label"), pl.col("difference_ns").alias("value"))
    most = max(rows, key=lambda row: abs(row["difference_ns"]))
    summary = (
        f"Of {duration(found.difference_ns)} the most is {most['part']}: {duration(most['difference_ns'])}."
    )
    table = DataTable("rows-part-totals", "Parts of a step", frame, _TOTALS, formula=_ADD_UP)
    options = {"unit": "ns", "title": "b - a, of a step", "colour": "series-1"}
    title = "Difference of a step by its parts"
    return Chart("origin-parts", ChartKind.BARS, title, summary, {"bars": bars}, options, _ADD_UP, table)


def ranks_chart(found: Comparison) -> Chart:
    """By how much the step of each rank differs: of many ranks those that differ most."""
    ranks = found.steps.filter(pl.col("rank").is_not_null())
    order = pl.col("difference_ns").abs().rank("ordinal", descending=True)
    shown = ranks.filter(order <= _MOST_RANKS).sort("rank")
    bars = shown.select(
        pl.format("rank {}", "rank").alias("label"),
        pl.col("difference_ns").alias("value"),
        pl.col("low_ns").alias("low"),
        pl.col("high_ns").alias("high"),
    )
    if bars.get_column("low").null_count() == bars.height:
        bars = bars.drop("low", "high")
    differences = shown.get_column("difference_ns").to_list()
    least, most = duration(min(differences)), duration(max(differences))
    few = shown.height == ranks.height
    which = "each rank" if few else f"{shown.height} of {ranks.height:,} ranks, which differ most,"
    summary = f"The mean step of {which} differs by {least} to {most}."
    table = DataTable(
        "rows-steps",
        "Steps by rank",
        found.steps.head(_TABLE_ROWS),
        DIFF_STEPS,
        left_out=max(0, found.steps.height - _TABLE_ROWS),
    )
    options = {
        "unit": "ns",
        "title": "b - a, of a step",
        "colour": "series-1",
        "range": "interval of a typical step's difference, 99.73 %",
    }
    title = "Difference of a step by rank"
    return Chart("verdict-ranks", ChartKind.BARS, title, summary, {"bars": bars}, options, "", table)
