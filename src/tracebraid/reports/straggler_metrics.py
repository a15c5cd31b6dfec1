"""Straggler metrics for people, and for JSON."""

from __future__ import annotations

from typing import Any

import polars as pl
from rich.table import Table
from rich.text import Text

from tracebraid.model.answers.graph.stragglers import StragglerMetric
from tracebraid.reports.fitted_table import Head, fitted_table
from tracebraid.reports.text import printable
from tracebraid.reports.units import duration, percent
from tracebraid.reports.unmarked import unmarked_lines

__all__ = ["straggler_data", "straggler_parts"]

_NOTABLE = 0.0005
"""Of S - 1: what is less is printed as 0, and shares of it are noise."""


def straggler_data(metrics: pl.DataFrame) -> dict[str, Any]:
    """The metrics for JSON, by the names of the paper."""
    by = metrics.filter(pl.col("metric") == StragglerMetric.SLOWDOWN_BY.value)
    groups = by.get_column("group_by").unique(maintain_order=True).sort().to_list()
    total = metrics.row(0, named=True)
    return {
        "S": total["value"],
        "S_by": {
            name: dict(by.filter(pl.col("group_by") == name).select("group", "value").iter_rows())
            for name in groups
        },
        "M_S": _value(metrics, StragglerMetric.LAST_STAGE),
        "M_W": _value(metrics, StragglerMetric.SLOWEST_WORKERS),
        "step_ns": total["step_ns"],
        "ideal_ns": total["ideal_ns"],
    }


def straggler_parts(
    metrics: pl.DataFrame, top: int, width: int, *, unmarked: str | None = None
) -> list[Text | Table]:
    """The texts and tables of straggler metrics.

    Args:
        metrics: `STRAGGLER_METRICS`.
        top: rows of the table.
        width: characters in a line.
        unmarked: the annotation that should mark steps, where none is marked.
    """
    total = metrics.row(0, named=True)
    if total["value"] is None:
        return [Text("There is no work in the steps of these traces that could be compared.")]
    what = "the whole trace" if unmarked else "a step"
    lines = [
        *unmarked_lines(unmarked),
        f"S = {total['value']:.3f}: {what} takes {duration(total['step_ns'])} where nothing is late without reason; "
        f"were the same operations equally long on all ranks and in all steps, {duration(total['ideal_ns'])}.",
    ]
    if abs(total["value"] - 1) < _NOTABLE:
        lines.append("Next to nothing is lost by differences between ranks and between steps.")
    elif total["value"] < 1:
        lines.append("Nothing is lost: ranks do different work, of which equal shares would take longer.")
    lines += _lost_lines(metrics) if total["value"] - 1 >= _NOTABLE else []
    return [*(Text(printable(line)) for line in lines), Text(""), _groups_table(metrics, top, width)]


def _lost_lines(metrics: pl.DataFrame) -> list[str]:
    """What takes away which share of the time that is lost."""
    lines = []
    last = _value(metrics, StragglerMetric.LAST_STAGE)
    if last is not None:
        lines.append(f"M_S = {percent(last)} of what is lost goes when the last stage's work is made ideal.")
    slowest = metrics.filter(pl.col("metric") == StragglerMetric.SLOWEST_WORKERS.value)
    if slowest.height and slowest.item(0, "value") is not None:
        share = percent(slowest.item(0, "value"))
        ranks = slowest.item(0, "group")
        lines.append(f"M_W = {share} of what is lost goes when the work of rank {ranks} is made ideal.")
    return lines


def _groups_table(metrics: pl.DataFrame, top: int, width: int) -> Table:
    by = metrics.filter(pl.col("metric") == StragglerMetric.SLOWDOWN_BY.value).head(top)
    rows = [
        [row["group_by"], row["group"], f"{row['value']:.4f}", duration(row["step_ns"])]
        for row in by.iter_rows(named=True)
    ]
    heads = (Head("by", "left"), Head("group", "left", shortens=True), Head("S_x"), Head("step"))
    title = "Ideal steps with only the work of this group as it was"
    return fitted_table(title, heads, rows, width, kept=3)


def _value(metrics: pl.DataFrame, metric: StragglerMetric) -> float | None:
    found = metrics.filter(pl.col("metric") == metric.value).get_column("value")
    return found.item(0) if len(found) else None
