"""What a report is made of, and which steps its timeline shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from tracebraid.errors import ArgumentError
from tracebraid.model.step import PROFILER_STEP, some_steps

__all__ = ["ReportOptions", "chosen_steps"]

_DIGITS = 18
"""Digits of a step's number at most: those of 64 bits."""


@dataclass(frozen=True)
class ReportOptions:
    """What a report is made of.

    Args:
        title: what stands on top; None: the name of the opened folder or file.
        rank: only this rank; None: all.
        steps: the steps that the timeline shows: numbers, ranges or names, such as `3,5-7`; None: one of median
            length.
        annotation: what marks a step, see `steps`.
        with_graph: whether the critical path and the what-if sweep are computed, which takes most of the time of a
            large trace; None: where the trace is not too large for that.
    """

    title: str | None = None
    rank: int | None = None
    steps: str | None = None
    annotation: str = PROFILER_STEP
    with_graph: bool | None = None


def chosen_steps(times: pl.DataFrame, wanted: str | None, annotation: str = PROFILER_STEP) -> tuple[str, ...]:
    """The names of the steps that the timeline shows.

    Args:
        times: `step_times` of a rank.
        wanted: see `ReportOptions`.
        annotation: what marks a step.

    Returns:
        Names in the order of the steps; none where no step is marked.

    Raises:
        ArgumentError: there is no such step.
    """
    names = times.get_column("step").unique(maintain_order=True).to_list()
    if wanted is not None:
        return _wanted(names, wanted, annotation)
    steady = times.filter(~pl.col("warmup").fill_null(False), ~pl.col("doubtful"))
    rows = (steady if steady.height else times).sort("span_ns", maintain_order=True)
    return () if rows.is_empty() else (rows.item((rows.height - 1) // 2, "step"),)


def _wanted(names: Sequence[str], wanted: str, annotation: str) -> tuple[str, ...]:
    found: set[str] = set()
    for text in (part.strip() for part in wanted.split(",")):
        matching = [name for name in names if _is_meant(name, text, annotation)]
        if not matching:
            have = some_steps(names) if names else f"none, since nothing is annotated {annotation}"
            raise ArgumentError(f"there is no step {text}; there are: {have}")
        found |= set(matching)
    return tuple(name for name in names if name in found)


def _is_meant(name: str, text: str, annotation: str) -> bool:
    """Whether a step is meant by its name, its number, or a range of numbers."""
    if text == name:
        return True
    number = name.removeprefix(f"{annotation}#")
    first, dash, last = text.partition("-")
    if dash and first.isdecimal() and last.isdecimal():
        # Python refuses to convert texts of thousands of digits, which a name may have.
        if max(map(len, (first, number, last))) > _DIGITS or not number.isdecimal():
            return False
        return int(first) <= int(number) <= int(last)
    return text == number
