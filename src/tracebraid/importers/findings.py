"""Issues and problems met while reading, grouped into findings: one per code, with the first positions."""

from __future__ import annotations

from collections import defaultdict

from tracebraid.importers.json_stream.chunks import ArrayFile
from tracebraid.importers.json_stream.recover import Issue
from tracebraid.model.finding import Finding, Loss

__all__ = ["findings_of"]

_POSITIONS_SHOWN = 3
"""Positions in a finding."""
_LOSS_AROUND = {"truncated": Loss(), "text-between": Loss()}
"""Problems around the array by which events are lost; their number is unknown, as behind the end of a cut file."""


def findings_of(file: ArrayFile, issues: list[Issue]) -> list[Finding]:
    """What was found in a file, in the order of the first position of each code."""
    path = file.source.path
    found = [
        Finding("gzip-damaged", text, path, f"byte {byte:,}", loss=Loss())
        for text, byte in file.source.damage
    ]
    found += [
        Finding(code, text, path, f"byte {byte:,}", loss=_LOSS_AROUND.get(code))
        for code, text, byte in file.problems
    ]
    by_code: dict[str, list[Issue]] = defaultdict(list)
    for issue in issues:
        by_code[issue.code].append(issue)
    for code, group in by_code.items():
        group.sort(key=lambda issue: issue.byte)
        positions = ", ".join(f"{issue.byte:,}" for issue in group[:_POSITIONS_SHOWN])
        more = ", ..." if len(group) > _POSITIONS_SHOWN else ""
        word = "byte" if len(group) == 1 else "bytes"
        where = f"{word} {positions}{more}"
        found.append(Finding(code, group[0].message, path, where, len(group), _loss_of(group)))
    return found


def _loss_of(issues: list[Issue]) -> Loss | None:
    losses = [issue.loss for issue in issues if issue.loss is not None]
    return sum(losses[1:], losses[0]) if losses else None
