"""The result of a check, for people and for machines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from tracebraid.model.check import Check, CheckedRank, Diagnosis, Repair, Severity
from tracebraid.reports.machine import coverage_data, finding_data
from tracebraid.reports.text import cell, printable
from tracebraid.reports.units import percent

__all__ = ["check_data", "check_table", "diagnosis_text", "repair_data", "repair_lines", "verdict"]

_SHOWN_RANKS = 16
_ALIGNED = {"alignment", "alignment_name", "place"}
"""Methods that need no ids."""


def check_table(check: Check) -> Table:
    """Each rank, its steps, and how much of it links; of many ranks, those that link least."""
    table = Table(title=None, box=SIMPLE_HEAD, show_edge=False, pad_edge=False, caption_justify="left")
    windows = any(one.window for one in check.ranks)
    table.add_column("rank", justify="right")
    if windows:
        table.add_column("window")
    for name in ("steps", "host ops linked", "nodes linked", "GPU events attributed", "files"):
        table.add_column(name, justify="left" if name in ("steps", "files") else "right", overflow="fold")
    shown = sorted(check.ranks, key=_share)[:_SHOWN_RANKS]
    for one in [one for one in check.ranks if one in shown]:
        cells = [str(one.rank), *([one.window] if windows else []), cell(_steps(one.steps)), *_shares(one)]
        table.add_row(*cells, cell(", ".join(Path(path).name for path in (one.et, one.kineto) if path)))
    if len(shown) < len(check.ranks):
        table.caption = f"{len(check.ranks) - len(shown):,} more ranks link as well or better; --json has all"
    return table


def diagnosis_text(one: Diagnosis) -> str:
    """A finding, and what to do about it, in two lines."""
    return printable(f"{one.severity.value}: {one.finding}") + "\n  " + printable(one.advice)


def verdict(check: Check) -> str:
    """The check in one line."""
    counts = {severity: sum(one.severity is severity for one in check.diagnoses) for severity in Severity}
    told = ", ".join(
        f"{count} {severity.value}{'' if count == 1 else 's'}" for severity, count in counts.items() if count
    )
    what = _how_it_links(check)
    return f"{printable(check.path)}: {what}{f'; {told}' if told else '; nothing to complain about'}"


def _how_it_links(check: Check) -> str:
    if not check.ranks:
        return "nothing to link it to" if check.links else "it is not sound"
    ledgers = [one.coverage for one in check.ranks if one.coverage is not None and one.coverage.has_et]
    if not check.links and not (ledgers and all(one.host_ops.linked for one in ledgers)):
        return "it does not link as it is"
    unsound = "" if check.links else ", but it is not sound as it is"
    if not ledgers or not any(_ALIGNED.intersection(one.host_ops.by_method) for one in ledgers):
        return f"it links{unsound}"
    confidence = min(one.confidence for one in check.ranks if one.confidence is not None)
    return f"it links by alignment, each link with a confidence of {confidence:.3f} or more{unsound}"


def check_data(check: Check) -> dict[str, Any]:
    """The result as plain data."""
    return {
        "path": check.path,
        "links": check.links,
        "ranks": [
            {
                "rank": one.rank,
                "window": one.window,
                "et": one.et,
                "kineto": one.kineto,
                "steps": list(one.steps),
                "confidence": one.confidence,
                "linked": None if one.coverage is None else coverage_data(one.rank, one.coverage),
            }
            for one in check.ranks
        ],
        "findings": [
            {"severity": one.severity.value, **finding_data(one.finding), "advice": one.advice}
            for one in check.diagnoses
        ],
    }


def repair_lines(repairs: Sequence[Repair]) -> list[str]:
    """What each repair changed."""
    lines = []
    for one in repairs:
        if one.written:
            first = ", ".join(map(str, one.changed[:3])) + (", ..." if len(one.changed) > 3 else "")
            which = f" (nodes {first})" if one.changed else ""
            text = f"{one.path}: {len(one.changed):,} of {one.nodes:,} nodes have another parent now{which}"
            lines.append(printable(f"{text}; the file as it was is {Path(one.path).name}.orig"))
        else:
            lines.append(printable(f"{one.path}: nothing to repair"))
        if one.left:
            text = "nodes have another parent than the op around them; nothing proves it wrong, so they stay"
            lines.append(printable(f"{one.path}: {len(one.left):,} {text}"))
    return lines


def repair_data(repairs: Sequence[Repair]) -> list[dict[str, Any]]:
    """What each repair changed, as plain data."""
    return [
        {
            "path": one.path,
            "nodes": one.nodes,
            "written": one.written,
            "changed": list(one.changed),
            "left": list(one.left),
        }
        for one in repairs
    ]


def _share(one: CheckedRank) -> float:
    return -1.0 if one.coverage is None else one.coverage.share


def _shares(one: CheckedRank) -> list[str]:
    if one.coverage is None:
        return ["-", "-", "-"]
    counts = [one.coverage.host_ops, one.coverage.et_nodes, one.coverage.gpu_events]
    have = [one.coverage.has_et, one.coverage.has_et, bool(one.coverage.gpu_events.total)]
    return [
        f"{count.linked:,} {percent(count.share)}" if there else "-"
        for count, there in zip(counts, have, strict=True)
    ]


def _steps(names: Sequence[str]) -> str:
    if not names:
        return "none"
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]} ({len(names)})"
