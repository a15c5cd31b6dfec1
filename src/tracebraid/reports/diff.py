"""How two runs differ, for people: the verdict, where the difference comes from, what changed, what to know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from tracebraid.model.diff_sentences import caution_sentence
from tracebraid.model.finding import Finding
from tracebraid.model.questions.comparison import Caution, CautionCode, Comparison
from tracebraid.reports.diff_tables import (
    changed_kernels_table,
    changed_ops_table,
    parts_table,
    ranks_table,
    settings_table,
    signed,
    slower_ops_table,
)
from tracebraid.reports.machine import finding_data, rows_data
from tracebraid.reports.text import printable
from tracebraid.reports.units import duration, percent

__all__ = ["diff_data", "diff_parts_for_people", "verdict_line"]

_OF_A_RUN = (CautionCode.PROFILER_COST, CautionCode.PROFILER_OVERHEAD)
"""Cautions about a single run, whose sentences hold for both as well."""
_NOT_LISTED = "Ops and kernels of different programs are not compared here; --json has them."


def diff_data(found: Comparison, findings: Sequence[Finding], limit: float | None) -> dict[str, Any]:
    """A comparison as plain data for JSON.

    Args:
        found: the comparison.
        findings: what was noticed in the files.
        limit: the share from which on a regression counts; None: that was not asked.
    """
    tables = {
        name: rows_data(getattr(found, name)) for name in ("steps", "parts", "ops", "kernels", "settings")
    }
    regression = {}
    if limit is not None:
        gate = {"limit": limit, "outcome": found.gate(limit).value, "is_slower": found.is_slower(limit)}
        regression = {"regression": gate}
    return {
        "verdict": found.verdict.value,
        "difference_ns": found.difference_ns,
        "significant": found.is_significant,
        "can_judge": found.can_judge,
        **regression,
        **tables,
        "cautions": [
            {
                "code": caution.code.value,
                "message": caution_sentence(caution),
                "details": dict(caution.details),
            }
            for caution in found.cautions
        ],
        "findings": [finding_data(finding) for finding in findings],
    }


def diff_parts_for_people(found: Comparison, top: int, width: int) -> list[Text | Table]:
    """The texts and tables of a comparison; of runs that are hardly of one program that comes first, and is brief.

    Args:
        found: the comparison.
        top: rows of each table.
        width: characters in a line.
    """
    lines = [Text(printable(f"note: {caution_sentence(caution)}")) for caution in _merged(found.cautions)]
    verdict = Text(verdict_line(found))
    if any(caution.code is CautionCode.PROGRAMS_DIFFER for caution in found.cautions):
        tables = [parts_table(found, width, details=False), settings_table(found, width)]
        return [lines[0], verdict, Text(""), *_known(tables), Text(_NOT_LISTED), *lines[1:]]
    tables = [
        parts_table(found, width),
        changed_ops_table(found, top, width),
        changed_kernels_table(found, top, width),
        slower_ops_table(found, top, width),
        ranks_table(found, top, width),
        settings_table(found, width),
    ]
    return [verdict, Text(""), *_known(tables), *lines]


def _known(tables: Iterable[Table | None]) -> list[Table]:
    return [table for table in tables if table is not None]


def _merged(cautions: Iterable[Caution]) -> list[Caution]:
    """The cautions, first that the programs differ; what holds for both runs is said once, with the figures of both."""
    found: dict[object, Caution] = {}
    for number, caution in enumerate(cautions):
        key = caution.code if caution.code in _OF_A_RUN else number
        first = found.get(key)
        if first is not None:
            both = {name: f"{first.details[name]} and {value}" for name, value in caution.details.items()}
            caution = Caution(caution.code, both)
        found[key] = caution
    return sorted(found.values(), key=lambda caution: caution.code is not CautionCode.PROGRAMS_DIFFER)


def verdict_line(found: Comparison) -> str:
    """Whether a step is longer or shorter, by how much, and whether chance explains that."""
    row = found.steps.row(0, named=True)
    share = "" if row["difference_share"] is None else f", {_signed_percent(row['difference_share'])}"
    line = f"Step time: {duration(row['a_ns'])} -> {duration(row['b_ns'])} ({signed(row['difference_ns'])}{share})"
    steps = f"{row['steps_a']} and {row['steps_b']} steps"
    if row["low_ns"] is None:
        return f"{line}. Whether that is more than chance cannot be said of {steps}."
    shift, low, high = (signed(row[name]) for name in ("shift_ns", "low_ns", "high_ns"))
    interval = f"a typical step {shift}, between {low} and {high}"
    verdict = "more than chance" if row["significant"] else "no more than chance explains"
    return f"{line}: {verdict}; {interval} with 99.73 % confidence, by {steps}."


def _signed_percent(share: float) -> str:
    return f"+{percent(share)}" if share > 0 else percent(share)
