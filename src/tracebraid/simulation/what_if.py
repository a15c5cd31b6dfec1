"""Replay a dependency graph with and without changes, and compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.graph.critical_path.find_path import PathOptions, find_path
from tracebraid.model.answers.graph import SHAPE_BASIS, SHAPE_MEMORY, WHAT_IF_CHANGES, TotalsBy
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.graph import (
    ActivityKind,
    Change,
    DependencyGraph,
    Doubt,
    ReplayError,
    Unrecorded,
    WhatIf,
    WhatIfNote,
)
from tracebraid.simulation.changes.apply import changed
from tracebraid.simulation.changes.communication import communication_costs, is_work, work_of
from tracebraid.simulation.changes.reshaping import IntervalEnd, Reshaped
from tracebraid.simulation.changes.verbs import On, checked_together, divides, text_of, verb_named
from tracebraid.simulation.contention import (
    EQUAL_SHARES,
    OTHERS_DIFFER,
    Contention,
    contention_of,
    with_contention,
)
from tracebraid.simulation.interference import (
    Interference,
    InterferenceData,
    interference_of,
    overlap_changes,
    with_interference,
)
from tracebraid.simulation.interval import NORMAL, UNRECORDED, StepGains, gain_interval
from tracebraid.simulation.replay import (
    Residuals,
    job_step_times,
    rank_step_times,
    replay_error,
    replay_errors,
    replayed_times,
    step_moments,
    usual_work,
    with_residuals,
)
from tracebraid.simulation.shape_memory import memory_after
from tracebraid.simulation.unrecorded import LEVELS, Fit, costs_of, fitted_factor, recorded_work

_Ints = NDArray[np.int64]

_OVERLAP = {
    InterferenceData.MEASURED: WhatIfNote.INTERFERENCE,
    InterferenceData.NO_OVERLAP: WhatIfNote.NO_OVERLAP,
    InterferenceData.NO_COMPARISON: WhatIfNote.NO_COMPARISON,
}
"""Notes if a change alters the kernels that run beside communication."""


class _Outcome(Struct, frozen=True, eq=False):
    """Times of steps in ns: of the job, and of each row of `GRAPH_STEPS`."""

    job: _Ints
    ranks: _Ints


class _Sharing(Struct, frozen=True, eq=False):
    """What kernels and ops share, and what that costs them, as the trace shows it."""

    interference: Interference
    contention: Contention

    def adjusted(self, graph: DependencyGraph) -> DependencyGraph:
        """Adjust durations to what runs beside them."""
        return with_contention(with_interference(graph, self.interference), self.contention)

    def doubt_ns(self, graph: DependencyGraph) -> float:
        """Standard deviation of the mean step by how exactly the cost of sharing cores is known.

        Other programs may take more or less of the cores than they did.
        """
        contention, apart = self.contention, with_interference(graph, self.interference)
        alone = _outcome(apart).job
        equally = with_contention(apart, replace(contention, slowdown=EQUAL_SHARES))
        by_sharing = contention.error * abs(float((_outcome(equally).job - alone).mean()))
        by_others = OTHERS_DIFFER * contention.others * float(alone.mean())
        return float(np.hypot(by_sharing, by_others))


def predict_changes(
    graph: DependencyGraph, changes: Sequence[Change], at_peak: pl.DataFrame | None = None
) -> WhatIf:
    """Predict the effect of changes.

    The graph is replayed with the changes and without them, with the measured residuals, and for the interval (see
    `gain_interval`) with those that other steps usually have too. Kernels that come beside communication, or no
    longer are, get slower or faster by as much as the trace shows.
    """
    if not changes:
        raise ArgumentError("there is no change; give one such as scale 0.5 family=gemm")
    if graph.steps.is_empty():
        raise ArgumentError("these traces contain nothing to change: no event has a duration")
    sharing = _Sharing(interference_of(graph), contention_of(graph))
    raw, rows, notes, shapes = _all_changed(graph, changes)
    notes += _overlap_notes(raw, sharing.interference)
    after = sharing.adjusted(raw)
    before, gained = _outcome(graph), _outcome(after)
    usual = with_residuals(graph, Residuals.MODELLED)
    usual_before, usual_after = (
        _outcome(sharing.adjusted(each)) for each in (usual, _all_changed(usual, changes)[0])
    )
    usual_gain = _Outcome(usual_before.job - usual_after.job, usual_before.ranks - usual_after.ranks)
    steps = StepGains.of(before.job, gained.job, usual_gain.job, _outcome(_evened(graph, raw)).job)
    error = max(verb_named(change.verb).error for change in changes)
    doubts = {Doubt.CONTENTION: sharing.doubt_ns(raw)}
    if shapes:
        ends = [float(_outcome(_all_changed(graph, changes, end)[0]).job.mean()) for end in IntervalEnd]
        doubts[Doubt.SHAPE] = (max(ends) - min(ends)) / 2 / NORMAL
    interval = gain_interval(steps, error, doubts)
    found = WhatIf(
        _steps(graph, before, gained, usual_gain),
        rows,
        _paths(graph, after),
        float(before.job.mean()),
        float(gained.job.mean()),
        interval.low_ns,
        interval.high_ns,
        interval.doubts,
        tuple(graph.activities.get_column("rank").drop_nulls().unique().sort().to_list()),
        replay_error(replay_errors(graph, usual)),
        sharing.interference.table,
        (),
        graph.findings,
        _basis(rows, shapes),
        SHAPE_MEMORY.empty() if at_peak is None else memory_after(at_peak, list(shapes.values())),
    )
    bare, recording = _bare_steps(graph, changes, sharing, steps)
    if bare is not None:
        found = replace(found, unrecorded=_unrecorded(bare, error, doubts))
    return replace(found, notes=_notes(found, changes, [*notes, *recording]))


def changed_graph(
    graph: DependencyGraph, changes: Sequence[Change]
) -> tuple[DependencyGraph, Sequence[Reshaped]]:
    """The graph with the predicted work after changes, and what each change of shape changes."""
    sharing = _Sharing(interference_of(graph), contention_of(graph))
    raw, _, _, shapes = _all_changed(graph, changes)
    return sharing.adjusted(raw), list(shapes.values())


def _evened(graph: DependencyGraph, changed_graph: DependencyGraph) -> DependencyGraph:
    """The graph in which activities whose work is changed work as long as in other steps."""
    own = work_of(graph)
    differs = own != work_of(changed_graph)[: len(own)]
    usual = usual_work(graph, own, differs)
    edges = graph.edges
    factor = np.where(differs & (own > 0), usual / np.maximum(own, 1), 1.0)[edges.activity]
    work = np.where(is_work(graph), np.rint(edges.work_ns * factor), edges.work_ns)
    return replace(graph, edges=replace(edges, work_ns=work.astype(np.int64)))


class _Bare(Struct, frozen=True, eq=False):
    """Steps without recording.

    Args:
        steps: their times, with the median costs.
        doubt_ns: standard deviation of the gain by how exactly the costs are known.
        fit: of the costs to the unrecorded steps.
    """

    steps: StepGains
    doubt_ns: float
    fit: Fit


def _unrecorded(bare: _Bare, error: float, doubts: Mapping[Doubt, float]) -> Unrecorded:
    """The steps without recording, with the change.

    They last as long as those that were measured beside the recording, times the share of the step that the change
    leaves by the costs of events: what else recording does, such as emptying caches, slows all of a step evenly.
    """
    # Unrecorded steps are known by their median.
    was, gain_ns = float(np.median(bare.steps.before_ns)), float(np.median(bare.steps.gain_ns))
    shift = gain_ns - float(bare.steps.gain_ns.mean())
    measured_ns = bare.fit.measured_ns if bare.fit.is_sound else None
    slowed = 1.0 if measured_ns is None or was <= 0 else measured_ns / was
    interval = gain_interval(bare.steps, error, {**doubts, Doubt.RECORDING: bare.doubt_ns}, UNRECORDED)
    low_ns, high_ns = (slowed * (end + shift) for end in (interval.low_ns, interval.high_ns))
    return Unrecorded(
        slowed * was, slowed * (was - gain_ns), low_ns, high_ns, bare.fit.measured_ns, bare.fit.factor
    )


def _bare_steps(
    graph: DependencyGraph, changes: Sequence[Change], sharing: _Sharing, recorded: StepGains
) -> tuple[_Bare | None, list[WhatIfNote]]:
    """Predict the steps without recording, and note where its costs are contradicted."""
    costs = costs_of(graph)
    if not costs:
        return None, []
    work = recorded_work(graph, costs)
    fit = fitted_factor(work)
    times = {}
    for level in LEVELS:
        bare = work.removed(level, fit.factor)
        after = sharing.adjusted(_all_changed(bare, changes)[0])
        times[level] = (_outcome(bare).job, _outcome(after).job)
    before, after_ns = times["median_ns"]
    by_residuals = recorded.usual_gain_ns - recorded.gain_ns
    gains = [float((was - becomes).mean()) for was, becomes in times.values()]
    steps = StepGains.of(
        before, after_ns, before - after_ns + by_residuals, before + recorded.even_ns - recorded.before_ns
    )
    return _Bare(steps, (max(gains) - min(gains)) / 2 / NORMAL, fit), [] if fit.note is None else [fit.note]


def _overlap_notes(after: DependencyGraph, interference: Interference) -> list[WhatIfNote]:
    """Notes on kernels beside communication: none if there are no kernels."""
    kernels = after.activities.get_column("kind").cast(pl.String) == ActivityKind.KERNEL.value
    if not kernels.any():
        return []
    return [_OVERLAP[interference.data] if overlap_changes(after, interference) else WhatIfNote.SAME_OVERLAP]


def _all_changed(
    graph: DependencyGraph, changes: Sequence[Change], end: IntervalEnd | None = None
) -> tuple[DependencyGraph, pl.DataFrame, list[WhatIfNote], dict[int, Reshaped]]:
    """Apply all changes; return the graph, `WHAT_IF_CHANGES`, notes, and changes of shape by their number.

    Those of how many ranks are in groups come first, so that others apply to their collectives as well.
    """
    checked_together(changes)
    rows: list[dict[str, object]] = [{} for _ in changes]
    notes, shapes = [], {}
    for number, change in sorted(enumerate(changes), key=lambda item: _turn(item[1])):
        after, chosen, reshaped = changed(graph, change, end)
        if reshaped is not None:
            shapes[number] = reshaped
        own = np.flatnonzero(chosen)
        # A change of shape may add activities.
        there = own[own < graph.activities.height]
        rows[number] = {
            "change": text_of(change),
            "activities": len(own),
            "events": len(there) - graph.activities.get_column("event_id")[pl.Series(there)].null_count(),
            "before_ns": int(work_of(graph)[there].sum()),
            "after_ns": int(work_of(after)[own].sum()),
        }
        transfers = verb_named(change.verb).on is On.TRANSFERS
        if transfers and not communication_costs(graph, chosen).known.all():
            notes.append(WhatIfNote.LATENCY_UNKNOWN)
        if transfers and _is_alone(graph, chosen):
            notes.append(WhatIfNote.ALONE)
        graph = after
    return graph, WHAT_IF_CHANGES.conform(pl.DataFrame(rows)), notes, dict(sorted(shapes.items()))


def _turn(change: Change) -> tuple[bool, bool, str]:
    """Order of a change: how many ranks are in groups comes before what these ranks compute.

    `data-parallel` adds collectives before `tensor`, which divides what they carry.
    """
    of_ranks = verb_named(change.verb).network
    return not of_ranks, of_ranks and not divides(change), change.verb if of_ranks else ""


def _basis(rows: pl.DataFrame, shapes: Mapping[int, Reshaped]) -> pl.DataFrame:
    """`SHAPE_BASIS` of all changes of shape."""
    names = rows.get_column("change")
    parts = [each.basis.with_columns(change=pl.lit(names[number])) for number, each in shapes.items()]
    return pl.concat([SHAPE_BASIS.empty(), *parts])


def _is_alone(graph: DependencyGraph, chosen: NDArray[np.bool_]) -> bool:
    """Return whether some of the chosen communication is matched with no other rank's."""
    table = graph.activities.select(pl.col("kind").cast(pl.String), "collective").filter(pl.Series(chosen))
    members = table.filter(pl.col("kind") == ActivityKind.COMMUNICATION.value).get_column("collective")
    whole = graph.activities.filter(pl.col("kind").cast(pl.String) == ActivityKind.COLLECTIVE.value)
    matched = members.is_in(whole.get_column("collective").implode()).fill_null(value=False)
    return not matched.all()


def _outcome(graph: DependencyGraph) -> _Outcome:
    times, moments = replayed_times(graph), step_moments(graph.steps)
    return _Outcome(job_step_times(times, moments).time_ns, rank_step_times(times, moments).time_ns)


WHAT_IF_STEPS = Table(
    "what_if_steps",
    "One row per step, and per step and rank: its time before and after; the rows of the whole job first.",
    (
        Column("step", Kind.TEXT, "the step; null: the whole trace, which has no steps"),
        Column("rank", Kind.INT, "the rank; null: the whole job"),
        Column(
            "before_ns",
            Kind.INT,
            "time from the end of the step before to its own; of the first its span",
        ),
        Column("after_ns", Kind.INT, "the same with the changes"),
        Column("gain_ns", Kind.INT, "before_ns - after_ns; below 0: it takes longer"),
        Column("gain", Kind.FLOAT, "gain_ns / before_ns; null: it takes no time"),
        Column(
            "modelled_gain_ns",
            Kind.INT,
            "the gain with the usual residuals of other steps",
        ),
    ),
)


def _steps(graph: DependencyGraph, before: _Outcome, after: _Outcome, usual: _Outcome) -> pl.DataFrame:
    names = graph.steps.get_column("step").unique(maintain_order=True)
    parts = [
        pl.DataFrame(
            {
                "step": step.cast(pl.String),
                "rank": rank,
                "before_ns": was,
                "after_ns": found,
                "modelled_gain_ns": gain,
            }
        )
        for step, rank, was, found, gain in (
            (
                names,
                pl.Series([None] * len(names), dtype=pl.Int64),
                before.job,
                after.job,
                usual.job,
            ),
            (
                graph.steps.get_column("step"),
                graph.steps.get_column("rank"),
                before.ranks,
                after.ranks,
                usual.ranks,
            ),
        )
    ]
    gain = (pl.col("before_ns") - pl.col("after_ns")).alias("gain_ns")
    share = pl.when(pl.col("before_ns") > 0).then(gain / pl.col("before_ns")).alias("gain")
    return WHAT_IF_STEPS.conform(pl.concat(parts).with_columns(gain, share))


WHAT_IF_PATHS = Table(
    "what_if_paths",
    "One row per kind of segment: its time on the critical paths of all steps before and after; longest first.",
    (
        Column("kind", Kind.TEXT, "kind of the segment (`SegmentKind`)"),
        Column("before_ns", Kind.INT, "time on the critical paths before"),
        Column("after_ns", Kind.INT, "the same with the changes"),
    ),
)


def _paths(before: DependencyGraph, after: DependencyGraph) -> pl.DataFrame:
    """`WHAT_IF_PATHS`, on replayed times."""
    was = _of_path(before).rename({"duration_ns": "before_ns"})
    becomes = _of_path(after).rename({"duration_ns": "after_ns"})
    joined = was.join(becomes, on="kind", how="full", coalesce=True)
    joined = joined.with_columns(pl.col("before_ns", "after_ns").fill_null(0))
    joined = joined.sort(pl.max_horizontal("before_ns", "after_ns"), "kind", descending=[True, False])
    return WHAT_IF_PATHS.conform(joined)


def _of_path(graph: DependencyGraph) -> pl.DataFrame:
    replayed = replace(graph, moments=replace(graph.moments, time_ns=replayed_times(graph)))
    totals = find_path(replayed, PathOptions(replays=0), ReplayError()).totals
    of_kind = totals.filter(pl.col("by").cast(pl.String) == TotalsBy.KIND.value)
    return of_kind.group_by(pl.col("value").alias("kind")).agg(pl.col("duration_ns").sum())


def _notes(found: WhatIf, changes: Sequence[Change], noted: Sequence[WhatIfNote]) -> tuple[WhatIfNote, ...]:
    notes = {WhatIfNote.RESIDUALS_STAY, *noted}
    if found.gain_ns == 0:
        same = found.changes.select(pl.col("before_ns") == pl.col("after_ns")).to_series().all()
        moves = any(verb_named(change.verb).on is not On.TRANSFERS for change in changes)
        notes.add(WhatIfNote.NO_GAIN if moves or not same else WhatIfNote.NOTHING_CHANGES)
    if found.steps.get_column("step").null_count():
        notes.add(WhatIfNote.NO_STEPS)
    return tuple(note for note in WhatIfNote if note in notes)
