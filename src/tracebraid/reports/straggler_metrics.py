"""Straggler metrics for people, and for JSON."""

from __future__ import annotations

from typing import Any

import polars as pl
from rich.table import Table
from rich.text import Text

from tracebraid.model.answers.graph import StragglerMetric
from tracebraid.model.printable import printable
from tracebraid.model.quantities import duration, percent
from tracebraid.reports.fitted_table import Head, fitted_table
from tracebraid.reports.unmarked import unmarked_lines

_NOTABLE = 0.0005
"""Minimum of S - 1; smaller values are printed as 0, as shares of them are noise."""


def straggler_data(metrics: pl.DataFrame) -> dict[str, Any]:
    """Return the metrics for JSON, by the names of the paper."""
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
    """Format straggler metrics as texts and tables."""
    total = metrics.row(0, named=True)
    if total["value"] is None:
        return [Text("The steps of these traces have no comparable work.")]
    what = "the whole trace" if unmarked else "a step"
    lines = [
        *unmarked_lines(unmarked),
        f"S = {total['value']:.3f}: {what} takes {duration(total['step_ns'])} without unexplained delays; "
        f"with equal operations equally long on all ranks and in all steps, {duration(total['ideal_ns'])}.",
    ]
    if abs(total["value"] - 1) < _NOTABLE:
        is_rank = (pl.col("metric") == StragglerMetric.SLOWDOWN_BY.value) & (pl.col("group_by") == "rank")
        between = (
            "steps of the one rank that is here" if metrics.filter(is_rank).height == 1 else "ranks and steps"
        )
        lines.append(f"Almost no time is lost to differences between {between}.")
    elif total["value"] < 1:
        lines.append("No time is lost: ranks do different work, and equal shares would take longer.")
    lines += _lost_lines(metrics) if total["value"] - 1 >= _NOTABLE else []
    return [*(Text(printable(line)) for line in lines), Text(""), _groups_table(metrics, top, width)]


def _lost_lines(metrics: pl.DataFrame) -> list[str]:
    """List the share of the lost time that each remedy would recover."""
    lines = []
    last = _value(metrics, StragglerMetric.LAST_STAGE)
    if last is not None:
        lines.append(
            f"M_S = {percent(last)} of the lost time is recovered if the last stage's work is ideal."
        )
    slowest = metrics.filter(pl.col("metric") == StragglerMetric.SLOWEST_WORKERS.value)
    if slowest.height and slowest.item(0, "value") is not None:
        share = percent(slowest.item(0, "value"))
        ranks = slowest.item(0, "group")
        lines.append(f"M_W = {share} of the lost time is recovered if the work of rank {ranks} is ideal.")
    return lines


def _groups_table(metrics: pl.DataFrame, top: int, width: int) -> Table:
    by = metrics.filter(pl.col("metric") == StragglerMetric.SLOWDOWN_BY.value).head(top)
    rows = [
        [row["group_by"], row["group"], f"{row['value']:.4f}", duration(row["step_ns"])]
        for row in by.iter_rows(named=True)
    ]
    heads = (Head("by", "left"), Head("group", "left", shortens=True), Head("S_x"), Head("step"))
    title = "Ideal steps with only this group's work unchanged"
    return fitted_table(title, heads, rows, width, kept=3)


def _value(metrics: pl.DataFrame, metric: StragglerMetric) -> float | None:
    found = metrics.filter(pl.col("metric") == metric.value).get_column("value")
    return found.item(0) if len(found) else None
