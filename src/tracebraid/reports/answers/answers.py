"""Answers of analyses as tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

import polars as pl
from rich.console import RenderableType
from rich.text import Text

from tracebraid.model.answer_sentences import (
    CODE_SENTENCES,
    CODES_OF_COLUMNS,
    NO_ROWS_SENTENCES,
    code_name,
)
from tracebraid.model.answers.columns import STEP
from tracebraid.model.collectives.codes import UNKNOWN_GROUP
from tracebraid.model.need_sentences import NEED_SENTENCES
from tracebraid.model.questions.analysis import Analysis, Answer, Need
from tracebraid.model.questions.job_analysis import JobAnalysis
from tracebraid.reports.answers.answer_cells import MOMENTS, cell_text, heading, is_id, least_width, ranges
from tracebraid.reports.answers.shown_columns import CONTEXT, PICKED_BY, SHOWN
from tracebraid.reports.bars import bar
from tracebraid.reports.breakdown_bars import step_sparklines
from tracebraid.reports.fitting import SEPARATOR_WIDTH, Shown, fitted
from tracebraid.reports.terminal import table_of
from tracebraid.reports.text import cell, printable

__all__ = ["answer_parts", "lacks_lines", "no_rows_line", "null_text", "shown_names", "unmatched_line"]

_BAR_WIDTH = 12
"""Characters of the bar of a share of 1."""
_NOTHING = "there is nothing of that kind"
_NULLS = {
    ("overlap", "stream"): "all",
    ("python_frames", "name"): "(in no Python function)",
    ("modules", "path"): "(in no module)",
}
"""What stands for null in a column of an analysis, where that is not `-`."""


def answer_parts(
    answer: Answer, top: int, width: int, starts: Mapping[int, int] | None = None
) -> list[RenderableType]:
    """The first rows of an answer, and what helps to read them.

    Args:
        answer: has rows.
        top: how many rows to show, of each rank; of an analysis of a whole job, of all ranks together.
        width: characters in a line.
        starts: when the trace of each rank began, on the unix clock in ns; moments are shown from there.
    """
    rows = _top_rows(answer, top)
    names = shown_names(answer)
    context = sum(name in CONTEXT for name in names)
    columns = [_shown(answer.analysis, name, rows, starts or {}) for name in names]
    shown = fitted(columns, width, context + 1)
    table = table_of("", [(column.heading, "left" if column.is_text else "right") for column in shown])
    for drawn, column in zip(table.columns, shown, strict=True):
        drawn.width = column.width
    bars = _bars(rows, shown, width)
    if bars:
        table.add_column("", no_wrap=True, width=_BAR_WIDTH)
    sections = _sections(_ranks(rows))
    for index, cells in enumerate(zip(*(column.cells for column in shown), strict=True)):
        if index in sections:
            table.add_section()
        table.add_row(*map(cell, cells), *bars[index : index + 1])
    title = Text(_title(answer), style="bold")
    of_job = isinstance(answer.analysis, JobAnalysis)
    lines = [*_rest_lines(answer, rows, [c.name for c in shown], top), *_legend(rows, shown, of_job)]
    marks = step_sparklines(answer.frame) if answer.analysis.name == "step_times" else []
    return [title, table, *map(Text, marks), *lines]


def _bars(rows: pl.DataFrame, shown: Sequence[Shown], width: int) -> list[str]:
    """A bar for the share of each row, where shares are shown and there is room beside the table; else none."""
    taken = sum(column.width for column in shown) + SEPARATOR_WIDTH * len(shown) + _BAR_WIDTH
    if taken > width or all(column.name != "share" for column in shown):
        return []
    return [bar(share, _BAR_WIDTH) for share in rows.get_column("share").to_list()]


def lacks_lines(answer: Answer) -> list[str]:
    """What the traces lack for an answer, and how to capture it; a line each."""
    lines = []
    for need, ranks in answer.ranks_by_need.items():
        lacks, capture = NEED_SENTENCES[need]
        if need is Need.COLLECTIVES:
            # A rank that does not communicate has no collectives either.
            ranks = [rank for rank in ranks if Need.COMMUNICATION not in answer.lacks[rank]]
        empty = need in answer.analysis.needs
        if not empty and (_is_no_fault(need, answer) or (answer.is_unanswerable and answer.frame.is_empty())):
            continue
        if not ranks:
            continue
        consequence = "cannot answer without" if empty else "answers in part without"
        some = len(ranks) < len(answer.lacks)
        which = f" (rank {ranges(ranks)})" if some else ""
        lines.append(f"note: {answer.analysis.name} {consequence} {need.value}{which}: {lacks}. {capture}")
    return lines


def _is_no_fault(need: Need, answer: Answer) -> bool:
    """Whether no capture of the same program would have more: it runs on the CPU."""
    on_host = [Need.DEVICE_WORK in lacks for lacks in answer.lacks.values()]
    return need is Need.DEVICE_WORK or (need is Need.SYNC_EVENTS and all(on_host))


def no_rows_line(answer: Answer, step: str | None = None) -> str:
    """What it means that an answer has no rows; of a step, if it was asked for alone."""
    name = answer.analysis.name
    of_step = "" if step is None else f" of step {step}"
    return cell(f"{name}{of_step} has no rows: {NO_ROWS_SENTENCES.get(name, _NOTHING)}.")


def unmatched_line(answer: Answer) -> str:
    """Why an answer over all ranks is empty, where nothing is matched between them."""
    return (
        f"note: {answer.analysis.name} cannot answer: nothing that the ranks communicate was matched between them; "
        "`tracebraid analyze matched_groups` says what each communicates"
    )


def _title(answer: Answer) -> str:
    """The question; with the step, and the host instead of a device, where all rows are of one."""
    step, device = (_single(answer.frame, name) for name in ("step", "device"))
    host = "on the CPU" if device == "cpu" else None
    context = ", ".join(text for text in (step, host) if text)
    return printable(f"{answer.analysis.question} ({context})" if context else answer.analysis.question)


def _single(frame: pl.DataFrame, name: str) -> str | None:
    """The value that all rows have in a column; None where they differ, or there is no such column."""
    values = frame.get_column(name).unique().to_list() if name in frame.columns else []
    return values[0] if len(values) == 1 else None


def _top_rows(answer: Answer, top: int) -> pl.DataFrame:
    """The rows of each rank that are shown, in the answer's order."""
    order = pl.int_range(pl.len())
    if picked_by := PICKED_BY.get(answer.analysis.name):
        sums = [pl.sum_horizontal(names.split()).alias(names) for names in picked_by]
        order = pl.struct(sums).rank("ordinal", descending=True) - 1
    by_rank = "rank" in answer.frame.columns and not isinstance(answer.analysis, JobAnalysis)
    within = order.over("rank") if by_rank else order
    return answer.frame.filter(within < top)


def shown_names(answer: Answer) -> list[str]:
    """The columns to show, if the width allows: those that say something."""
    frame = answer.frame
    context = [name for name in CONTEXT if name in frame.columns and _distinguishes_rows(frame, name)]
    wanted = SHOWN[answer.analysis.name].split()
    said = [
        name.rstrip("!")
        for name in wanted
        if _says_something(frame.get_column(name.rstrip("!")), even_zero=name.endswith("!"))
    ]
    return context + (said or wanted[:1])


def _distinguishes_rows(frame: pl.DataFrame, name: str) -> bool:
    """Whether a column of context says something: of devices, whether some rank has several."""
    if name == "doubtful":
        return bool(frame.get_column(name).any())
    if name == "device":
        if "rank" not in frame.columns:
            return frame.get_column(name).n_unique() > 1
        return frame.select("rank", name).unique().height > frame.get_column("rank").n_unique()
    return frame.get_column(name).n_unique() > 1


def _says_something(values: pl.Series, even_zero: bool = False) -> bool:
    """Whether some value is not null, and not zero or, if asked for, even zero; of lists, whether some is not empty."""
    if isinstance(values.dtype, pl.List):
        return bool((values.list.len() > 0).any())
    if values.name == "group" and (values == UNKNOWN_GROUP).all():
        return False
    return values.null_count() < len(values) and (even_zero or not _is_zero(values))


def _is_zero(values: pl.Series) -> bool:
    """Whether all values are zero, but for nulls, and there is some; what is not counted, as ranks are, never is."""
    known = values.drop_nulls()
    counts = values.dtype.is_numeric() and values.name not in MOMENTS and not is_id(values.name)
    return counts and not known.is_empty() and bool((known == 0).all())


def _ranks(rows: pl.DataFrame) -> list[int | None]:
    """The rank of each row; None where rows are of all ranks together."""
    return rows.get_column("rank").to_list() if "rank" in rows.columns else [None] * rows.height


def _sections(ranks: list[int | None]) -> set[int]:
    """The rows before which another rank begins, where the rows stand rank by rank, some with several."""
    begins = {i for i in range(1, len(ranks)) if ranks[i] != ranks[i - 1]}
    runs, distinct = len(begins) + 1, len(set(ranks))
    return begins if runs == distinct < len(ranks) else set()


def _start(starts: Mapping[int, int], rank: int | None) -> int:
    """When the trace of a rank began; without a rank, when the first of all did."""
    return min(starts.values(), default=0) if rank is None else starts.get(rank, 0)


def _shown(
    analysis: Analysis | JobAnalysis, name: str, rows: pl.DataFrame, starts: Mapping[int, int]
) -> Shown:
    """A column with the text of its cells."""
    values = rows.get_column(name)
    is_text = values.dtype == pl.String
    null = null_text(analysis, name)
    if name == "path" and "depth" in rows.columns:
        depths = rows.get_column("depth")
        cells = [_in_tree(path, depth, null) for path, depth in zip(values, depths, strict=True)]
    else:
        ranks = _ranks(rows)
        cells = [
            cell_text(name, value, _start(starts, rank), null)
            for value, rank in zip(values, ranks, strict=True)
        ]
    return Shown(name, heading(name), is_text, cells, least_width(name))


def null_text(analysis: Analysis | JobAnalysis, name: str) -> str:
    """What stands for null in a column."""
    if name == "step":
        return "all" if analysis.table.column("step") is STEP else "none"
    return _NULLS.get((analysis.name, name), "-")


def _in_tree(path: str | None, depth: int | None, null: str) -> str:
    return null if path is None else "  " * (depth or 0) + path.rpartition("/")[2]


def _rest_lines(answer: Answer, rows: pl.DataFrame, shown: Sequence[str], top: int) -> list[str]:
    """What is not in the table: rows, and columns by their names."""
    lines, frame = [], answer.frame
    if frame.height > rows.height:
        of_job = isinstance(answer.analysis, JobAnalysis)
        each = " of each rank" if len(set(_ranks(frame))) > 1 and not of_job else ""
        picked = " with the most time or size" if answer.analysis.name in PICKED_BY else ""
        left = frame.height - rows.height
        more = f"{left:,} more row{'' if left == 1 else 's'}; shown are {top:,}{each}{picked}"
        lines.append(f"{more}: --top shows more, --csv and --json all")
    hidden = [name for name in frame.columns if name not in shown and name not in CONTEXT and name != "depth"]
    zero = [
        name
        for name in hidden
        if frame.get_column(name).null_count() == 0 and _is_zero(frame.get_column(name))
    ]
    other = [name for name in hidden if _says_something(frame.get_column(name))]
    if zero:
        lines.append(f"0 in all rows: {', '.join(zero)}")
    if other:
        lines.append(f"Also in --csv and --json: {', '.join(other)}")
    return lines


def _legend(rows: pl.DataFrame, shown: Iterable[Shown], of_job: bool) -> list[str]:
    """The meaning of what is shown, where it needs words."""
    lines = []
    for column in shown:
        values = set(rows.get_column(column.name).drop_nulls().to_list()) if column.is_text else set()
        lines += [f"{code_name(code)}: {CODE_SENTENCES[code]}" for code in _explained(column.name, values)]
    names = {column.name for column in shown}
    if names & MOMENTS:
        whose = "first trace, on aligned clocks" if of_job else "rank's trace"
        lines.append(f"Moments are counted from the start of the {whose}")
    if "doubtful" in names:
        lines.append("doubtful: do not trust these figures; `tracebraid analyze validity` says why")
    return [cell(line) for line in lines]


def _explained(column: str, values: set[Any]) -> list[Enum]:
    """The codes among the values of a column that need an explanation."""
    codes = [code for kind in CODES_OF_COLUMNS.get(column, ()) for code in kind]
    return [code for code in codes if code.value in values and code in CODE_SENTENCES]
