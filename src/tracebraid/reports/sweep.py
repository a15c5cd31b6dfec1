"""A sweep for people: what to optimise first; and for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
from rich.table import Table
from rich.text import Text

from tracebraid.reports.fitted_table import Head, fitted_table
from tracebraid.reports.machine import rows_data
from tracebraid.reports.names import distinct_names
from tracebraid.reports.text import printable
from tracebraid.reports.units import duration, percent
from tracebraid.reports.unmarked import unmarked_lines

__all__ = ["sweep_data", "sweep_parts"]

_NAME_WIDTH = 60
_GONE = (10, 50, 100)
_TAKEN_OVER = 1.9
"""Gain of all work over that of half of it: below, another path has taken over, which the report points out."""


def sweep_data(swept: pl.DataFrame) -> dict[str, Any]:
    """All groups for JSON."""
    return {"groups": rows_data(swept)}


def sweep_parts(
    swept: pl.DataFrame, top: int, width: int, *, unmarked: str | None = None
) -> list[Text | Table]:
    """The texts and tables of a sweep.

    Args:
        swept: `SWEEP`.
        top: rows of the table.
        width: characters in a line.
        unmarked: the annotation that should mark steps, where none is marked.
    """
    if swept.is_empty():
        return [Text("There is no work in the steps of these traces that could be faster.")]
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
    gains[-1] += " *" if half is not None and 0 < whole < _TAKEN_OVER * half else "  "
    return [
        f"{row['group_by']}{scope}",
        name,
        *gains,
        "" if half is None else duration(half),
        percent(row["on_path"]),
        duration(row["total_ns"]),
    ]
