"""A critical path for people: how long, how much is explained, what it is made of, what to do next; and for JSON."""

from __future__ import annotations

import shlex
from typing import Any

import polars as pl
from msgspec.structs import asdict
from rich.table import Table
from rich.text import Text

from tracebraid.model.answer_sentences import code_name
from tracebraid.model.answers.graph import SegmentKind, TotalsBy
from tracebraid.model.expressions import as_text
from tracebraid.model.graph import CriticalPath, Residual
from tracebraid.model.printable import printable
from tracebraid.model.quantities import duration, percent, ranges
from tracebraid.model.step import PROFILER_STEP
from tracebraid.reports.breakdown_bars import bar
from tracebraid.reports.error_lines import error_lines
from tracebraid.reports.fitted_table import Head, fitted_table
from tracebraid.reports.machine import rows_data
from tracebraid.reports.names import distinct_names

_TITLES = {
    TotalsBy.KIND: "Parts of the path",
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
"""Reasons for an activity that starts later than all its known dependencies."""
KINDS = {kind.value: code_name(kind) for kind in SegmentKind}
"""What people call the kinds of segments, by their codes."""
_WHOLE = "whole trace"
_NAME_WIDTH = 48
"""Maximum characters of a name beside others."""
_BAR_WIDTH = 16
"""Width of the bar of the whole span, in characters."""


def steps_table(path: CriticalPath, top: int, width: int) -> Table | None:
    """Tabulate the steps in order; None for a single step."""
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
    """Tabulate the totals of segments over all steps, longest first; None without values."""
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
            KINDS.get(row["value"], row["value"]) or _NONE[by],
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
    """Tabulate the longest explained segments."""
    rows = path.segments.filter(pl.col("residual_ns") == 0)
    rows = rows.sort("duration_ns", descending=True, maintain_order=True).head(top)
    if rows.is_empty():
        return None
    cells = [
        [
            name,
            KINDS[row["kind"]],
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
    """Tabulate the transitions of the path between ranks; None if it stays on one."""
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
    """Tabulate the largest residuals: delays beyond all known dependencies."""
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
    """Explain a residual of `PATH_SEGMENTS`."""
    return _WHY.get(Residual[residual.upper()], "") if residual else ""


def _lane(row: dict[str, Any]) -> str:
    return f"stream {row['stream']}" if row["stream"] is not None else row["thread"] or ""


def _step(path: CriticalPath, row: dict[str, Any]) -> str:
    """Return the step, if there are several."""
    return (row["step"] or "") if path.steps.height > 1 else ""


_NOTABLE_RESIDUAL = 0.05
"""Share of a step; if more of the path is unexplained, totals may mislead."""
_NOTABLE_BARE = 0.5
"""Share of a step; if more of the path lies outside ops and Python functions, it is of little use."""
_BARE = (SegmentKind.ANNOTATION.value, SegmentKind.THREAD.value)
"""Label of thread time of which only the annotation is known."""


def path_data(path: CriticalPath) -> dict[str, Any]:
    """Return the path for JSON: steps with segments, and the error of the model."""
    of_steps = path.segments.partition_by("step", as_dict=True, maintain_order=True)
    shown = ("step", "span_ns", "path_ns", "residual_ns", "explained")
    steps = []
    for row in path.steps.select(shown).iter_rows(named=True):
        found = of_steps.get((row["step"],), path.segments.clear())
        steps.append({**row, "segments": rows_data(found.drop("step"))})
    return {"steps": steps, "replay_error": asdict(path.replay_error)}


def path_parts(path: CriticalPath, given: str, top: int, width: int) -> list[Text | Table]:
    """Format a critical path as texts and tables."""
    if path.steps.is_empty():
        return [Text("These traces have no activities for a path.")]
    head = [Text(line) for line in _head_lines(path)]
    tables = [
        steps_table(path, top, width),
        totals_table(path, TotalsBy.KIND, top, width),
        totals_table(path, TotalsBy.OP, top, width),
        totals_table(path, TotalsBy.MODULE, top, width),
        longest_table(path, top, width),
        hops_table(path, top, width),
        residuals_table(path, top, width),
    ]
    known = [table for table in tables if table is not None]
    return [
        *head,
        Text(""),
        *known,
        *(Text(printable(line)) for line in _next_lines(path, shlex.quote(given))),
    ]


def _head_lines(path: CriticalPath) -> list[str]:
    spans = path.steps.get_column("span_ns")
    span = int(spans.sum())
    steps = path.steps.height
    if path.steps.get_column("step").item(0) is None:
        what = "Critical path of the whole trace, since no step is marked"
    else:
        what = f"Critical path of {steps:,} step{'s' if steps > 1 else ''}"
    where = f"within rank {path.rank}" if path.rank is not None else f"over {_count(len(path.ranks), 'rank')}"
    explained = int(path.steps.get_column("path_ns").sum()) / span if span else 1.0
    each = f", {duration(span / steps)} each" if steps > 1 else ""
    lines = [f"{what}, {where}: {duration(span)}{each}; {percent(explained)} of it is explained."]
    waiting = int(path.steps.get_column("waiting_ns").sum()) / span if span else 0.0
    lines.append(
        f"On the path {percent(waiting)} is waits and latencies in which nothing is computed or moved."
    )
    is_step = as_text("name").str.starts_with(PROFILER_STEP) | (as_text("kind") == SegmentKind.THREAD.value)
    if (bare := _bare_share(path, is_step)) > _NOTABLE_BARE:
        lines.append(
            f"{percent(bare)} of it is a thread outside of all that was recorded: the trace shows that it takes this "
            "time, and not for what."
        )
    return [*lines, *error_lines(path.replay_error)]


def _bare_share(path: CriticalPath, counts: pl.Expr) -> float:
    """How much of the path is a thread outside of all ops, calls and frames, 0 to 1; of the segments that count."""
    span = int(path.steps.get_column("span_ns").sum())
    is_bare = as_text("kind").is_in(_BARE) & pl.col("frames").is_null()
    bare = path.segments.filter(is_bare & counts).get_column("duration_ns").sum()
    return int(bare) / span if span else 0.0


def _next_lines(path: CriticalPath, given: str) -> list[str]:
    """Suggest the next commands, most useful first."""
    lines = ["Next:"]
    worst = path.steps.sort("span_ns", descending=True).row(0, named=True)
    if path.steps.height > 1 and worst["step"] is not None:
        name = str(worst["step"]).rpartition("#")[2]
        lines.append(f"  --step {name} -o path.json   the longest step, to be opened in Perfetto")
    else:
        lines.append("  -o path.json   the path and its arrows, to be opened in Perfetto")
    lines.append(
        f"  tracebraid what-if {given} --sweep   what each op, kernel family and collective would gain"
    )
    residual = int(path.steps.get_column("residual_ns").sum())
    span = int(path.steps.get_column("span_ns").sum())
    if residual > _NOTABLE_RESIDUAL * span:
        lines.append(
            f"  tracebraid check {given}   whether the capture misses data that would explain the residuals"
        )
    if _bare_share(path, pl.lit(value=True)) > _NOTABLE_BARE:
        lines.append("  tracebraid capture --stacks ...   stacks show what the thread does outside of ops")
    if path.rank is None and len(path.ranks) > 1:
        slow = path.segments.group_by("rank").agg(pl.col("duration_ns").sum()).drop_nulls("rank")
        if not slow.is_empty():
            rank = slow.sort("duration_ns", "rank", descending=[True, False]).item(0, "rank")
            lines.append(f"  --rank {rank}   the path within the rank that holds the largest part of it")
    return lines


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
