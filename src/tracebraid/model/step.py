"""Recognise steps: annotations named by the profiler's schedule, or by the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracebraid.model.category import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from tracebraid.model.timeline import Timeline


PROFILER_STEP = "ProfilerStep"
"""The annotation that `torch.profiler` writes for each step, with `#` and a number behind it."""
_OVERLAP_NS = 10_000
"""Overlap of successive steps of a profiler, at most: times are rounded to µs."""
_SKEW = 0.01
"""Share of a rank's own first step, at least, that it waits for the recordings of others to begin."""
_LISTED = 3
"""Steps that are named from each end of many."""


def step_name(number: int) -> str:
    """The name of the profiler's step of that number."""
    return f"{PROFILER_STEP}#{number}"


def some_steps(names: Sequence[str]) -> str:
    """Names of steps for a sentence: all of a few, of many the first and the last ones."""
    if len(names) <= 2 * _LISTED:
        return ", ".join(names)
    first, last = ", ".join(names[:_LISTED]), ", ".join(names[-_LISTED:])
    return f"{first}, ... {last} ({len(names):,} in all)"


def is_skewed(own_ns: pl.Expr, ns: pl.Expr) -> pl.Expr:
    """Whether a step of a rank by itself holds what it waits for the recordings of others: `ns` is without."""
    return (own_ns - ns > _SKEW * own_ns).fill_null(value=False)


def is_step_name(name: pl.Expr, annotation: str = PROFILER_STEP) -> pl.Expr:
    """Return whether a name is that of a step."""
    return (name == annotation) | name.str.starts_with(annotation + "#")


def is_profiler_step(name: pl.Expr) -> pl.Expr:
    """Return whether a name is one that the profiler itself gives to a step: never without a number."""
    return name.str.contains(rf"^{PROFILER_STEP}#\d+$")


def step_events(timeline: Timeline, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """The steps of a Kineto trace in the order of their starts: `step` (the name), `start_ns`, `end_ns`.

    Annotations are ops in old traces. The device's events of the same name are no steps. Where a program goes on to
    call `step()` of a profiler of its own, the steps are those that the capture describes; without that, those
    that do not begin within another on their thread.
    """
    import polars as pl

    from tracebraid.model.expressions import as_text

    name = as_text("name")
    marks = timeline.of_role(Role.ANNOTATION, Role.OP).filter(is_step_name(name, annotation))
    marks = marks.sort("ts_ns", "event_id").select(
        "lane",
        name.alias("step"),
        pl.col("ts_ns").alias("start_ns"),
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
    )
    if annotation == PROFILER_STEP:
        marks = _of_one_profiler(marks, timeline)
    return marks.drop("lane")


def _of_one_profiler(marks: pl.DataFrame, timeline: Timeline) -> pl.DataFrame:
    """The steps of one profiler."""
    import polars as pl

    from tracebraid.model.capture_facts import capture_facts_of

    ended_ns = pl.col("end_ns").cum_max().shift(1).over("lane")
    is_inside = (pl.col("start_ns") < ended_ns - _OVERLAP_NS).fill_null(value=False)
    if not marks.select(is_inside.any()).item():
        return marks
    named = marks.filter(
        pl.col("step").is_in([step_name(number) for number in capture_facts_of(timeline).steps])
    )
    if not named.is_empty():
        marks = named
    outer, ends = [], dict[int, int]()
    for lane, start_ns, end_ns in marks.select("lane", "start_ns", "end_ns").iter_rows():
        outer.append(start_ns >= ends.get(lane, start_ns) - _OVERLAP_NS)
        if outer[-1]:
            ends[lane] = end_ns
    return marks.filter(pl.Series(outer, dtype=pl.Boolean))
