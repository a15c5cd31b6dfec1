"""Check that a window consists of steady steps, the same on all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import polars as pl
from msgspec import Struct

from tracebraid.model.category import Role
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding, FindingCase
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.quantities import NS_PER_MS
from tracebraid.model.step import is_profiler_step, some_steps, step_events
from tracebraid.model.timeline import Timeline

_COMPILING = r"\(dynamo_timed\)|^compile_fx|_compile\.compile_inner|^CompileTime"
_SLOW_FIRST = 3.0
"""A first step that takes so many times the median of the others caught something that is not steady."""
_RECORDERS_START_NS = 2 * NS_PER_MS
"""Allowance for a first step, in which recorders set up threads: up to 0.8 ms were measured."""


class Step(Struct, frozen=True):
    """A step of a rank: its name, start and end in ns on the unix clock."""

    name: str
    start_ns: int
    end_ns: int


def steps_of(timeline: Timeline) -> tuple[Step, ...]:
    """The profiler's steps in the order of their starts."""
    own = step_events(timeline).filter(is_profiler_step(pl.col("step")))
    return tuple(Step(*row) for row in own.iter_rows())


def window_findings(timeline: Timeline, steps: Sequence[Step]) -> list[Finding]:
    """Return whether there are steps, and whether they are steady: no slow first one, no compilation."""
    if not steps:
        return [Finding(FindingCode.NO_STEPS, timeline.path)]
    found = _other_steps(timeline, steps)
    durations = [step.end_ns - step.start_ns for step in steps]
    usual = median(durations[1:]) if len(steps) > 1 else durations[0]
    if durations[0] > max(_SLOW_FIRST * usual, usual + _RECORDERS_START_NS):
        times = durations[0] / usual if usual else float("inf")
        found.append(Finding.of(FindingCode.WARMUP_CAUGHT, timeline.path, step=steps[0].name, times=times))
    compiling = timeline.of_role(Role.ANNOTATION, Role.OP).filter(as_text("name").str.contains(_COMPILING))
    if not compiling.is_empty():
        count, case = compiling.height, FindingCase.COMPILING
        found.append(Finding.of(FindingCode.WARMUP_CAUGHT, timeline.path, count=count, case=case))
    return found


def _other_steps(timeline: Timeline, steps: Sequence[Step]) -> list[Finding]:
    marks = timeline.of_role(Role.ANNOTATION, Role.OP).filter(is_profiler_step(as_text("name")))
    others = marks.height - len(steps)
    names = some_steps([step.name for step in steps])
    details = {"others": others, "steps": names}
    return [Finding(FindingCode.STEPS_OF_TWO, timeline.path, details=details)] if others > 0 else []


def rank_step_findings(steps: dict[int, tuple[Step, ...]], path: str) -> list[Finding]:
    """Return whether all ranks recorded the same steps, at the same time.

    Steps of one number overlap on all ranks of a synchronous job. Where those of two ranks lie apart, one of their
    clocks is off by at least the gap, or one rank ran ahead.
    """
    named = {rank: [step.name for step in own] for rank, own in steps.items() if own}
    if len(named) < 2:
        return []
    first, *others = sorted(named)
    other = [rank for rank in others if named[rank] != named[first]]
    if other:
        shown = ", ".join(f"rank {rank}: {_span(named[rank])}" for rank in (first, *other[:2]))
        return [Finding.of(FindingCode.STEPS_DIFFER, path, count=len(other), steps=shown)]
    return _apart(steps, named[first], path)


def _apart(steps: dict[int, tuple[Step, ...]], names: list[str], path: str) -> list[Finding]:
    worst_ns = 0
    worst: dict[str, object] = {}
    for number, name in enumerate(names):
        at = {rank: own[number] for rank, own in steps.items() if own}
        early = min(at, key=lambda rank: at[rank].end_ns)
        late = max(at, key=lambda rank: at[rank].start_ns)
        gap_ns = at[late].start_ns - at[early].end_ns
        if gap_ns > worst_ns:
            worst_ns = gap_ns
            worst = {"step": name, "late": late, "early": early, "gap_ms": gap_ns / NS_PER_MS}
    if not worst:
        return []
    return [Finding(FindingCode.CLOCKS_DIFFER, path, details={"case": FindingCase.STEPS_APART, **worst})]


def _span(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
