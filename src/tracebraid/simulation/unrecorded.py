"""A dependency graph as it is where nothing is recorded: host work less what recording its events costs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Literal

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import asdict, replace
from numpy.typing import NDArray

from tracebraid.analysis.antipatterns.ranking import EVENT_COST_NS, LEAST_LEFT
from tracebraid.model.capture_facts import INPUTS_OF_OP, OP_WEIGHT, CaptureFacts, EventCost, RecordingCosts
from tracebraid.model.expressions import as_text
from tracebraid.model.graph import ActivityKind, DependencyGraph, EdgeKind, Point, WhatIfNote
from tracebraid.model.step import is_profiler_step
from tracebraid.simulation.counterfactual import lane_of
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


class RecordedWork(Struct, frozen=True, eq=False):
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
        for name, cost in asdict(of_rank).items():
            if name == "tensor":
                continue
            own = _parts(cost, level)
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


def _between_marks(graph: DependencyGraph, threads: _Ints, costs: Mapping[int, object]) -> _Ints:
    """Edges of a thread from the end of a step's mark to the start of the next one's."""
    name = as_text("name")
    steps = graph.steps.select("rank", as_text("step").alias("name"))
    marks = (
        graph.activities.select("rank", name, "lane", "stream", "start_ns")
        .with_row_index("activity")
        .filter(is_profiler_step(name) & pl.col("rank").is_in(list(costs)) & pl.col("stream").is_null())
        .join(steps, on=["rank", "name"], how="semi", maintain_order="left")
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


class Fit(Struct, frozen=True):
    """Factor of the measured costs with which the step is as long as the unrecorded steps.

    Args:
        factor: the factor.
        measured_ns: median of the unrecorded steps, of the ranks' medians; None: not known, or steps of hosts alone.
        is_sound: whether there are enough of them to say how long a step is.
        note: what had to be done; None: nothing.
    """

    factor: float = 1.0
    measured_ns: float | None = None
    is_sound: bool = False
    note: WhatIfNote | None = None


def fitted_factor(work: RecordedWork) -> Fit:
    """Fit a factor of all costs to the unrecorded steps, which measure the step that is looked for.

    With devices the hosts' steps are compared: a host runs ahead, and its steps are no measure of the job's.

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
    on_device = _has_devices(work.graph)
    of_step = _host_step_ns if on_device else step_ns
    least_ns, most_ns = (of_step(work.removed(level)) for level in ("high_ns", "low_ns"))
    agrees = low_ns <= most_ns and high_ns >= least_ns
    enough = all((own.untraced_steps or 0) >= _FEWEST_STEPS for own in facts)
    factor = _factor(work, measured_ns, of_step) if enough and of_step(work.graph) > high_ns else None
    noted = WhatIfNote.RECORDING_DISAGREES if factor is None else WhatIfNote.RECORDING_SCALED
    return Fit(factor or 1.0, None if on_device else measured_ns, enough, None if agrees else noted)


def _quartile(facts: CaptureFacts, name: str) -> float:
    """How far a quartile of a rank's unrecorded steps is from their median; 0 if it is not known."""
    value = getattr(facts, f"untraced_step_{name}_ns")
    return 0.0 if value is None else value - (facts.untraced_step_median_ns or 0)


def _factor(
    work: RecordedWork, measured_ns: float, of_step: Callable[[DependencyGraph], float]
) -> float | None:
    """The factor with which the step takes a time; None: none in range."""
    low, factor, high = 0.0, 1.0, _MOST_FACTOR
    if abs(of_step(work.removed()) - measured_ns) <= _CLOSE * measured_ns:
        return factor
    longest_ns, shortest_ns = (of_step(work.removed(factor=factor)) for factor in (low, high))
    if not longest_ns > measured_ns >= shortest_ns:
        return None
    for _ in range(_PASSES):
        factor = low + (high - low) * (longest_ns - measured_ns) / (longest_ns - shortest_ns)
        found_ns = of_step(work.removed(factor=factor))
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


_WEIGHTS = {
    ActivityKind.OP.value: OP_WEIGHT,
    ActivityKind.ANNOTATION.value: OP_WEIGHT,
    ActivityKind.COMMUNICATION.value: OP_WEIGHT,
    ActivityKind.CALL.value: OP_WEIGHT,
    ActivityKind.PYTHON.value: 1.0,
}
"""What recording an event of a thread takes, in Python functions: CUPTI or its kin records calls of a runtime."""

_MOST_COSTS = 16.0
"""So many times the usual cost of an event is believed."""

_HALVINGS = 16
"""Of the range of costs."""


class UnrecordedJob(Struct, frozen=True, eq=False):
    """A job with devices as it runs where nothing is recorded.

    Args:
        recorded: the graph as recorded.
        graph: the same graph with the times that its moments have then.
    """

    recorded: DependencyGraph
    graph: DependencyGraph

    def moved(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of a rank's recorded time with the time that they have then.

        Those with an `event_id` lie on its thread or stream, others on the thread of their rank with the most events.
        """
        return self._moved(rows, self.recorded, self.graph)

    def recorded_at(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The inverse of `moved`, but within stretches that take no time without the recording."""
        return self._moved(rows, self.graph, self.recorded)

    def occurrences(self, evidence: pl.DataFrame, idle: Collection[str]) -> pl.DataFrame:
        """Evidence of detectors when it is then, with what it saves then.

        What a host does shrinks with its time. What a device does takes as long as before; of detectors of `idle` it is
        the rest of the evidence's time that goes.
        """
        was = pl.col("end_ns") - pl.col("start_ns")
        then = self.moved(evidence.with_columns(was.alias("was_ns")))
        saving, span = pl.col("saving_ns"), pl.max_horizontal(was, 0)
        of_host = saving * (span / pl.max_horizontal("was_ns", 1))
        of_idle = pl.max_horizontal(span - (pl.col("was_ns") - saving), 0)
        of_device = pl.when(pl.col("detector").is_in(idle)).then(of_idle).otherwise(saving)
        left = pl.when("on_device").then(pl.min_horizontal(of_device, span)).otherwise(of_host)
        return then.with_columns(left.round().cast(pl.Int64).alias("saving_ns")).drop("was_ns")

    def _moved(self, rows: pl.DataFrame, source: DependencyGraph, target: DependencyGraph) -> pl.DataFrame:
        aligned = source.ranks.aligned(rows, "start_ns", "end_ns")
        of_activity = lane_of(source)
        lane, of_moment = _lane_of_rows(aligned, source, of_activity), of_activity[source.moments.activity]
        order = np.lexsort((source.moments.time_ns, of_moment))
        lanes = of_moment[order]
        before, after = (graph.moments.time_ns[order] for graph in (source, target))
        times = {
            name: aligned.get_column(name).to_numpy().astype(np.int64) for name in ("start_ns", "end_ns")
        }
        found = {name: values.copy() for name, values in times.items()}
        for code in np.unique(lane[lane >= 0]):
            low, high = np.searchsorted(lanes, [code, code + 1])
            here, then = lane == code, np.maximum.accumulate(after[low:high])
            for name, values in times.items():
                found[name][here] = _interpolated(values[here], before[low:high], then)
        moved = aligned.with_columns(pl.Series(name, values) for name, values in found.items())
        return source.ranks.unaligned(moved, "start_ns", "end_ns").select(rows.columns)


def _lane_of_rows(rows: pl.DataFrame, graph: DependencyGraph, lane: _Ints) -> _Ints:
    """The thread or stream of each row: that of its event, else that of its rank with the most events."""
    events = graph.activities.select("rank", "event_id", "stream").with_columns(pl.Series("lane", lane))
    events = events.filter(pl.col("event_id").is_not_null() & (pl.col("lane") >= 0))
    most = (
        events.filter(pl.col("stream").is_null())
        .group_by("rank", "lane")
        .len()
        .sort("len", "lane", descending=[True, False])
        .unique("rank", keep="first", maintain_order=True)
        .select("rank", pl.col("lane").alias("_of_rank"))
    )
    joined, found = rows.join(most, on="rank", how="left", maintain_order="left"), pl.col("_of_rank")
    if "event_id" in rows.columns:
        own = events.select("rank", "event_id", pl.col("lane").alias("_own")).unique(["rank", "event_id"])
        joined = joined.join(own, on=["rank", "event_id"], how="left", maintain_order="left")
        found = pl.coalesce("_own", "_of_rank")
    lanes: _Ints = joined.select(found.fill_null(-1).cast(pl.Int64)).to_series().to_numpy()
    return lanes


def _interpolated(values: _Ints, before: _Ints, after: _Ints) -> _Ints:
    """Times between moments by the share of the time between them; outside of all with the nearest one."""
    first, last = int(before[0]), int(before[-1])
    inside = np.interp(
        (values - first).astype(np.float64), (before - first).astype(np.float64), after - after[0]
    )
    found = np.rint(inside).astype(np.int64) + after[0]
    moved: _Ints = np.where(values > last, values - last + after[-1], found)
    return np.where(values < first, values - first + after[0], moved)


def without_recording(graph: DependencyGraph) -> UnrecordedJob | None:
    """A captured job with devices as it runs where nothing is recorded; None: not known.

    The work of threads less a cost for each event, which is fitted so that the hosts take as long from step to step as
    they did in the steps that were not recorded. These are no measure of a step: where a device is behind, the host
    runs ahead, and only the replay says when the device is through.
    """
    medians = [facts.untraced_step_median_ns for facts in graph.captures.values()]
    if not medians or None in medians or not _has_devices(graph) or graph.steps.height <= len(medians):
        return None
    measured_ns = float(np.median([median for median in medians if median is not None]))
    threads = np.flatnonzero(graph.edges.kind == EdgeKind.HOST)
    between = _between_marks(graph, threads, graph.captures)
    kinds = as_text("kind").replace_strict(_WEIGHTS, default=0.0, return_dtype=pl.Float64)
    weight = graph.activities.select(
        pl.when(pl.col("stream").is_null()).then(kinds).otherwise(0.0)
    ).to_series()
    # A half of an event lies at its start, the other at its end, and a half of each on either side.
    of_moment = weight.to_numpy()[graph.moments.activity] * EVENT_COST_NS / 4
    cost_ns = of_moment[graph.edges.before[threads]] + of_moment[graph.after[threads]]

    def less(costs: float) -> DependencyGraph:
        work_ns = graph.edges.work_ns.copy()
        own = work_ns[threads]
        work_ns[threads] = np.rint(np.maximum(own - costs * cost_ns, LEAST_LEFT * own))
        work_ns[between] = 0
        return replace(graph, edges=replace(graph.edges, work_ns=work_ns))

    low, high = 0.0, _MOST_COSTS
    if _host_step_ns(less(low)) > measured_ns:
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if _host_step_ns(less(middle)) > measured_ns else (low, middle)
        low = high
    return UnrecordedJob(graph, _at_replayed_times(less(low)))


def _has_devices(graph: DependencyGraph) -> bool:
    return bool(graph.activities.get_column("stream").is_not_null().any())


def _host_step_ns(graph: DependencyGraph) -> float:
    """Median over the ranks of the median time from the end of a step on the host to that of the next."""
    times_ns = replayed_times(graph)
    ends = graph.steps.select("rank", "host_end_moment").drop_nulls()
    found = [
        float(np.median(np.diff(np.sort(times_ns[rows.get_column("host_end_moment").to_numpy()]))))
        for _, rows in ends.group_by("rank", maintain_order=True)
        if rows.height > 1
    ]
    return float(np.median(found)) if found else 0.0


def _at_replayed_times(graph: DependencyGraph) -> DependencyGraph:
    moments = graph.moments
    first_ns = int(moments.time_ns.min())
    times_ns = replayed_times(graph) + first_ns
    start, end = (pl.Series(name, times_ns[graph.moment_of[:, point]]) for name, point in _POINTS)
    return replace(
        graph,
        activities=graph.activities.with_columns(start, end),
        moments=replace(moments, time_ns=times_ns),
    )


_POINTS = (("start_ns", Point.START), ("end_ns", Point.END))
