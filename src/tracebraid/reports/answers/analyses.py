"""The analyses there are, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.table import Table

from tracebraid.model.questions.analysis import Analysis, Need
from tracebraid.model.questions.job_analysis import JobAnalysis
from tracebraid.reports.terminal import table_of
from tracebraid.reports.text import cell

__all__ = ["analyses_data", "analyses_table"]


def analyses_data(analyses: Iterable[Analysis | JobAnalysis]) -> list[dict[str, Any]]:
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


def analyses_table(analyses: Iterable[Analysis | JobAnalysis]) -> Table:
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


def _names(needs: Sequence[Need]) -> str:
    return ", ".join(need.value for need in needs) or "-"
