"""A critical path for people: how long, how much is explained, what it is made of, what to do next; and for JSON."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import Any

import polars as pl
from rich.table import Table
from rich.text import Text

from tracebraid.model.answers import TotalsBy
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.critical_path import CriticalPath
from tracebraid.model.graph.segment_kind import SegmentKind
from tracebraid.reports.error_lines import error_lines
from tracebraid.reports.machine import rows_data
from tracebraid.reports.path_tables import (
    hops_table,
    longest_table,
    residuals_table,
    steps_table,
    totals_table,
)
from tracebraid.reports.text import printable
from tracebraid.reports.units import duration, percent

__all__ = ["path_data", "path_parts"]

_NOTABLE_RESIDUAL = 0.05
"""Share of a step: with more than this on the path unexplained, totals may mislead."""
_NOTABLE_BARE = 0.5
"""Share of a step: with more than this of the path in no op and no Python function, it says little."""
_BARE = (SegmentKind.ANNOTATION.value, SegmentKind.THREAD.value)
"""Time of a thread of which nothing is known but the annotation."""


def path_data(path: CriticalPath) -> dict[str, Any]:
    """The path for JSON: its steps with their segments, and the error of the model."""
    of_steps = path.segments.partition_by("step", as_dict=True, maintain_order=True)
    shown = ("step", "span_ns", "path_ns", "residual_ns", "explained")
    steps = []
    for row in path.steps.select(shown).iter_rows(named=True):
        found = of_steps.get((row["step"],), path.segments.clear())
        steps.append({**row, "segments": rows_data(found.drop("step"))})
    return {"steps": steps, "replay_error": asdict(path.replay_error)}


def path_parts(path: CriticalPath, given: str, top: int, width: int) -> list[Text | Table]:
    """The texts and tables of a critical path.

    Args:
        path: the path.
        given: the file or folder of the traces, as it was given.
        top: rows of each table.
        width: characters in a line.
    """
    if path.steps.is_empty():
        return [Text("There is nothing in these traces that a path could go over.")]
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
        what = "Critical path of the whole trace, in which no step is marked"
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
    return [*lines, *error_lines(path.replay_error)]


def _next_lines(path: CriticalPath, given: str) -> list[str]:
    """What to do next: commands, the most useful first."""
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
            f"  tracebraid check {given}   whether the capture lacks what would explain the residuals"
        )
    bare = int(path.segments.filter(as_text("kind").is_in(_BARE)).get_column("duration_ns").sum())
    if bare > _NOTABLE_BARE * span:
        lines.append(
            f"  tracebraid capture --stacks ...   {percent(bare / span if span else 0.0)} of the path is a thread "
            "outside of all ops: stacks say what it does there"
        )
    if path.rank is None and len(path.ranks) > 1:
        slow = path.segments.group_by("rank").agg(pl.col("duration_ns").sum()).drop_nulls("rank")
        if not slow.is_empty():
            rank = slow.sort("duration_ns", "rank", descending=[True, False]).item(0, "rank")
            lines.append(f"  --rank {rank}   the path within the rank that holds the largest part of it")
    return lines


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
