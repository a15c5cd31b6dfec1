"""What-if: what a step gains when the work of an op, kernel, module, ... is faster."""

from __future__ import annotations

import polars as pl

from tracebraid.model.answers.graph.sweep import SWEEP, SweepScope
from tracebraid.model.report.parts import Chart, ChartKind, DataTable, Missing, Note, Section
from tracebraid.model.report.run_results import RunResults
from tracebraid.reports.error_lines import error_lines
from tracebraid.reports.units import duration, percent

__all__ = ["sweep"]

_MOST_BARS = 20
"""Groups of the chart: those that gain most."""
_TABLE_ROWS = 1_000

_FORMULA = (
    "The dependency graph of the run is replayed with 10 %, 50 % and 100 % of a group's work gone; the gain is what a "
    "step becomes shorter by, on average. Groups overlap, so gains do not add up. 'launched': with the calls in it and "
    "the device work that it launched (tracebraid what-if --sweep)."
)
_MAKE_IT = "`tracebraid what-if --sweep` computes it"


def sweep(results: RunResults) -> Section | None:
    """The section; None where no what-if was asked."""
    lead = "What the step gains when work gets faster, from a replay of what waits for what."
    swept = results.sweep
    if swept is None and not results.without_graph:
        return None
    if swept is None:
        lacks = Missing("What-if", results.without_graph, _MAKE_IT)
        return Section("what-if", "What-if", [lacks], lead)
    known = swept.filter(pl.col("gain_50_ns").is_not_null(), pl.col("gain_100_ns") > 0)
    if known.is_empty():
        return Section("what-if", "What-if", [Note("No work in the steps could be faster.")], lead)
    path = results.path_of_steps
    errors = [] if path is None else [Note(line) for line in error_lines(path.replay_error)]
    return Section("what-if", "What-if", [_chart(swept, known), *errors], lead)


def _chart(swept: pl.DataFrame, known: pl.DataFrame) -> Chart:
    shown = known.head(_MOST_BARS)
    labels = [_label(row) for row in shown.iter_rows(named=True)]
    gains = [pl.col(f"gain_{gone}_ns").clip(0) for gone in (10, 50, 100)]
    first, half, whole = gains[0].fill_null(0), gains[1], gains[2]
    bars = shown.select(
        pl.Series("label", labels, dtype=pl.String),
        first.alias("tenth"),
        (half - first).clip(0).alias("half"),
        (whole - pl.max_horizontal(half, first)).clip(0).alias("whole"),
    )
    series = [
        {"column": "tenth", "name": "with 10 % of the work gone", "colour": "series-1"},
        {"column": "half", "name": "more with 50 %", "colour": "series-2"},
        {"column": "whole", "name": "more with all of it", "colour": "series-3"},
    ]
    row = shown.row(0, named=True)
    gain = f"{duration(row['gain_50_ns'])} ({percent(row['gain_50'])})"
    summary = f"{labels[0]} gains most with half of its work gone: {gain}."
    columns = tuple(column.name for column in SWEEP.columns)
    table = DataTable(
        *("sweep-table", "What to optimise first", swept.head(_TABLE_ROWS), SWEEP, columns),
        left_out=max(0, swept.height - _TABLE_ROWS),
    )
    options = {"unit": "ns", "title": "gain of a step", "series": series, "whole": "with all of it gone"}
    title = "What to optimise first"
    return Chart(
        "what-if-gains", ChartKind.STACKED_BARS, title, summary, {"bars": bars}, options, _FORMULA, table
    )


def _label(row: dict[str, object]) -> str:
    scope = "" if row["scope"] == SweepScope.SELF.value else f" {row['scope']}"
    return f"{row['group_by']}{scope}: {row['name']}"
