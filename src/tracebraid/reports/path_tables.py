"""The tables of a critical path."""

from __future__ import annotations

from typing import Any

import polars as pl
from rich.table import Table

from tracebraid.model.answers import TotalsBy
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.codes import Residual
from tracebraid.model.graph.critical_path import CriticalPath
from tracebraid.model.graph.segment_kind import SegmentKind
from tracebraid.reports.answers.answer_cells import ranges
from tracebraid.reports.bars import bar
from tracebraid.reports.fitted_table import Head, fitted_table
from tracebraid.reports.names import distinct_names
from tracebraid.reports.text import printable
from tracebraid.reports.units import duration, percent

__all__ = ["hops_table", "longest_table", "residuals_table", "steps_table", "totals_table", "why"]

_TITLES = {
    TotalsBy.KIND: "What the path is made of",
    TotalsBy.OP: "By op",
    TotalsBy.MODULE: "By module",
}
_NONE = {
    TotalsBy.KIND: "none",
    TotalsBy.OP: "in no op",
    TotalsBy.MODULE: "in no module",
}
_WHY = {
    Residual.LAUNCH: "late launch",
    Residual.STREAM: "gap on the stream",
    Residual.EVENT_WAIT: "late after event",
    Residual.SYNC: "call returned late",
    Residual.THREAD: "thread ran late",
    Residual.COMMUNICATION: "communication late",
    Residual.BEFORE: "nothing recorded",
    Residual.UNEXPLAINED: "far beyond usual",
}
"""Why something is later than all that it is known to wait for."""
_WHOLE = "whole trace"
_NAME_WIDTH = 48
"""Characters of names that are shown beside others."""
_BAR_WIDTH = 16
"""Characters of the bar of the whole span."""


def steps_table(path: CriticalPath, top: int, width: int) -> Table | None:
    """The steps in their order; None where there is a single one."""
    if path.steps.height < 2:
        return None
    rows = [
        [
            row["step"] or _WHOLE,
            duration(row["span_ns"]),
            percent(row["explained"]),
            duration(row["residual_ns"]),
            duration(row["waiting_ns"]),
            f"{row['segments']:,}",
            f"{row['hops']:,}",
            ranges(row["ranks"]),
        ]
        for row in path.steps.head(top).iter_rows(named=True)
    ]
    more = path.steps.height - top
    title = "Steps" if more <= 0 else f"Steps (the first {top}, {more:,} more)"
    heads = [Head("step", "left", shortens=True)]
    heads += [Head(name) for name in ("span", "explained", "residual", "waits", "segments", "hops", "ranks")]
    return fitted_table(title, heads, rows, width, kept=4)


def totals_table(path: CriticalPath, by: TotalsBy, top: int, width: int) -> Table | None:
    """What the segments add up to over all steps, the longest first; None where nothing has a value."""
    rows = path.totals.filter(as_text("by") == by.value)
    found = (
        rows.group_by("value", maintain_order=True)
        .agg(pl.col("duration_ns", "segments").sum(), pl.col("waits").first())
        .sort("duration_ns", "value", descending=[True, False], nulls_last=True)
    )
    if found.get_column("value").drop_nulls().is_empty():
        return None
    span = int(path.steps.get_column("span_ns").sum())
    steps = path.steps.height
    cells = [
        [
            row["value"] or _NONE[by],
            duration(row["duration_ns"] / steps),
            percent(row["duration_ns"] / span if span else 0.0),
            f"{row['segments']:,}",
            "waits" if row["waits"] else "",
            bar(row["duration_ns"] / span if span else 0.0, _BAR_WIDTH),
        ]
        for row in found.head(top).iter_rows(named=True)
    ]
    each = "time" if steps == 1 else "time per step"
    heads = [
        Head(by.value, "left", shortens=True),
        Head(each),
        Head("share"),
        Head("segments"),
        Head("", "left"),
        Head("", "left"),
    ]
    return fitted_table(_TITLES[by], heads, cells, width, kept=3)


def longest_table(path: CriticalPath, top: int, width: int) -> Table | None:
    """The longest segments that are explained."""
    rows = path.segments.filter(pl.col("residual_ns") == 0)
    rows = rows.sort("duration_ns", descending=True, maintain_order=True).head(top)
    if rows.is_empty():
        return None
    cells = [
        [
            name,
            row["kind"],
            duration(row["duration_ns"]),
            "" if row["rank"] is None else str(row["rank"]),
            _lane(row),
            "" if row["on_path"] is None else percent(row["on_path"]),
            row["op"] if row["op"] != row["name"] else "",
            _step(path, row),
            row["module"] or "",
        ]
        for row, name in zip(_texts(rows), _names(rows), strict=True)
    ]
    heads = [
        Head("segment", "left", shortens=True),
        Head("kind", "left"),
        Head("duration"),
        Head("rank"),
        Head("on", "left", shortens=True),
        Head("in replays"),
        Head("op", "left", shortens=True),
        Head("step", "left", shortens=True),
        Head("module", "left", shortens=True),
    ]
    cells = [[text or "" for text in row] for row in cells]
    return fitted_table("Longest segments", heads, cells, width, kept=4)


def hops_table(path: CriticalPath, top: int, width: int) -> Table | None:
    """Between which ranks the path goes; None where it stays within one."""
    found = (
        path.hops.group_by("from_rank", "to_rank", "to_name", maintain_order=True)
        .len("hops")
        .sort("hops", "from_rank", "to_rank", descending=[True, False, False], maintain_order=True)
    )
    if found.is_empty():
        return None
    cells = [
        [str(row["from_rank"]), str(row["to_rank"]), f"{row['hops']:,}", row["to_name"] or ""]
        for row in found.head(top).iter_rows(named=True)
    ]
    heads = [Head("from rank"), Head("to rank"), Head("times"), Head("to", "left", shortens=True)]
    return fitted_table("Between ranks", heads, cells, width, kept=3)


def residuals_table(path: CriticalPath, top: int, width: int) -> Table | None:
    """The largest residuals: what came later than all that it is known to wait for."""
    rows = path.segments.filter(as_text("kind") == SegmentKind.RESIDUAL.value)
    rows = rows.sort("duration_ns", descending=True, maintain_order=True).head(top)
    if rows.is_empty():
        return None
    cells = [
        [
            f"before {name}",
            why(row["residual"]),
            duration(row["duration_ns"]),
            "" if row["rank"] is None else str(row["rank"]),
            _lane(row),
            _step(path, row),
        ]
        for row, name in zip(_texts(rows), _names(rows), strict=True)
    ]
    heads = [
        Head("residual", "left", shortens=True),
        Head("why", "left"),
        Head("duration"),
        Head("rank"),
        Head("on", "left", shortens=True),
        Head("step", "left", shortens=True),
    ]
    return fitted_table("Largest residuals", heads, cells, width, kept=4)


def _texts(rows: pl.DataFrame) -> list[dict[str, Any]]:
    return rows.with_columns(pl.col(pl.Categorical).cast(pl.String)).to_dicts()


def _names(rows: pl.DataFrame) -> list[str]:
    names = rows.get_column("name").cast(pl.String).to_list()
    return distinct_names([printable(name or "unnamed") for name in names], _NAME_WIDTH)


def why(residual: str | None) -> str:
    """Words for a residual of `PATH_SEGMENTS`."""
    return _WHY.get(Residual[residual.upper()], "") if residual else ""


def _lane(row: dict[str, Any]) -> str:
    return f"stream {row['stream']}" if row["stream"] is not None else row["thread"] or ""


def _step(path: CriticalPath, row: dict[str, Any]) -> str:
    """The step, where there are several."""
    return (row["step"] or "") if path.steps.height > 1 else ""
