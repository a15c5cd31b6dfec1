"""Findings for people: what is the same in several files is a single line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from operator import add

from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode


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
