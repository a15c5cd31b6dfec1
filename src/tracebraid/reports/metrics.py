"""Metrics as a table for people, and as plain data for JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import polars as pl
from rich.table import Table

from tracebraid.model.analysis import Need
from tracebraid.model.answer_sentences import CODE_SENTENCES
from tracebraid.model.answers.job import MetricLack
from tracebraid.model.quantities import duration, number, percent, quantity, size
from tracebraid.model.questions import Metric, Unit
from tracebraid.reports.fitted_table import captioned, table_of
from tracebraid.reports.names import cell, some_of

_TEXTS: dict[str, Callable[[float], str]] = {
    Unit.NS.value: duration,
    Unit.SHARE.value: percent,
    Unit.BYTES.value: size,
    Unit.BYTES_PER_STEP.value: lambda value: f"{size(value)}/step",
    Unit.BYTES_PER_S.value: lambda value: f"{size(value)}/s",
    Unit.FLOP_PER_S.value: lambda value: f"{quantity(value)}FLOP/s",
    Unit.RATIO.value: number,
    Unit.COUNT.value: number,
    Unit.PER_STEP.value: lambda value: f"{number(value)}/step",
}
"""Formatters of values by unit; other units follow the number."""


def metrics_data(frame: pl.DataFrame) -> dict[str, Any]:
    """Return, by metric, the value over all ranks and that of each rank."""
    data: dict[str, Any] = {}
    for row in frame.iter_rows(named=True):
        name, rank = row.pop("metric"), row.pop("rank")
        if rank is None:
            count = row.pop("ranks")
            data[name] = {**row, "ranks": count, "by_rank": {}}
        else:
            data[name]["by_rank"][str(rank)] = row["value"]
    return data


def metrics_table(frame: pl.DataFrame, per_rank: bool) -> Table:
    """Tabulate the metrics with a value: over all ranks, and of each rank if requested."""
    known = frame.filter(pl.col("value").is_not_null())
    rows = known if per_rank else known.filter(pl.col("rank").is_null())
    ranks = [("rank", "right")] if per_rank else []
    right = [("value", "right"), ("95 % interval", "right"), ("steps", "right"), ("ranks", "right")]
    table = table_of("", [("metric", "left"), *ranks, *right])
    table.columns[0].no_wrap = True
    last = None
    for row in rows.iter_rows(named=True):
        if per_rank and last not in (None, row["metric"]):
            table.add_section()
        last = row["metric"]
        rank = ["all" if row["rank"] is None else str(row["rank"])] if per_rank else []
        table.add_row(cell(row["metric"]), *rank, *map(cell, _cells(row)))
    return table


def no_values_lines(frame: pl.DataFrame) -> list[str]:
    """List the metrics without a value over all ranks, a line for each reason."""
    lacks = frame.filter(pl.col("rank").is_null() & pl.col("value").is_null())
    return [
        f"note: no {some_of(names)}: {_sentence(reason)}"
        for reason, names in lacks.group_by("lacks", maintain_order=True).agg("metric").iter_rows()
    ]


def metric_list_data(metrics: Iterable[Metric]) -> list[dict[str, Any]]:
    """List the metrics."""
    return [
        {
            "name": metric.name,
            "unit": metric.unit_text,
            "formula": metric.formula,
            "over_ranks": metric.over_ranks.value,
            "needs": [need.value for need in metric.needs],
        }
        for metric in metrics
    ]


def metric_list_table(metrics: Iterable[Metric], width: int) -> Table:
    """List the metrics; where there is no room, without the last columns."""
    names = ("name", "unit", "formula", "over ranks", "needs")
    shown = names if width >= _LIST_WIDTH else names[:3]
    table = table_of("", [(name, "left") for name in shown])
    table.columns[0].no_wrap = True
    for metric in metrics:
        needs = ", ".join(need.value for need in metric.needs) or "-"
        cells = (metric.name, metric.unit_text, metric.formula, metric.over_ranks.value, needs)
        table.add_row(*map(cell, cells[: len(shown)]))
    return table if shown == names else captioned(table, f"no room for: {', '.join(names[3:])}")


_LIST_WIDTH = 120
"""Characters of a line in which all columns of the list of metrics are readable."""


def _cells(row: dict[str, Any]) -> list[str]:
    low, high = row["low"], row["high"]
    interval = "-" if low is None else _interval(_text(low, row["unit"]), _text(high, row["unit"]))
    steps = "-" if row["steps"] is None else "whole trace" if row["steps"] == 0 else f"{row['steps']:,}"
    return [_text(row["value"], row["unit"]), interval, steps, f"{row['ranks']:,}"]


def _interval(low: str, high: str) -> str:
    """Format an interval as `5.051 to 23.66 ms`: a common unit is printed once."""
    number_of_low, _, unit = low.rpartition(" ")
    return f"{number_of_low if unit and high.endswith(f' {unit}') else low} to {high}"


def _text(value: float, unit: str) -> str:
    show = _TEXTS.get(unit)
    return f"{number(value)} {unit}" if show is None else show(value)


def _sentence(reason: str) -> str:
    """State the missing data, and how to capture it."""
    need = next((need for need in Need if need.value == reason), None)
    return CODE_SENTENCES[MetricLack(reason)] if need is None else f"{need.missing}. {need.capture}"
