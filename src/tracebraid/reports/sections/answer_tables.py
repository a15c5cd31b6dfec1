"""Answers of analyses as parts of a report: tables with their formulas, or what the traces lack for them."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracebraid.model.need_sentences import NEED_SENTENCES
from tracebraid.model.questions.analysis import Answer, Need
from tracebraid.model.questions.job_analysis import JobAnalysis
from tracebraid.model.report.parts import DataTable, Missing, Note, Part
from tracebraid.model.report.run_results import RunResults
from tracebraid.reports.answers.answers import no_rows_line, null_text, shown_names
from tracebraid.reports.answers.shown_columns import PICKED_BY
from tracebraid.reports.formulas import formula

__all__ = ["answer_parts", "answer_table"]


def answer_parts(results: RunResults, names: Sequence[str]) -> list[Part]:
    """The tables of some analyses; of those that cannot be answered what to capture, once for each need.

    Args:
        results: has their answers; those that were not asked are left out.
        names: of the analyses, in order.
    """
    parts: list[Part] = []
    empty: list[str] = []
    lacking: dict[Need, list[Answer]] = {}
    for name in names:
        answer = results.answers.get(name)
        if answer is None or not answer.lacks:
            continue
        if not answer.frame.is_empty():
            parts.append(answer_table(results, name))
        elif answer.is_unanswerable:
            lacking.setdefault(_first_lacking(answer), []).append(answer)
        else:
            empty.append(no_rows_line(answer))
    parts += [Note(line) for line in empty]
    parts += [_missing(need, answers) for need, answers in lacking.items()]
    return parts


def answer_table(results: RunResults, name: str) -> DataTable:
    """The rows of an answer, with the columns that say something."""
    answer = results.answers[name]
    analysis = answer.analysis
    of_job = isinstance(analysis, JobAnalysis)
    columns = shown_names(answer)
    words = {column: null_text(analysis, column) for column in columns}
    texts = [
        pl.col(column).fill_null(word)
        for column, word in words.items()
        if word != "-" and answer.frame.schema[column] == pl.String
    ]
    return DataTable(
        id=f"rows-{name.replace('_', '-')}",
        title=analysis.question,
        frame=_most_first(name, answer.frame).with_columns(texts),
        schema=analysis.table,
        columns=tuple(columns),
        formula=formula(name),
        left_out=results.left_out.get(name, 0),
        start_ns=results.start_ns,
        starts={} if of_job else results.starts,
    )


def _most_first(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows with most first, where an answer has them in the order of time; trees stay as they are."""
    if name not in PICKED_BY or "depth" in frame.columns:
        return frame
    sums = [pl.sum_horizontal(columns.split()) for columns in PICKED_BY[name]]
    return frame.sort(sums, descending=True, maintain_order=True)


def _first_lacking(answer: Answer) -> Need:
    """What an answer lacks that it needs; the first that all ranks lack, else that any lacks."""
    needs = [need for need in answer.analysis.needs if need in answer.ranks_by_need]
    return max(needs, key=lambda need: len(answer.ranks_by_need[need]))


def _missing(need: Need, answers: Sequence[Answer]) -> Missing:
    lacks, capture = NEED_SENTENCES[need]
    if len(answers) == 1:
        return Missing(answers[0].analysis.question, lacks, capture, need.value)
    names = ", ".join(answer.analysis.name.replace("_", " ") for answer in answers)
    return Missing(f"Not answered: {names}", lacks, capture, need.value)
