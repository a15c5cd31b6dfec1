"""The times of a dependency graph, computed from its work alone, in one pass over its moments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, IntEnum
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.analysis.time.breakdown import first_start_of_job
from tracebraid.graph.latest_edges import latest_edges
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.graph import (
    ActivityKind,
    DependencyGraph,
    EdgeKind,
    Edges,
    Point,
    ReplayError,
    Residual,
)
from tracebraid.native.loops import native_loop

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]
_Bools = NDArray[np.bool_]

_MOST_GAPS = 16
"""Possible keys per key up to which they are counted, instead of sorted."""

_LIKE = ("rank", "lane", "kind", "op")
"""Key that activities with similar moments share."""


class Samples(Enum):
    """Steps from which the residuals of a step are learned."""

    OTHERS = "others"
    """All but itself."""
    ITSELF = "itself"
    """The step alone, as if no other had been recorded."""


class Evidence(IntEnum):
    """Source of a usual residual; the first available."""

    NONE = 0
    """No similar moment: residual 0."""
    SAME = 1
    """The same moment of other steps: the n-th of its activities' name, op, rank and thread or stream."""
    ALIKE = 2
    """All moments of other steps whose activities have its name, op, rank and thread or stream."""
    KIND = 3
    """All moments of other steps whose activities are of its kind."""
    OWN = 4
    """Its own step: there is no other step. The mean of all that are alike."""


class UsualResiduals(Struct, frozen=True, eq=False):
    """Usual residual of each moment.

    Args:
        residual_ns: of each moment.
        evidence: `Evidence` of each.
    """

    residual_ns: NDArray[Any]
    evidence: NDArray[Any]


def usual_residuals(graph: DependencyGraph, samples: Samples = Samples.OTHERS) -> UsualResiduals:
    """The usual residual of each moment, in which its own step has no part.

    The median of the same moment in other steps; else of similar moments, and else of those of its kind, the
    mean. Moments that have no residual are samples as well. Where a moment is in no step, or there is one step, all
    moments that are alike are samples, itself too. Moments that wait for nothing are no samples, and have none.
    """
    waits = np.diff(graph.edges.first) > 0
    keys = _keys(graph)
    if samples is Samples.ITSELF or len(np.unique(keys.step[keys.step >= 0])) < 2:
        found = _of_own_step(keys, graph.moments.residual_ns, waits)
    else:
        found = _of_other_steps(keys, graph.moments.residual_ns, waits)
    return UsualResiduals(
        np.where(waits, np.rint(found.residual_ns), 0).astype(np.int64),
        np.where(waits, found.evidence, Evidence.NONE).astype(np.uint8),
    )


def _of_own_step(keys: _Keys, residual_ns: _Ints, waits: _Bools) -> UsualResiduals:
    key = _number_of(keys.alike, keys.step)
    usual, count = _mean_of_others(key, np.full_like(key, -1), residual_ns, waits)
    return UsualResiduals(usual, np.where(count > 0, Evidence.OWN, Evidence.NONE))


def _of_other_steps(keys: _Keys, residual_ns: _Ints, waits: _Bools) -> UsualResiduals:
    usual, count = _mean_of_others(keys.kind, keys.step, residual_ns, waits)
    evidence = np.where(count > 0, Evidence.KIND, Evidence.NONE)
    alike = _mean_of_others(keys.alike, keys.step, residual_ns, waits)
    same = _median_of_others(keys.same, residual_ns, waits & (keys.step >= 0))
    for (better, samples), name in ((alike, Evidence.ALIKE), (same, Evidence.SAME)):
        usual, evidence = np.where(samples > 0, better, usual), np.where(samples > 0, name, evidence)
    return UsualResiduals(usual, evidence)


class _Keys(Struct, frozen=True, eq=False):
    """Numbers that like moments share; `step` is -1 for moments in none."""

    step: _Ints
    same: _Ints
    alike: _Ints
    kind: _Ints


def _keys(graph: DependencyGraph) -> _Keys:
    """The keys of each moment."""
    name = pl.col("name").cast(pl.String)
    of_step = (name == pl.col("step").cast(pl.String)).fill_null(False)
    numbers = graph.activities.select(
        # The mark of a step has another name in each.
        pl.struct(*_LIKE, pl.when(of_step).then(None).otherwise(name).alias("label"))
        .rank("dense")
        .alias("alike"),
        pl.struct("rank", "kind").rank("dense").alias("kind"),
        pl.col("step").cast(pl.String).rank("dense").fill_null(0).cast(pl.Int64).alias("step") - 1,
    ).cast(pl.Int64)
    activity, point = graph.moments.activity, graph.moments.point.astype(np.int64)
    alike, kind, step = (
        numbers.get_column(column).to_numpy()[activity] for column in ("alike", "kind", "step")
    )
    alike, kind = 2 * alike + point, 2 * kind + point
    occurrence = _occurrences(_number_of(alike, step))
    same = alike * (int(occurrence.max(initial=0)) + 1) + occurrence
    return _Keys(step, same, _number_of(alike), _number_of(kind))


def _number_of(*keys: _Ints) -> _Ints:
    """Numbers from 0 without gaps, equal where all keys are; keys are at least -1."""
    numbers = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        numbers = _without_gaps(numbers * (int(key.max(initial=0)) + 2) + key + 1)
    return numbers


def _without_gaps(keys: _Ints) -> _Ints:
    if int(keys.max(initial=0)) > _MOST_GAPS * len(keys):
        return np.unique(keys, return_inverse=True)[1]
    return (np.cumsum(np.bincount(keys) > 0) - 1)[keys]


@native_loop
def _occurrences(key: _Ints) -> _Ints:
    """Index of each entry among those with the same key, from 0; keys are numbers from 0 on."""
    seen = np.zeros(key.max(initial=-1) + 1, dtype=np.int64)
    found = np.empty(len(key), dtype=np.int64)
    for entry in range(len(key)):
        found[entry] = seen[key[entry]]
        seen[key[entry]] += 1
    return found


def usual_work(graph: DependencyGraph, work_ns: _Ints, mask: _Bools) -> _Floats:
    """The work of each masked activity that the same has in other steps, the median; its own where there is none."""
    keys, start = _keys(graph), graph.moment_of[:, Point.START]
    median, samples = _median_of_others(keys.same[start], work_ns, mask & (keys.step[start] >= 0))
    return np.where(samples > 0, median, work_ns)


def _mean_of_others(key: _Ints, step: _Ints, values: _Ints, mask: _Bools) -> tuple[_Floats, _Ints]:
    """The mean of those with the same key in other steps, and their number; of one in no step, of all."""
    total, count = np.bincount(key, values * mask), np.bincount(key, mask)
    pair = _number_of(key, step)
    own, own_count = np.bincount(pair, values * mask), np.bincount(pair, mask)
    in_step = step >= 0
    samples = (count[key] - own_count[pair] * in_step).astype(np.int64)
    rest = total[key] - own[pair] * in_step
    return rest / np.maximum(samples, 1), samples


def _median_of_others(key: _Ints, values: _Ints, mask: _Bools) -> tuple[_Floats, _Ints]:
    """The median of the others with the same key, and their number."""
    median, samples = np.zeros(len(key)), np.zeros(len(key), dtype=np.int64)
    rows = np.flatnonzero(mask)
    order = rows[np.lexsort((values[rows], key[rows]))]
    ordered = values[order]
    begins = np.flatnonzero(np.diff(key[order], prepend=-1))
    lengths = np.diff(begins, append=len(order))
    first, others = np.repeat(begins, lengths), np.repeat(lengths, lengths) - 1
    own = np.arange(len(order)) - first
    low, high = (np.maximum(others - 1, 0) // 2, others // 2)
    # Behind the own sample the others are a row further.
    picked = [first + half + (half >= own) for half in (low, high)]
    last = max(len(order) - 1, 0)
    if len(order):
        median[order] = np.mean([ordered[np.minimum(index, last)] for index in picked], axis=0)
    samples[order] = others
    return median, samples


class Residuals(Enum):
    """Residuals of a replay."""

    MEASURED = "measured"
    """Measured residuals: an unchanged graph gives the measured times."""
    MODELLED = "modelled"
    """Residuals of the other steps, see `usual_residuals`; no measured start is used."""
    MODELLED_ALONE = "modelled_alone"
    """Usual residuals within the same step: the estimate from a trace of this step alone."""
    NONE = "none"
    """All that is not explained takes no time."""


_SAMPLES = {Residuals.MODELLED: Samples.OTHERS, Residuals.MODELLED_ALONE: Samples.ITSELF}


def with_residuals(graph: DependencyGraph, residuals: Residuals) -> DependencyGraph:
    """The graph with these residuals; its `time_ns` stay the measured ones.

    With modelled or no residuals, a moment that waits for nothing gets an edge without work from the moment before
    it, in the order of the graph, of a thread of its rank: its thread or stream begins when that one has come as far
    as it had. The first moment of each rank keeps its time after the earliest of all: the ranks begin as they did. In a
    graph of some steps so does all that lies before the first of them: it is given, and not modelled.
    """
    if residuals is Residuals.MEASURED or not len(graph.moments):
        return graph
    moments = graph.moments
    residual_ns = np.zeros(len(moments), dtype=np.int64)
    if residuals in _SAMPLES:
        residual_ns = usual_residuals(graph, _SAMPLES[residuals]).residual_ns
    loose = np.flatnonzero(np.diff(graph.edges.first) == 0)
    anchor = np.where(_is_given(graph, loose), -1, _anchors(graph, loose))
    begins = loose[anchor < 0]
    residual_ns[begins] = moments.residual_ns[begins]
    edges = _with_edges(graph.edges, loose[anchor >= 0], anchor[anchor >= 0], moments.activity)
    named = np.where(moments.residual == Residual.NONE, Residual.UNEXPLAINED, moments.residual)
    names = np.where(residual_ns > 0, named, Residual.NONE)
    return replace(
        graph, edges=edges, moments=replace(moments, residual_ns=residual_ns, residual=names.astype(np.uint8))
    )


def _is_given(graph: DependencyGraph, loose: _Ints) -> NDArray[np.bool_]:
    """Return whether these moments lie before the first step of their rank, in a graph of some steps."""
    if graph.is_whole or graph.steps.is_empty():
        return np.zeros(len(loose), dtype=np.bool_)
    starts = graph.steps.group_by("rank").agg(pl.col("start_moment").min())
    rank = graph.activities.select("rank")[pl.Series(graph.moments.activity[loose])]
    start = rank.join(starts, on="rank", how="left", maintain_order="left").get_column("start_moment")
    given: NDArray[np.bool_] = loose < start.fill_null(0).to_numpy()
    return given


def _anchors(graph: DependencyGraph, loose: _Ints) -> _Ints:
    """The last moment of a thread of the same rank before each of these; -1: there is none."""
    is_host = pl.col("stream").is_null() & (pl.col("kind").cast(pl.String) != ActivityKind.COLLECTIVE.value)
    columns = graph.activities.select(pl.col("rank").fill_null(-1), is_host.alias("host"))
    rank, host = (columns.get_column(name).to_numpy()[graph.moments.activity] for name in ("rank", "host"))
    of_threads = np.flatnonzero(host)
    of_threads = of_threads[np.argsort(rank[of_threads], kind="stable")]
    count = len(graph.moments)
    order = (rank[of_threads] + 1) * count + of_threads
    found = np.searchsorted(order, (rank[loose] + 1) * count + loose) - 1
    candidates = of_threads[np.maximum(found, 0)] if len(of_threads) else np.zeros_like(loose)
    same = (found >= 0) & (rank[candidates] == rank[loose])
    return np.where(same, candidates, -1)


def _with_edges(edges: Edges, after: _Ints, before: _Ints, activity: _Ints) -> Edges:
    """The edges, with edges without work for moments that have none."""
    first = edges.first.copy()
    added = np.zeros(len(first), dtype=np.int64)
    added[after + 1] = 1
    at = edges.first[after]
    return Edges(
        first + np.cumsum(added),
        np.insert(edges.before, at, before.astype(np.int32)),
        np.insert(edges.work_ns, at, 0),
        np.insert(edges.kind, at, np.uint8(EdgeKind.THREAD)),
        np.insert(edges.activity, at, activity[after].astype(np.int32)),
    )


@native_loop
def replay(first: _Ints, before: NDArray[np.int32], work_ns: _Ints, residual_ns: _Ints) -> _Ints:
    """Time of each moment, in ns after the earliest: its latest edge, plus its residual."""
    times = np.empty(len(residual_ns), dtype=np.int64)
    for moment in range(len(residual_ns)):
        latest = 0
        for edge in range(first[moment], first[moment + 1]):
            ready = times[before[edge]] + work_ns[edge]
            if ready > latest:
                latest = ready
        times[moment] = latest + residual_ns[moment]
    return times


_NEVER = np.iinfo(np.int64).min


class StepMoments(Struct, frozen=True, eq=False):
    """The moments between which steps lie: an entry for each row of `GRAPH_STEPS`.

    Args:
        names: the steps, in order; null: the whole trace, which has no steps.
        ranks: the ranks, ascending.
        step: of each row, its entry of `names`.
        rank: of each row, its entry of `ranks`.
        start: the moment at which the step starts on the rank.
        host_end: the moment at which it ends on the host; where there is none, `start`.
        device_end: the moment at which its device work ends; where there is none, `host_end`.
    """

    names: tuple[str | None, ...]
    ranks: tuple[int, ...]
    step: _Ints
    rank: _Ints
    start: _Ints
    host_end: _Ints
    device_end: _Ints

    @property
    def chosen(self) -> _Ints:
        """The moments that are needed, ascending: all that a replay of many scenarios has to keep."""
        return np.unique(np.concatenate([self.start, self.host_end, self.device_end]))

    def of_chosen(self) -> StepMoments:
        """Do the same with only the times of `chosen`: positions in it instead of moments."""
        chosen = self.chosen
        start, host, device = (
            np.searchsorted(chosen, moments) for moments in (self.start, self.host_end, self.device_end)
        )
        return replace(self, start=start, host_end=host, device_end=device)


class StepTimes(Struct, frozen=True, eq=False):
    """Times of steps in ns; the axes before the last are those of the scenarios.

    Args:
        start_ns: when each starts.
        end_ns: when it ends: the last of its host and its device.
        time_ns: from the end of the step before, if that is not later, to its own end; of a first step its span.
    """

    start_ns: _Ints
    end_ns: _Ints
    time_ns: _Ints

    @property
    def span_ns(self) -> _Ints:
        """Duration from start to end."""
        return self.end_ns - self.start_ns


def step_moments(steps: pl.DataFrame) -> StepMoments:
    """The moments between which the steps of a graph lie."""
    names = steps.get_column("step").unique(maintain_order=True)
    ranks = steps.get_column("rank").unique().sort()
    start = steps.get_column("start_moment")
    host = steps.get_column("host_end_moment").fill_null(start)
    device = steps.get_column("device_end_moment").fill_null(host)
    number = pl.DataFrame({"step": names}).with_row_index("number")
    step = steps.select("step").join(number, on="step", how="left", nulls_equal=True, maintain_order="left")
    return StepMoments(
        tuple(names.to_list()),
        tuple(ranks.to_list()),
        step.get_column("number").cast(pl.Int64).to_numpy(),
        np.searchsorted(ranks.to_numpy(), steps.get_column("rank").to_numpy()),
        *(moments.cast(pl.Int64).to_numpy() for moments in (start, host, device)),
    )


def rank_step_times(times_ns: _Ints, moments: StepMoments) -> StepTimes:
    """The times of each step on each rank: an entry for each row of `GRAPH_STEPS`.

    The first step of the job starts on no rank before `first_start_of_job`.
    """
    start, end = _bounds(times_ns, moments)
    if len(first := np.flatnonzero(moments.step == 0)):
        begin = first_start_of_job(start[..., first], end[..., first])
        start[..., first] = np.maximum(start[..., first], begin[..., None])
    grid = np.full((*end.shape[:-1], len(moments.ranks), len(moments.names)), _NEVER, dtype=np.int64)
    grid[..., moments.rank, moments.step] = end
    before = _ends_before(grid)[..., moments.rank, moments.step]
    return StepTimes(start, end, _times(start, end, before))


def job_step_times(times_ns: _Ints, moments: StepMoments) -> StepTimes:
    """The times of each step of the whole job: an entry for each of `moments.names`.

    It starts with the first of its ranks, and ends with the last; where the first starts, `first_start_of_job` says.
    """
    starts, ends = _bounds(times_ns, moments)
    shape = (*ends.shape[:-1], len(moments.names))
    start = np.full(shape, np.iinfo(np.int64).max, dtype=np.int64)
    end = np.full(shape, _NEVER, dtype=np.int64)
    for row, step in enumerate(moments.step):
        np.minimum(start[..., step], starts[..., row], out=start[..., step])
        np.maximum(end[..., step], ends[..., row], out=end[..., step])
    if len(first := np.flatnonzero(moments.step == 0)):
        start[..., 0] = first_start_of_job(starts[..., first], ends[..., first])
    return StepTimes(start, end, _times(start, end, _ends_before(end)))


def _bounds(times_ns: _Ints, moments: StepMoments) -> tuple[_Ints, _Ints]:
    ends = np.maximum(times_ns[..., moments.host_end], times_ns[..., moments.device_end])
    return times_ns[..., moments.start], ends


def _ends_before(ends: _Ints) -> _Ints:
    """The last end of all steps before each."""
    before = np.full_like(ends, _NEVER)
    np.maximum.accumulate(ends[..., :-1], axis=-1, out=before[..., 1:])
    return before


def _times(start: _Ints, end: _Ints, before: _Ints) -> _Ints:
    return np.maximum(end - np.where(before == _NEVER, start, before), 0)


REPLAY_ERRORS = Table(
    "replay_errors",
    "One row per step and rank, and one per step of the whole job: its time in a replay that uses no measured start.",
    (
        Column("step", Kind.TEXT, "the step; null: the whole trace, which has no steps"),
        Column("rank", Kind.INT, "the rank; null: the whole job"),
        Column(
            "measured_ns",
            Kind.INT,
            "from the end of the step before to its own end; of the first step its span",
        ),
        Column("replayed_ns", Kind.INT, "the same in a replay with residuals as other steps have them"),
        Column(
            "error",
            Kind.FLOAT,
            "error as a share of `measured_ns`; null: it took no time",
        ),
        Column(
            "modelled_share",
            Kind.FLOAT,
            "of the whole job: share of the replayed time, along its latest chain, that is residuals; else null",
        ),
        Column(
            "next_ns",
            Kind.INT,
            "what the step before says that it takes: time (after the first step: span) in a replay with residuals "
            "learned from that step alone; null: there is none before",
        ),
        Column(
            "next_error",
            Kind.FLOAT,
            "error of `next_ns` as a share of its time (span); null: as `next_ns`",
        ),
    ),
)


def replay_errors(graph: DependencyGraph, modelled: DependencyGraph | None = None) -> pl.DataFrame:
    """The measured and the replayed time of each step: `REPLAY_ERRORS`, the rows of the whole job first.

    Args:
        modelled: the graph with `Residuals.MODELLED`, where it is at hand.
    """
    if graph.steps.is_empty():
        return REPLAY_ERRORS.empty()
    moments = step_moments(graph.steps)
    if modelled is None:
        modelled = with_residuals(graph, Residuals.MODELLED)
    replayed, alone = (
        replayed_times(modelled),
        replayed_times(with_residuals(graph, Residuals.MODELLED_ALONE)),
    )
    times = (graph.moments.time_ns, replayed, alone)
    names = np.array(moments.names, dtype=object)
    of_job = [job_step_times(each, moments) for each in times]
    job = _compared(of_job, np.zeros(len(names), dtype=np.int64)).with_columns(
        pl.Series("step", names, dtype=pl.String),
        pl.lit(None, dtype=pl.Int64).alias("rank"),
        pl.Series("modelled_share", list(_modelled_shares(modelled, replayed, moments)), dtype=pl.Float64),
    )
    of_ranks = [rank_step_times(each, moments) for each in times]
    ranks = _compared(of_ranks, moments.rank).with_columns(
        pl.Series("step", names[moments.step], dtype=pl.String),
        pl.Series("rank", np.array(moments.ranks)[moments.rank]),
        pl.lit(None, dtype=pl.Float64).alias("modelled_share"),
    )
    columns = list(REPLAY_ERRORS.polars_schema())
    return REPLAY_ERRORS.conform(pl.concat([job.select(columns), ranks.select(columns)]))


def replay_error(errors: pl.DataFrame, rank: int | None = None) -> ReplayError:
    """The errors of all steps in a few figures."""
    rows = errors.filter(pl.col("rank").eq_missing(rank))
    error, following = (rows.get_column(name).abs().drop_nulls() for name in ("error", "next_error"))
    share = rows.get_column("modelled_share").median()
    return ReplayError(
        len(error),
        _quantile(error, 0.5),
        _quantile(error, 0.95),
        len(following),
        _quantile(following, 0.5),
        _quantile(following, 0.95),
        float(share) if isinstance(share, float) else None,
    )


def _quantile(values: pl.Series, share: float) -> float | None:
    return values.quantile(share, "linear")


def replayed_times(graph: DependencyGraph) -> _Ints:
    """The time of each moment of a graph, in ns after the earliest."""
    edges = graph.edges
    return replay(edges.first, edges.before, edges.work_ns, graph.moments.residual_ns)


def _compared(times: Sequence[StepTimes], rank: _Ints) -> pl.DataFrame:
    """Compare the times of steps with the prediction from the previous step of the same rank."""
    measured, replayed, alone = times
    frame = pl.DataFrame(
        {
            "rank": rank,
            "measured_ns": measured.time_ns,
            "replayed_ns": replayed.time_ns,
            "span_ns": measured.span_ns,
            "time_alone": alone.time_ns,
            "span_alone": alone.span_ns,
        }
    )
    # What a first step says about the second is its span: when the step before it ended was not recorded.
    second = pl.col("number") == 1
    frame = frame.with_columns(
        pl.int_range(pl.len()).over("rank").alias("number"),
        pl.col("time_alone", "span_alone").shift(1).over("rank"),
    ).with_columns(
        pl.when(second).then("span_alone").otherwise("time_alone").alias("next_ns"),
        pl.when(second).then("span_ns").otherwise("measured_ns").alias("next_measured"),
    )
    return frame.select(
        "measured_ns",
        "replayed_ns",
        "next_ns",
        error=_relative("replayed_ns", "measured_ns"),
        next_error=_relative("next_ns", "next_measured"),
    )


def _relative(found: str, measured: str) -> pl.Expr:
    return pl.when(pl.col(measured) > 0).then(pl.col(found) / pl.col(measured) - 1)


def _modelled_shares(graph: DependencyGraph, times: _Ints, moments: StepMoments) -> Iterator[float | None]:
    """The share of each step's replayed time that is residuals, along the chain that ends with the step."""
    found = job_step_times(times, moments)
    edges = graph.edges
    latest = latest_edges(edges, times)
    waited = np.full(len(times), -1, dtype=np.int64)
    waited[latest >= 0] = edges.before[latest[latest >= 0]]
    last = np.where(
        times[moments.host_end] >= times[moments.device_end], moments.host_end, moments.device_end
    )
    for step, (end, time) in enumerate(zip(found.end_ns, found.time_ns, strict=True)):
        ends = last[moments.step == step]
        moment = int(ends[np.argmax(times[ends])])
        lost = _residual_before(waited, graph.moments.residual_ns, times, moment, int(end - time))
        yield lost / int(time) if time > 0 else None


@native_loop
def _residual_before(waited: _Ints, residual_ns: _Ints, times: _Ints, moment: int, until: int) -> int:
    """Sum the residuals along the chain of longest waits, back to a time."""
    lost = 0
    while moment >= 0 and times[moment] > until:
        lost += min(residual_ns[moment], times[moment] - until)
        moment = waited[moment]
    return lost
