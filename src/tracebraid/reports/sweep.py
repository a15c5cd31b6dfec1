"""A sweep for people: what to optimise first; and for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
from rich.table import Table
from rich.text import Text

from tracebraid.model.printable import printable
from tracebraid.model.quantities import duration, percent
from tracebraid.reports.fitted_table import Head, fitted_table
from tracebraid.reports.machine import rows_data
from tracebraid.reports.names import distinct_names
from tracebraid.reports.unmarked import unmarked_lines

_NAME_WIDTH = 60
_GONE = (10, 50, 100)
_DOMINATED = 1.9
"""Ratio of the gain of all work to that of half of it; below, another path dominates, which the report notes."""


def sweep_data(swept: pl.DataFrame) -> dict[str, Any]:
    """Return all groups for JSON."""
    return {"groups": rows_data(swept)}


def sweep_parts(
    swept: pl.DataFrame, top: int, width: int, *, unmarked: str | None = None
) -> list[Text | Table]:
    """Format a sweep as texts and tables."""
    if swept.is_empty():
        return [Text("The steps of these traces have no work that could be faster.")]
    shown = swept.head(top)
    names = distinct_names([printable(name) for name in shown.get_column("name").to_list()], _NAME_WIDTH)
    rows = [_cells(row, name) for row, name in zip(shown.iter_rows(named=True), names, strict=True)]
    heads = (
        Head("what", "left"),
        Head("name", "left", shortens=True),
        *(Head(f"-{gone} %") for gone in _GONE),
        Head("gain at -50 %"),
        Head("on the path"),
        Head("work"),
    )
    what = "the whole trace" if unmarked else "a step"
    lines = [
        f"Gain of {what} with 10 %, 50 %, 100 % of the work gone; groups overlap, so gains do not add up.",
        "launched: with calls in it and the device work that it launched. *: another path takes over.",
        "on the path: share of the critical paths; work: of all steps and ranks.",
    ]
    table = fitted_table("What to optimise first", heads, rows, width, kept=5)
    return [*map(Text, unmarked_lines(unmarked)), table, *map(Text, lines)]


def _cells(row: Mapping[str, Any], name: str) -> list[str]:
    scope = "" if row["scope"] == "self" else f" {row['scope']}"
    gains = ["" if row[f"gain_{gone}"] is None else percent(row[f"gain_{gone}"]) for gone in _GONE]
    half, whole = row["gain_50_ns"], row["gain_100_ns"]
    gains[-1] += " *" if half is not None and 0 < whole < _DOMINATED * half else "  "
    return [
        f"{row['group_by']}{scope}",
        name,
        *gains,
        "" if half is None else duration(half),
        percent(row["on_path"]),
        duration(row["total_ns"]),
    ]
