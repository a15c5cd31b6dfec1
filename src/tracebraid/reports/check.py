"""The result of a check, for people and for machines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from tracebraid.model.check import Check, CheckedRank, Diagnosis, Repair
from tracebraid.model.coverage import Coverage
from tracebraid.model.finding_code import Severity
from tracebraid.model.printable import printable
from tracebraid.model.quantities import duration, percent
from tracebraid.reports.fitted_table import Head, captioned, fitted_table
from tracebraid.reports.machine import coverage_data, finding_data

_SHOWN_RANKS = 16
"""Maximum rows of the table of ranks, which must fit a terminal with the findings."""
_ALIGNED = {"alignment", "alignment_name", "position"}
"""Linking methods that need no ids."""


def check_table(check: Check, width: int) -> Table:
    """Tabulate the ranks with their steps and link coverage; of many ranks, those with the lowest coverage."""
    heads = [
        Head("rank"),
        Head("window", "left"),
        Head("steps", "left"),
        *map(Head, ("host ops linked", "nodes linked", "GPU events attributed")),
        Head("files", "left", shortens=True, rank=1),
    ]
    shown = sorted(check.ranks, key=_share)[:_SHOWN_RANKS]
    rows = [
        [
            str(checked.rank),
            checked.window,
            _steps(checked.steps),
            *_shares(checked),
            ", ".join(Path(path).name for path in (checked.et, checked.kineto) if path),
        ]
        for checked in check.ranks
        if checked in shown
    ]
    table = fitted_table("", heads, rows, width, len(heads) - 1)
    if len(shown) < len(check.ranks):
        more = len(check.ranks) - len(shown)
        captioned(table, f"{more:,} more ranks link as well or better; --json has all")
    return table


def diagnosis_text(diagnosis: Diagnosis) -> str:
    """A finding, and what to do about it, in two lines."""
    return (
        printable(f"{diagnosis.severity.value}: {diagnosis.finding}") + "\n  " + printable(diagnosis.advice)
    )


def clock_lines(check: Check) -> list[str]:
    """Report the largest known clock offset between hosts."""
    clocks = [checked.clock for checked in check.ranks if checked.clock is not None]
    hosts = {clock["host"] for clock in clocks if clock["host"] is not None}
    if len(hosts) < 2:
        return []
    offsets = [clock["offset_ns"] for clock in clocks if isinstance(clock["offset_ns"], int)]
    unknown = len(clocks) - len(offsets)
    most = duration(max(map(abs, offsets), default=0))
    text = f"clocks of {len(hosts)} hosts differ by at most {most}, by the collectives that ranks share"
    return [f"{text}; of {unknown} ranks unknown" if unknown else text]


def verdict(check: Check) -> str:
    """The check in one line."""
    counts = {
        severity: sum(diagnosis.severity is severity for diagnosis in check.diagnoses)
        for severity in Severity
    }
    counted = ", ".join(
        f"{count} {severity.value}{'' if count == 1 else 's'}" for severity, count in counts.items() if count
    )
    what = _how_it_links(check)
    return f"{printable(check.path)}: {what}{f'; {counted}' if counted else '; no problems found'}"


def _how_it_links(check: Check) -> str:
    if not check.ranks:
        return "nothing to link it to" if check.links else "it is not sound"
    ledgers = [
        checked.coverage
        for checked in check.ranks
        if checked.coverage is not None and checked.coverage.has_et
    ]
    if not check.links and not (ledgers and all(coverage.host_ops.linked for coverage in ledgers)):
        return "it does not link"
    rest = f"{_linked_nodes(ledgers)}{'' if check.links else ', but it is not sound'}"
    if not ledgers or not any(_ALIGNED.intersection(coverage.host_ops.by_method) for coverage in ledgers):
        return f"it links{rest}"
    confidence = min(checked.confidence for checked in check.ranks if checked.confidence is not None)
    return f"it links by alignment, each link with a confidence of {confidence:.3f} or more{rest}"


def _linked_nodes(ledgers: Sequence[Coverage]) -> str:
    """The share of the nodes of all ranks that have their event; "" if that is all of them."""
    nodes = [coverage.et_nodes for coverage in ledgers]
    total = sum(count.total for count in nodes)
    linked = sum(count.linked for count in nodes)
    return "" if linked == total else f", {percent(linked / total)} of {total:,} nodes"


def check_data(check: Check) -> dict[str, Any]:
    """The result as plain data."""
    return {
        "path": check.path,
        "links": check.links,
        "ranks": [
            {
                "rank": checked.rank,
                "window": checked.window,
                "et": checked.et,
                "kineto": checked.kineto,
                "steps": list(checked.steps),
                "confidence": checked.confidence,
                "clock": None if checked.clock is None else dict(checked.clock),
                "linked": None if checked.coverage is None else coverage_data(checked.rank, checked.coverage),
            }
            for checked in check.ranks
        ],
        "findings": [
            {"severity": found.severity.value, **finding_data(found.finding), "advice": found.advice}
            for found in check.diagnoses
        ],
    }


def repair_lines(repairs: Sequence[Repair]) -> list[str]:
    """List the changes of each repair."""
    lines = []
    for repair in repairs:
        if repair.written:
            first = ", ".join(map(str, repair.changed[:3])) + (", ..." if len(repair.changed) > 3 else "")
            which = f" (nodes {first})" if repair.changed else ""
            text = f"{repair.path}: {len(repair.changed):,} of {repair.nodes:,} nodes have another parent now{which}"
            lines.append(printable(f"{text}; the original is {Path(repair.path).name}.orig"))
        else:
            lines.append(printable(f"{repair.path}: nothing to repair"))
        if repair.left:
            text = (
                "nodes have a parent other than the op that encloses them; without proof, they are unchanged"
            )
            lines.append(printable(f"{repair.path}: {len(repair.left):,} {text}"))
    return lines


def repair_data(repairs: Sequence[Repair]) -> list[dict[str, Any]]:
    """Return the changes of each repair as plain data."""
    return [
        {
            "path": repair.path,
            "nodes": repair.nodes,
            "written": repair.written,
            "changed": list(repair.changed),
            "left": list(repair.left),
        }
        for repair in repairs
    ]


def _share(checked: CheckedRank) -> float:
    return -1.0 if checked.coverage is None else checked.coverage.share


def _shares(checked: CheckedRank) -> list[str]:
    if checked.coverage is None:
        return ["-", "-", "-"]
    counts = [checked.coverage.host_ops, checked.coverage.et_nodes, checked.coverage.gpu_events]
    have = [checked.coverage.has_et, checked.coverage.has_et, bool(checked.coverage.gpu_events.total)]
    return [
        f"{count.linked:,} {percent(count.share)}" if there else "-"
        for count, there in zip(counts, have, strict=True)
    ]


def _steps(names: Sequence[str]) -> str:
    if not names:
        return "none"
    if len(names) == 1:
        return names[0]
    (annotation, mark, _), (of_last, _, number) = names[0].partition("#"), names[-1].rpartition("#")
    last = f"#{number}" if mark and annotation == of_last else names[-1]
    return f"{names[0]} to {last} ({len(names)})"
