"""A dependency graph as it is where nothing is recorded: host work less what recording its events costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.capture_facts import INPUTS_OF_OP, CaptureFacts, EventCost, RecordingCosts
from tracebraid.model.expressions import as_text
from tracebraid.model.graph import ActivityKind, DependencyGraph, EdgeKind, Point, WhatIfNote
from tracebraid.model.step import is_profiler_step
from tracebraid.simulation.replay import job_step_times, replayed_times, step_moments

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]

Level = Literal["low_ns", "median_ns", "high_ns"]
LEVELS: tuple[Level, ...] = ("low_ns", "median_ns", "high_ns")
"""Ends of the interval of each cost, and its middle."""

_COST_OF_KIND = {
    ActivityKind.OP.value: "op",
    ActivityKind.ANNOTATION.value: "annotation",
    ActivityKind.COMMUNICATION.value: "annotation",
    ActivityKind.PYTHON.value: "python",
}
"""Member of `RecordingCosts` of each kind of activity on a thread; a backend communicates in annotations."""

_BUILTIN = "<built-in"
"""Start of the names of functions that are not written in Python."""

_INPUT = r"\[[^\[\]]*\]"
"""An input in the text of shapes: the innermost brackets, empty for a scalar."""

_MOST_FACTOR = 4.0
"""Largest factor between measured costs and those of the program, and one over the smallest: a loop finds all of its
events in the caches of the processor, and a program finds few."""

_FEWEST_STEPS = 3
"""Unrecorded steps of a rank below which their quartiles say nothing."""

_PASSES = 8
"""Replays in which a factor is looked for."""

_CLOSE = 0.002
"""Difference of times, as a share, at which a factor is found."""


@dataclass(frozen=True, eq=False)
class RecordedWork:
    """Work of threads that recording takes.

    Args:
        graph: the graph as recorded.
        edges: the edges that have such work.
        cost_ns: the work of each by level.
        between: edges between the marks of two steps, where the capture itself works.
    """

    graph: DependencyGraph
    edges: _Ints
    cost_ns: Mapping[Level, _Floats]
    between: _Ints

    def removed(self, level: Level = "median_ns", factor: float = 1.0) -> DependencyGraph:
        """The graph without it; work that is less than its cost is 0 then."""
        work_ns = self.graph.edges.work_ns.copy()
        cost_ns = np.rint(self.cost_ns[level] * factor).astype(np.int64)
        work_ns[self.edges] = np.maximum(work_ns[self.edges] - cost_ns, 0)
        work_ns[self.between] = 0
        return replace(self.graph, edges=replace(self.graph.edges, work_ns=work_ns))


def costs_of(graph: DependencyGraph) -> dict[int, RecordingCosts]:
    """The costs of recording of each rank, if they are known of all; else none."""
    known = {rank: facts.costs for rank, facts in graph.captures.items() if facts.costs is not None}
    return known if len(known) == len(graph.captures) else {}


def recorded_work(graph: DependencyGraph, costs: Mapping[int, RecordingCosts]) -> RecordedWork:
    """Find the work of threads that recording takes; ranks without costs have none.

    The cost of an event within its own time lies half behind its start and half before its end, that outside half
    before its start and half behind its end.
    """
    moments = graph.moments
    threads = np.flatnonzero(graph.edges.kind == EdgeKind.HOST)
    before, after = graph.edges.before[threads], graph.after[threads]
    starts = moments.point == Point.START
    kinds = _kinds(graph)
    cost_ns: dict[Level, _Floats] = {}
    for level in LEVELS:
        inside, outside = (values[moments.activity] / 2 for values in _costs_of_events(kinds, costs, level))
        behind, ahead = np.where(starts, inside, outside), np.where(starts, outside, inside)
        cost_ns[level] = behind[before] + ahead[after]
    return RecordedWork(graph, threads, cost_ns, _between_marks(graph, threads, costs))


def _kinds(graph: DependencyGraph) -> pl.DataFrame:
    """Of each activity its rank, the kind of its cost (a member of `RecordingCosts`), and its further inputs."""
    is_builtin = (as_text("kind") == ActivityKind.PYTHON.value) & as_text("name").str.starts_with(_BUILTIN)
    of_kind = as_text("kind").replace_strict(_COST_OF_KIND, default=None, return_dtype=pl.String)
    kind = pl.when(pl.col("stream").is_null()).then(
        pl.when(is_builtin).then(pl.lit("builtin")).otherwise(of_kind)
    )
    inputs = as_text("shapes").str.count_matches(_INPUT).fill_null(0).cast(pl.Int64)
    return graph.activities.select("rank", kind=kind, further=(inputs - INPUTS_OF_OP).clip(0))


def _costs_of_events(
    kinds: pl.DataFrame, costs: Mapping[int, RecordingCosts], level: Level
) -> tuple[_Floats, _Floats]:
    """Cost of each activity inside its own time and outside."""
    rows = []
    for rank, of_rank in costs.items():
        further = _parts(of_rank.tensor, level)
        for name in (entry.name for entry in fields(of_rank) if entry.name != "tensor"):
            own = _parts(getattr(of_rank, name), level)
            rows.append((rank, name, *own, *(further if name == "op" else (0.0, 0.0))))
    columns = ["rank", "kind", "inside", "outside", "further_inside", "further_outside"]
    types = dict(zip(columns, [pl.Int64, pl.String, *[pl.Float64] * 4], strict=True))
    table = pl.DataFrame(rows, schema=types, orient="row")
    found = kinds.join(table, on=["rank", "kind"], how="left", maintain_order="left")
    inside, outside = (
        found.select((pl.col(part) + pl.col("further") * pl.col(f"further_{part}")).fill_null(0.0))
        .to_series()
        .to_numpy()
        for part in ("inside", "outside")
    )
    return inside, outside


def _parts(cost: EventCost | None, level: Level) -> tuple[float, float]:
    """A cost inside an event's own time and outside."""
    if cost is None:
        return 0.0, 0.0
    cost_ns: float = getattr(cost, level)
    return cost.inside * cost_ns, (1 - cost.inside) * cost_ns


def _between_marks(graph: DependencyGraph, threads: _Ints, costs: Mapping[int, RecordingCosts]) -> _Ints:
    """Edges of a thread from the end of a step's mark to the start of the next one's."""
    name = as_text("name")
    marks = (
        graph.activities.with_row_index("activity")
        .filter(is_profiler_step(name) & pl.col("rank").is_in(list(costs)) & pl.col("stream").is_null())
        .sort("rank", "lane", "start_ns", "activity")
    )
    pairs = marks.select("activity", following=pl.col("activity").shift(-1).over("rank", "lane")).drop_nulls()
    following_edge = np.full(len(graph.moments), -1, dtype=np.int64)
    following_edge[graph.edges.before[threads]] = threads
    after = graph.after
    found: list[int] = []
    for mark, following in pairs.iter_rows():
        moment, until = graph.moment_of[mark, Point.END], graph.moment_of[following, Point.START]
        chain = []
        while moment < until and (edge := int(following_edge[moment])) >= 0:
            chain.append(edge)
            moment = after[edge]
        if moment == until:
            found += chain
    return np.array(found, dtype=np.int64)


@dataclass(frozen=True)
class Fit:
    """Factor of the measured costs with which the step is as long as the unrecorded steps.

    Args:
        factor: the factor.
        measured_ns: median of the unrecorded steps, of the ranks' medians; None: not known.
        note: what had to be done; None: nothing.
    """

    factor: float = 1.0
    measured_ns: float | None = None
    note: WhatIfNote | None = None


def fitted_factor(work: RecordedWork) -> Fit:
    """Fit a factor of all costs to the unrecorded steps, which measure the step that is looked for.

    That is sound if recording makes the step longer by more than the unrecorded steps differ (third quartile), each
    rank has three of these, and the factor lies between a quarter and four; else it is 1. A note says where the
    unrecorded steps, from quartile to quartile, are outside what the low and the high costs give.
    """
    facts = list(work.graph.captures.values())
    medians = [own.untraced_step_median_ns for own in facts if own.untraced_step_median_ns]
    if len(medians) < len(facts) or not facts:
        return Fit()
    measured_ns = float(np.median(medians))
    low_ns, high_ns = (
        measured_ns + float(np.median([_quartile(own, name) for own in facts])) for name in ("q1", "q3")
    )
    least_ns, most_ns = (step_ns(work.removed(level)) for level in ("high_ns", "low_ns"))
    agrees = low_ns <= most_ns and high_ns >= least_ns
    enough = all((own.untraced_steps or 0) >= _FEWEST_STEPS for own in facts)
    factor = _factor(work, measured_ns) if enough and step_ns(work.graph) > high_ns else None
    if factor is None:
        return Fit(1.0, measured_ns, None if agrees else WhatIfNote.RECORDING_DISAGREES)
    return Fit(factor, measured_ns, None if agrees else WhatIfNote.RECORDING_SCALED)


def _quartile(facts: CaptureFacts, name: str) -> float:
    """How far a quartile of a rank's unrecorded steps is from their median; 0 if it is not known."""
    value = getattr(facts, f"untraced_step_{name}_ns")
    return 0.0 if value is None else value - (facts.untraced_step_median_ns or 0)


def _factor(work: RecordedWork, measured_ns: float) -> float | None:
    """The factor with which the step takes a time; None: none in range."""
    low, factor, high = 0.0, 1.0, _MOST_FACTOR
    if abs(step_ns(work.removed()) - measured_ns) <= _CLOSE * measured_ns:
        return factor
    longest_ns, shortest_ns = (step_ns(work.removed(factor=factor)) for factor in (low, high))
    if not longest_ns > measured_ns >= shortest_ns:
        return None
    for _ in range(_PASSES):
        factor = low + (high - low) * (longest_ns - measured_ns) / (longest_ns - shortest_ns)
        found_ns = step_ns(work.removed(factor=factor))
        if abs(found_ns - measured_ns) <= _CLOSE * measured_ns:
            break
        if found_ns > measured_ns:
            low, longest_ns = factor, found_ns
        else:
            high, shortest_ns = factor, found_ns
    return factor if factor >= 1 / _MOST_FACTOR else None


def step_ns(graph: DependencyGraph) -> float:
    """Median time of a step of the job, replayed."""
    return float(np.median(job_step_times(replayed_times(graph), step_moments(graph.steps)).time_ns))
