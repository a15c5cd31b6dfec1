"""Measured figures as rows: as a plain table for people, as JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

__all__ = ["Row", "Target", "as_json", "as_table"]


@dataclass(frozen=True)
class Target:
    """What a subject has to reach, in words, and whether it does."""

    words: str
    met: bool


@dataclass(frozen=True)
class Row:
    """One subject of one benchmark.

    Args:
        benchmark: which one.
        subject: what was measured.
        seconds: median wall time; None for a figure that is no time.
        cpu_seconds: median processor time of all its processes.
        peak_bytes: median of the most resident memory of its largest process.
        figures: further figures by name.
        target: what it has to reach; None for nothing.
    """

    benchmark: str
    subject: str
    seconds: float | None = None
    cpu_seconds: float | None = None
    peak_bytes: int | None = None
    figures: dict[str, float] = field(default_factory=dict)
    target: Target | None = None


def as_table(rows: Sequence[Row]) -> str:
    """Columns of text, aligned."""
    lines = [("benchmark", "subject", "time", "processor", "peak memory", "figures", "target", "")]
    for row in rows:
        figures = ", ".join(f"{name} {value:.3g}" for name, value in row.figures.items())
        target = row.target or Target("", True)
        verdict = "" if row.target is None else "met" if target.met else "MISSED"
        time, processor = ("" if s is None else f"{s:.3f} s" for s in (row.seconds, row.cpu_seconds))
        peak = "" if row.peak_bytes is None else f"{row.peak_bytes / 1e6:,.0f} MB"
        lines.append((row.benchmark, row.subject, time, processor, peak, figures, target.words, verdict))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(_cell(line, widths, column) for column in range(len(line))).rstrip() for line in lines
    )


def as_json(rows: Sequence[Row]) -> str:
    """The rows with their field names; times in seconds, memory in bytes."""
    return json.dumps([asdict(row) for row in rows], indent=2)


def _cell(line: tuple[str, ...], widths: list[int], column: int) -> str:
    text = line[column]
    return text.rjust(widths[column]) if column in (2, 3, 4) else text.ljust(widths[column])
