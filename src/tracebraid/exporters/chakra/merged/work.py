"""What a rank computes, by the start of each: work of its devices; of a rank without devices that of its threads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.exporters.chakra.nodes.host_owners import host_owners
from tracebraid.exporters.chakra.nodes.tasks import NONE
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.codes import ActivityKind, EdgeKind, Point
from tracebraid.model.graph.rank_graph import RankGraph

__all__ = ["Work", "work_of"]

_Ints = NDArray[np.int64]

_OF_DEVICES = (ActivityKind.KERNEL.value, ActivityKind.COPY.value, ActivityKind.COMMUNICATION.value)
_NOT_OF_THREADS = (ActivityKind.THREAD.value, ActivityKind.COMMUNICATION.value)
"""Time of a thread outside of every event may be a wait that nothing shows: where nothing else runs, it is a delay."""


@dataclass(frozen=True, eq=False)
class Work:
    """Intervals of work, by their starts; each array has an entry for each.

    Args:
        activity: what does it: row of `ACTIVITIES`.
        start_ns: when it starts, on the rank's own clock.
        end_ns: when it ends.
        measured_ns: how long it was in the trace, which may be longer: of a wait for another stream.
        moment: the moment whose time is `start_ns`: what the work waited for is what that waited for.
    """

    activity: _Ints
    start_ns: _Ints
    end_ns: _Ints
    measured_ns: _Ints
    moment: _Ints

    def __len__(self) -> int:
        return len(self.activity)


def work_of(graph: RankGraph, communicates: _Ints) -> Work:
    """The work of a rank that is no communication.

    Args:
        graph: of one rank.
        communicates: the activities that become communication nodes.
    """
    kinds = graph.activities.select(
        as_text("kind").is_in(_OF_DEVICES).fill_null(value=False).alias("works"),
        pl.col("stream").is_not_null().alias("device"),
    )
    works, device = (kinds.get_column(name).to_numpy() for name in kinds.columns)
    edges = graph.edges
    # Of a part of a trace, other work is there for what waits for it.
    chosen = np.zeros(len(works), dtype=np.bool_)
    chosen[edges.activity[edges.kind == EdgeKind.DEVICE]] = True
    # Communication on a device of which no node is known takes its time on the lane.
    chosen &= device & works
    chosen[communicates] = False
    return _of_devices(graph, np.flatnonzero(chosen)) if chosen.any() else _of_threads(graph)


def _of_devices(graph: RankGraph, activity: _Ints) -> Work:
    start, end = graph.times_ns[2 * activity], graph.times_ns[2 * activity + 1]
    measured_ns, edges = end - start, graph.edges
    waits = (edges.kind == EdgeKind.EVENT_WAIT) & (edges.after % 2 == Point.END)
    # Work whose end waits for another stream is nothing but that wait.
    start = np.where(np.isin(activity, edges.after[waits] // 2), end, start)
    order = np.lexsort((activity, start))
    activity = activity[order]
    return Work(activity, start[order], end[order], measured_ns[order], 2 * activity)


def _of_threads(graph: RankGraph) -> Work:
    """The time of each thread in which an event of it does something, by op: up to a wait, or to the next op."""
    edges = graph.edges
    idle = graph.activities.select(as_text("kind").is_in(_NOT_OF_THREADS)).to_series().to_numpy()
    own = np.flatnonzero((edges.kind == EdgeKind.HOST) & (edges.work_ns > 0) & ~idle[edges.activity])
    lane = graph.activities.get_column("lane").fill_null(NONE).to_numpy()[edges.activity[own]]
    owner = host_owners(graph)[edges.activity[own]]
    end = graph.times_ns[edges.after[own]]
    start = end - edges.work_ns[own]
    order = np.lexsort((start, lane))
    own, lane, owner, start, end = own[order], lane[order], owner[order], start[order], end[order]
    goes_on = (lane[1:] == lane[:-1]) & (owner[1:] == owner[:-1]) & (start[1:] == end[:-1])
    first = np.flatnonzero(np.r_[True, ~goes_on][: len(own)])
    last = np.r_[first[1:] - 1, len(own) - 1][: len(first)]
    by_start = np.lexsort((first, start[first]))
    first, last = first[by_start], last[by_start]
    start, end = start[first], end[last]
    moment = edges.before[own[first]].astype(np.int64)
    return Work(owner[first], start, end, end - start, moment)
