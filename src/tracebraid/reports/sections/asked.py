"""What sections ask of the results: answers that may not be there, and what the traces lack for them."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from tracebraid.model.need_sentences import NEED_SENTENCES
from tracebraid.model.questions.analysis import Answer, Need
from tracebraid.model.questions.job_analysis import JobAnalysis
from tracebraid.model.report.parts import DataTable, Missing
from tracebraid.model.report.run_results import RunResults

__all__ = ["answer_table", "frame_of", "lacking", "missing"]

_TABLE_ROWS = 1_000
"""Rows of the table beside a chart; the first of them, of more."""


def frame_of(results: RunResults, name: str) -> pl.DataFrame | None:
    """The rows of an answer; None where it was not asked, or has none."""
    answer = results.answers.get(name)
    return None if answer is None or answer.frame.is_empty() else answer.frame


def lacking(results: RunResults, name: str) -> tuple[Need, ...]:
    """What all ranks lack of the needs of an analysis."""
    answer = results.answers.get(name)
    if answer is None or not answer.lacks:
        return ()
    return tuple(need for need in answer.analysis.needs if _lack_of_all(answer, need))


def _lack_of_all(answer: Answer, need: Need) -> bool:
    return all(need in lacks for lacks in answer.lacks.values())


def missing(results: RunResults, name: str, title: str) -> list[Missing]:
    """What would stand here, had the traces what an analysis needs; nothing where they lack nothing."""
    return [_missing(title, need) for need in lacking(results, name)[:1]]


def _missing(title: str, need: Need) -> Missing:
    lacks, capture = NEED_SENTENCES[need]
    return Missing(title, lacks, capture)


def answer_table(
    results: RunResults,
    name: str,
    title: str,
    columns: Iterable[str],
    frame: pl.DataFrame | None = None,
) -> DataTable:
    """A table of rows of an answer.

    Args:
        results: has the answer.
        name: of the analysis, and with `-table` the id.
        title: what it is about.
        columns: those that are shown.
        frame: its rows; by default all of the answer.
    """
    answer = results.answers[name]
    rows = answer.frame if frame is None else frame
    return DataTable(
        f"{name.replace('_', '-')}-table",
        title,
        rows.head(_TABLE_ROWS),
        answer.analysis.table,
        columns=tuple(columns),
        left_out=max(0, rows.height - _TABLE_ROWS) + results.left_out.get(name, 0),
        start_ns=results.start_ns,
        starts={} if isinstance(answer.analysis, JobAnalysis) else results.starts,
    )
