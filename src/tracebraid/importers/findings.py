"""Issues and problems met while reading, grouped into findings: one per code, with the first positions."""

from __future__ import annotations

from collections import defaultdict

from tracebraid.importers.json_stream.chunks import ArrayFile
from tracebraid.model.finding import Finding, Loss
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.issue import Issue

__all__ = ["findings_of"]

_POSITIONS_SHOWN = 3
"""Positions in a finding."""


def findings_of(file: ArrayFile, issues: list[Issue]) -> list[Finding]:
    """What was found in a file, in the order of the first position of each code."""
    path = file.source.path
    found = [
        Finding(issue.code, path, f"byte {issue.byte:,}", 1, issue.loss, issue.details)
        for issue in (*file.source.all_damage, *file.problems)
    ]
    by_code: dict[FindingCode, list[Issue]] = defaultdict(list)
    for issue in issues:
        by_code[issue.code].append(issue)
    for code, group in by_code.items():
        group.sort(key=lambda issue: issue.byte)
        positions = ", ".join(f"{issue.byte:,}" for issue in group[:_POSITIONS_SHOWN])
        more = ", ..." if len(group) > _POSITIONS_SHOWN else ""
        word = "byte" if len(group) == 1 else "bytes"
        where = f"{word} {positions}{more}"
        found.append(Finding(code, path, where, len(group), _loss_of(group), group[0].details))
    return found


def _loss_of(issues: list[Issue]) -> Loss | None:
    losses = [issue.loss for issue in issues if issue.loss is not None]
    return sum(losses[1:], losses[0]) if losses else None
