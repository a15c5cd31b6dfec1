"""What changes of a dependency graph would bring: it is replayed with them and without them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.graph.critical_path.find_path import PathOptions, find_path
from tracebraid.model.answers.graph.critical_path import TotalsBy
from tracebraid.model.answers.graph.what_if import WHAT_IF_CHANGES, WHAT_IF_PATHS, WHAT_IF_STEPS
from tracebraid.model.graph.change import Change, Verb
from tracebraid.model.graph.codes import ActivityKind
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.graph.replay_error import ReplayError
from tracebraid.model.graph.what_if import WhatIf, WhatIfNote
from tracebraid.simulation.changes.apply import changed
from tracebraid.simulation.changes.communication import communication_costs
from tracebraid.simulation.changes.work import work_of
from tracebraid.simulation.interference import (
    Interference,
    InterferenceData,
    interference_of,
    overlap_changes,
    with_interference,
)
from tracebraid.simulation.replay import replay
from tracebraid.simulation.reproduction import replay_error, replay_errors
from tracebraid.simulation.residual_choice import Residuals, with_residuals
from tracebraid.simulation.step_times import job_step_times, rank_step_times, step_moments

__all__ = ["what_would_be"]

_Ints = NDArray[np.int64]

_BY_SIZE = (Verb.BANDWIDTH, Verb.MERGE, Verb.RANKS)
"""Changes that need the latency of communication to know what its size costs."""
_OVERLAP = {
    InterferenceData.MEASURED: WhatIfNote.INTERFERENCE,
    InterferenceData.NO_OVERLAP: WhatIfNote.NO_OVERLAP,
    InterferenceData.NO_COMPARISON: WhatIfNote.NO_COMPARISON,
}
"""What the answer says where a change alters what runs beside communication."""
_LOW, _HIGH = 10.0, 90.0
"""Percentiles of gains over steps that the interval spans."""


@dataclass(frozen=True, eq=False)
class _Outcome:
    """Times of steps in ns: of the job, and of each row of `GRAPH_STEPS`."""

    job: _Ints
    ranks: _Ints


def what_would_be(graph: DependencyGraph, changes: Sequence[Change]) -> WhatIf:
    """What changes would bring.

    The graph is replayed with the changes and without them, with the measured residuals, and for the interval with
    those that other steps usually have. Kernels that come beside communication, or no longer are, get slower or faster
    by as much as the trace shows.

    Args:
        graph: as it was measured.
        changes: what is done, in this order.

    Raises:
        ArgumentError: there is no change, one makes no sense, selects nothing or cannot be, or the graph is empty.
    """
    if not changes:
        raise ArgumentError("there is no change; give one such as scale 0.5 family=gemm")
    if graph.steps.is_empty():
        raise ArgumentError("there is nothing in these traces that could be changed: no event has a duration")
    interference = interference_of(graph)
    after, rows, notes = _all_changed(graph, changes)
    notes += _overlap_notes(after, interference)
    after = with_interference(after, interference)
    before, gained = _outcome(graph), _outcome(after)
    usual = with_residuals(graph, Residuals.MODELLED)
    usual_before, usual_after = (
        _outcome(with_interference(each, interference)) for each in (usual, _all_changed(usual, changes)[0])
    )
    gains = [before.job - gained.job, usual_before.job - usual_after.job]
    found = WhatIf(
        _steps(graph, before, gained, _Outcome(gains[1], usual_before.ranks - usual_after.ranks)),
        rows,
        _paths(graph, after),
        float(before.job.mean()),
        float(gained.job.mean()),
        float(min(np.percentile(gain, _LOW) for gain in gains)),
        float(max(np.percentile(gain, _HIGH) for gain in gains)),
        tuple(graph.activities.get_column("rank").drop_nulls().unique().sort().to_list()),
        replay_error(replay_errors(graph)),
        interference.table,
        (),
        graph.findings,
    )
    return replace(found, notes=_notes(found, notes))


def _overlap_notes(after: DependencyGraph, interference: Interference) -> list[WhatIfNote]:
    """What is said about kernels beside communication: nothing where there are no kernels."""
    kernels = after.activities.get_column("kind").cast(pl.String) == ActivityKind.KERNEL.value
    if not kernels.any():
        return []
    return [_OVERLAP[interference.data] if overlap_changes(after, interference) else WhatIfNote.SAME_OVERLAP]


def _all_changed(
    graph: DependencyGraph, changes: Sequence[Change]
) -> tuple[DependencyGraph, pl.DataFrame, list[WhatIfNote]]:
    """The graph with all changes, `WHAT_IF_CHANGES`, and what they rest on."""
    rows, notes = [], []
    for change in changes:
        after, chosen = changed(graph, change)
        own = np.flatnonzero(chosen)
        rows.append(
            {
                "change": change.text,
                "activities": len(own),
                "events": len(own) - graph.activities.get_column("event_id")[pl.Series(own)].null_count(),
                "before_ns": int(work_of(graph)[own].sum()),
                "after_ns": int(work_of(after)[own].sum()),
            }
        )
        if change.verb in _BY_SIZE and not communication_costs(graph, chosen).known.all():
            notes.append(WhatIfNote.LATENCY_UNKNOWN)
        if change.verb in (*_BY_SIZE, Verb.LATENCY) and _is_alone(graph, chosen):
            notes.append(WhatIfNote.ALONE)
        graph = after
    return graph, WHAT_IF_CHANGES.conform(pl.DataFrame(rows)), notes


def _is_alone(graph: DependencyGraph, chosen: NDArray[np.bool_]) -> bool:
    """Whether some of the chosen communication is matched with no other rank's."""
    table = graph.activities.select(pl.col("kind").cast(pl.String), "collective").filter(pl.Series(chosen))
    members = table.filter(pl.col("kind") == ActivityKind.COMMUNICATION.value).get_column("collective")
    whole = graph.activities.filter(pl.col("kind").cast(pl.String) == ActivityKind.COLLECTIVE.value)
    matched = members.is_in(whole.get_column("collective").implode()).fill_null(value=False)
    return not matched.all()


def _times(graph: DependencyGraph) -> _Ints:
    edges = graph.edges
    return replay(edges.first, edges.before, edges.work_ns, graph.moments.residual_ns)


def _outcome(graph: DependencyGraph) -> _Outcome:
    times, moments = _times(graph), step_moments(graph.steps)
    return _Outcome(job_step_times(times, moments).time_ns, rank_step_times(times, moments).time_ns)


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


def _paths(before: DependencyGraph, after: DependencyGraph) -> pl.DataFrame:
    """`WHAT_IF_PATHS`, on replayed times."""
    was = _of_path(before).rename({"duration_ns": "before_ns"})
    becomes = _of_path(after).rename({"duration_ns": "after_ns"})
    joined = was.join(becomes, on="kind", how="full", coalesce=True)
    joined = joined.with_columns(pl.col("before_ns", "after_ns").fill_null(0))
    joined = joined.sort(pl.max_horizontal("before_ns", "after_ns"), "kind", descending=[True, False])
    return WHAT_IF_PATHS.conform(joined)


def _of_path(graph: DependencyGraph) -> pl.DataFrame:
    replayed = replace(graph, moments=replace(graph.moments, time_ns=_times(graph)))
    totals = find_path(replayed, PathOptions(replays=0), ReplayError()).totals
    of_kind = totals.filter(pl.col("by").cast(pl.String) == TotalsBy.KIND.value)
    return of_kind.group_by(pl.col("value").alias("kind")).agg(pl.col("duration_ns").sum())


def _notes(found: WhatIf, noted: Sequence[WhatIfNote]) -> tuple[WhatIfNote, ...]:
    notes = {WhatIfNote.RESIDUALS_STAY, *noted}
    if found.gain_ns == 0:
        notes.add(WhatIfNote.NO_GAIN)
    if found.steps.get_column("step").null_count():
        notes.add(WhatIfNote.NO_STEPS)
    return tuple(note for note in WhatIfNote if note in notes)
