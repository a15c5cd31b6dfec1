"""Ranks and steps: where a step took longer, and where ranks waited."""

from __future__ import annotations

import polars as pl

from tracebraid.model.report.parts import Chart, ChartKind, Note, Part, Section
from tracebraid.model.report.run_results import RunResults
from tracebraid.reports.sections.asked import answer_table, frame_of
from tracebraid.reports.sections.rank_choice import different, step_label
from tracebraid.reports.units import duration

__all__ = ["heat"]

_MOST_RANKS = 48
"""Rows of a heat map: more do not fit a screen."""
_MOST_STEPS = 60
"""Columns of a heat map: more are too narrow on a phone."""

_COLUMNS = [
    "rank",
    "step",
    "span_ns",
    "compute_ns",
    "transfer_ns",
    "waiting_ns",
    "caused_ns",
    "idle_ns",
    "late_ns",
    "late_count",
]
_SPAN = "The length of the step on the host of the rank (analysis rank_steps)."
_WAITING = (
    "How long the rank's collectives wait for another rank in the step; overlaps count once. "
    "What of a collective is waiting and what transfer is said by the last to arrive (analysis rank_steps)."
)
_BLOCKS = " Steps are put together in blocks; a cell is the mean of its steps."


def heat(results: RunResults) -> Section | None:
    """The section; None where there are less than two ranks with steps."""
    steps = frame_of(results, "rank_steps")
    if steps is None or steps.get_column("rank").n_unique() < 2:
        return None
    ranks = steps.get_column("rank").n_unique()
    kept = different(steps.fill_null(0), ["span_ns", "waiting_ns"], ["step"], _MOST_RANKS)
    shown = steps.filter(pl.col("rank").is_in(kept))
    table = answer_table(results, "rank_steps", "Ranks and steps", _COLUMNS)
    parts: list[Part] = [_map("heat-span", "Step time, rank by step", shown, "span_ns", _SPAN)]
    if shown.select(pl.col("waiting_ns").fill_null(0).max()).item() > 0:
        title = "Waiting for other ranks, rank by step"
        parts.append(_map("heat-waiting", title, shown, "waiting_ns", _WAITING))
    if len(kept) < ranks:
        text = f"{len(kept)} of {ranks:,} ranks are shown: those whose steps and waiting differ most."
        parts.append(Note(text))
    lead = (
        "A row that is darker than the others is a rank that is slower or waits longer; a column is a step."
    )
    return Section("ranks-and-steps", "Ranks and steps", [*parts, table], lead)


def _map(id: str, title: str, steps: pl.DataFrame, value: str, formula: str) -> Chart:
    cells, ranks, columns = _cells(steps, value)
    blocked = steps.get_column("step").n_unique() > len(columns)
    most = cells.sort("value", descending=True).row(0, named=True)
    summary = (
        f"The most is {duration(most['value'])}, on rank {ranks[most['y']]} in step {columns[most['x']]}."
    )
    options = {
        "unit": "ns",
        "x_labels": columns,
        "y_labels": ranks,
        "x_title": "step",
        "y_title": "rank",
        "value_title": "step time" if value == "span_ns" else "waiting",
        "from_zero": value != "span_ns",
    }
    formula += _BLOCKS if blocked else ""
    return Chart(id, ChartKind.HEAT_MAP, title, summary, {"cells": cells}, options, formula)


def _cells(steps: pl.DataFrame, value: str) -> tuple[pl.DataFrame, list[str], list[str]]:
    """Cells by the numbers of their column and row, and the labels of rows and columns."""
    order = steps.group_by("step").agg(pl.col("start_ns").min()).sort("start_ns", "step")
    names = order.get_column("step").to_list()
    size = max(1, -(-len(names) // _MOST_STEPS))
    column = {name: number // size for number, name in enumerate(names)}
    firsts = [names[at : at + size] for at in range(0, len(names), size)]
    labels = [
        step_label(block[0]) if len(block) == 1 else f"{step_label(block[0])} - {step_label(block[-1])}"
        for block in firsts
    ]
    ranks = steps.get_column("rank").unique().sort().to_list()
    row = {rank: number for number, rank in enumerate(ranks)}
    cells = (
        steps.select(
            pl.col("step").replace_strict(column, return_dtype=pl.Int64).alias("x"),
            pl.col("rank").replace_strict(row, return_dtype=pl.Int64).alias("y"),
            pl.col(value).fill_null(0).alias("value"),
        )
        .group_by("x", "y")
        .agg(pl.col("value").mean())
        .sort("y", "x")
    )
    return cells, [str(rank) for rank in ranks], labels
