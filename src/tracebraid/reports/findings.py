"""Findings for people: what is the same in several files is a single line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import add

from msgspec.structs import replace

from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.gaps import Gap
from tracebraid.model.printable import printable


def alike(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Group equal findings of several files, in the order of first occurrence."""
    groups: dict[tuple[FindingCode, str, str], list[Finding]] = {}
    for number, finding in enumerate(findings):
        key = finding.code, finding.message, "" if finding.path else str(number)
        groups.setdefault(key, []).append(finding)
    found: list[list[Finding]] = []
    for same in groups.values():
        several = len({finding.path for finding in same}) > 1
        found += [same] if several else [[finding] for finding in same]
    return found


def line_of_alike(findings: Sequence[Finding]) -> str:
    """Format equal findings of several files in a line: total counts and losses, and the first place."""
    first = findings[0]
    files = len({finding.path for finding in findings})
    if files == 1:
        return str(first)
    losses = [finding.loss for finding in findings if finding.loss is not None]
    count = sum(finding.count for finding in findings)
    of_all = replace(
        first,
        path="",
        where="",
        count=1 if count == files else count,
        loss=reduce(add, losses) if losses else None,
    )
    where = f"{first.path}, {first.where}" if first.where else first.path
    return f"{of_all}; in {files:,} files, the first: {where}"


GAP_CODES = tuple(gap.code for gap in Gap)
"""The codes of findings about gaps, the worst first."""


def gap_lines(findings: Iterable[Finding]) -> list[str]:
    """Say in a line what the worst gap is, where, and what to do about it; [] where there is none."""
    worst = _worst_gap(findings)
    return [printable(f"In doubt: {line_of_alike(worst)}. {worst[0].code.advice}.")] if worst else []


def without_worst_gap(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that `gap_lines` does not say."""
    found = list(findings)
    told = _worst_gap(found)
    return [finding for finding in found if finding not in told]


def _worst_gap(findings: Iterable[Finding]) -> list[Finding]:
    gaps = [finding for finding in findings if finding.code in GAP_CODES]
    return min(alike(gaps), key=lambda same: GAP_CODES.index(same[0].code), default=[])
