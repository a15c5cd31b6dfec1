"""The record of trials, as a table."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Sequence

from tools.interrupts.model import Fault, Stroke, Trial

__all__ = ["record", "summary"]


def summary(trials: Sequence[Trial]) -> str:
    """One line."""
    struck = [trial for trial in trials if not trial.had_ended]
    faults = [name for trial in trials for name in trial.faults]
    return f"{len(trials)} trials, {len(struck)} struck while they ran, {len(faults)} faults {sorted(set(faults))}"


def record(trials: Sequence[Trial], command: str) -> str:
    """Two tables in Markdown: by command, and by signal."""
    lines = [
        f"`{command}`, on {platform.platform()} with Python {platform.python_version()}: {summary(trials)}.",
        "",
        "| command | struck | by the signal | interrupted | well | run again | faults | median s to end | longest |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    names = sorted({trial.subject for trial in trials})
    lines += [_row(name, [trial for trial in trials if trial.subject == name]) for name in names]
    lines += ["", lines[2].replace("command", "signal", 1), lines[3]]
    lines += [
        _row(stroke.value, [trial for trial in trials if trial.stroke == stroke.name]) for stroke in Stroke
    ]
    lines += ["", "| fault | trials |", "|---|--:|"]
    lines += [f"| {fault.value} | {sum(fault.name in trial.faults for trial in trials)} |" for fault in Fault]
    return "\n".join(lines) + "\n"


def _row(title: str, trials: Sequence[Trial]) -> str:
    struck = [trial for trial in trials if not trial.had_ended]
    numbers = [
        len(struck),
        sum((trial.returncode or 0) < 0 or trial.returncode in (129, 131, 137, 143) for trial in struck),
        sum(trial.returncode == 130 for trial in struck),
        sum(trial.returncode == 0 for trial in struck),
        sum(trial.ran_again for trial in trials),
        sum(len(trial.faults) for trial in trials),
    ]
    ends_s = [trial.ended_s for trial in struck] or [0.0]
    times = [f"{statistics.median(ends_s):.2f}", f"{max(ends_s):.2f}"]
    return f"| {title} | {' | '.join(map(str, [*numbers, *times]))} |"
