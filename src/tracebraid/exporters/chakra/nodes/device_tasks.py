"""Work of devices as tasks, and what their ends wait for beside them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.exporters.chakra.nodes.tasks import NONE, TaskKind, Tasks, Waits
from tracebraid.model.graph.codes import EdgeKind, Point
from tracebraid.model.graph.rank_graph import RankGraph, moment

__all__ = ["DeviceTasks", "device_tasks", "stream_lanes"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DeviceTasks:
    """What devices do.

    Args:
        tasks: their work.
        waits: from work that is nothing but a wait to its end.
        waiting: the activities that are nothing but waits.
        times_ns: of a new point for each of these.
    """

    tasks: Tasks
    waits: Waits
    waiting: _Ints
    times_ns: _Ints


def device_tasks(graph: RankGraph, waited: _Ints, lane: _Ints, first: int) -> DeviceTasks:
    """All work that devices do, each from its start to its end.

    What is nothing but a wait for other work takes no time of its own: its end waits for the other work.

    Args:
        graph: of one rank.
        waited: moments that wait for other work or threads.
        lane: of each activity the part of its stream, see `stream_lanes`.
        first: the number of the first new point.
    """
    work = np.unique(graph.edges.activity[graph.edges.kind == EdgeKind.DEVICE]).astype(np.int64)
    start, end = moment(work, Point.START), moment(work, Point.END)
    waits = np.isin(end, waited)
    fresh = first + np.arange(np.count_nonzero(waits))
    until = end.copy()
    until[waits] = fresh
    return DeviceTasks(
        Tasks.of((start, until), TaskKind.DEVICE, work, lane=lane[work]),
        Waits(fresh, end[waits]),
        work[waits],
        graph.times_ns[start[waits]],
    )


def stream_lanes(graph: RankGraph, first: int) -> _Ints:
    """Of each activity the part of its stream in which each work waits for the end of the one before it; -1: none.

    Args:
        graph: of one rank.
        first: the number of the first.
    """
    edges = graph.edges[graph.edges.kind == EdgeKind.STREAM_ORDER]
    pairs = pl.DataFrame(
        {"before": edges.before // 2, "after": edges.after // 2, "at_ns": graph.times_ns[edges.after]}
    ).sort("at_ns", maintain_order=True)
    pairs = pairs.unique("before", keep="first", maintain_order=True)
    pairs = pairs.unique("after", keep="last", maintain_order=True)
    before, after = (pairs.get_column(name).to_numpy() for name in ("before", "after"))
    works = np.flatnonzero(graph.activities.get_column("stream").is_not_null().to_numpy())
    lane = np.full(graph.activities.height, NONE, dtype=np.int64)
    roots = works[~np.isin(works, after)]
    lane[roots] = first + np.arange(len(roots))
    # By the time at which they start: each behind the work before it.
    for work, earlier in zip(after.tolist(), before.tolist(), strict=True):
        lane[work] = lane[earlier]
    return lane
