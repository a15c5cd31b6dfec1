"""Analyses and their answers, for people and for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import polars as pl
from rich.table import Table

from tracebraid.model.analysis import Analysis, Answer, Need
from tracebraid.model.sentences import NEED_SENTENCES
from tracebraid.reports.terminal import table_of
from tracebraid.reports.text import cell, shortened
from tracebraid.reports.units import duration, percent, quantity, size

__all__ = ["analyses_data", "analyses_table", "answer_table", "lacks_lines"]

_TEXT_WIDTH = 60
"""Characters of a text that are shown."""
_CONTEXT = ("rank", "step", "device", "doubtful")
"""Columns that are shown only where they differ from row to row, or say something."""

_UNITS: tuple[tuple[str, Callable[[Any], str]], ...] = (
    ("_flops_per_s", lambda value: f"{quantity(value)}FLOP/s"),
    ("_bytes_per_s", lambda value: f"{quantity(value)}B/s"),
    ("_gb_per_s", lambda value: f"{value:,.1f} GB/s"),
    ("_per_s", lambda value: f"{quantity(value)}/s"),
    ("_byte_s", lambda value: f"{quantity(value)}B s"),
    ("_ns", duration),
    ("_bytes", size),
    ("flops", lambda value: f"{quantity(value)}FLOP"),
    ("share", percent),
    ("mfu", percent),
    ("hfu", percent),
)
"""How a column is shown, by the end of its name."""


def analyses_data(analyses: Iterable[Analysis]) -> list[dict[str, Any]]:
    """What each analysis answers, its options, what it needs, and the columns of its answer."""
    return [
        {
            "name": analysis.name,
            "family": analysis.family.value,
            "question": analysis.question,
            "needs": [need.value for need in analysis.needs],
            "uses": [need.value for need in analysis.uses],
            "options": list(analysis.options),
            "columns": [{"name": column.name, "meaning": column.doc} for column in analysis.table.columns],
        }
        for analysis in analyses
    ]


def analyses_table(analyses: Iterable[Analysis]) -> Table:
    """What each analysis answers, and what it needs."""
    columns = [("name", "left"), ("question", "left"), ("needs", "left"), ("better with", "left")]
    table = table_of("", columns)
    family = None
    for analysis in analyses:
        if family is not None and analysis.family is not family:
            table.add_section()
        family = analysis.family
        table.add_row(analysis.name, cell(analysis.question), _names(analysis.needs), _names(analysis.uses))
    table.columns[0].no_wrap = True
    return table


def lacks_lines(answer: Answer) -> list[str]:
    """What the traces lack for an answer, and how to capture it; a line each."""
    lines = []
    for need, ranks in answer.ranks_by_need.items():
        lacks, capture = NEED_SENTENCES[need]
        empty = need in answer.analysis.needs
        consequence = "cannot answer without" if empty else "answers in part without"
        some = len(ranks) < len(answer.lacks)
        which = f" (rank {', '.join(map(str, ranks))})" if some else ""
        lines.append(f"note: {answer.analysis.name} {consequence} {need.value}{which}: {lacks}. {capture}")
    return lines


def answer_table(answer: Answer, top: int) -> Table:
    """The first rows of an answer; columns that say nothing are left out."""
    shown = answer.frame.head(top)
    names = [name for name in shown.columns if _says_something(answer.frame.get_column(name))]
    start = _first_start(answer.frame)
    table = table_of(
        answer.analysis.question,
        [(_heading(name), "left" if shown.schema[name] == pl.String else "right") for name in names],
    )
    for row in shown.select(names).iter_rows():
        table.add_row(*(_text(name, value, start) for name, value in zip(names, row, strict=True)))
    if answer.frame.height > top:
        table.caption = f"{answer.frame.height - top:,} more; --top shows more, --csv and --json all"
    return table


def _says_something(values: pl.Series) -> bool:
    if values.name in _CONTEXT:
        return values.n_unique() > 1 or (values.name == "doubtful" and bool(values.any()))
    return values.null_count() < len(values)


def _heading(name: str) -> str:
    for end in ("_ns", "_bytes", "_per_s"):
        name = name.removesuffix(end)
    return name.replace("_", " ")


def _first_start(frame: pl.DataFrame) -> int:
    """What moments are shown relative to: the first of them."""
    moments = [frame.get_column(name).min() for name in ("start_ns", "ts_ns") if name in frame.columns]
    return min((moment for moment in moments if isinstance(moment, int)), default=0)


def _text(name: str, value: Any, start_ns: int) -> str:
    if value is None:
        return "all" if name == "step" else "-"
    if name in ("start_ns", "ts_ns", "end_ns"):
        return f"+{duration(value - start_ns)}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return cell(shortened(value, _TEXT_WIDTH))
    for end, text in _UNITS:
        if name.endswith(end):
            return text(value)
    if isinstance(value, int):
        return f"{value:,}" if not name.endswith(("_id", "_event", "rank", "correlation")) else str(value)
    return f"{value:,.3g}" if isinstance(value, float) else cell(str(value))


def _names(needs: Sequence[Need]) -> str:
    return ", ".join(need.value for need in needs) or "-"
