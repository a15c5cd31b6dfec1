"""A rank's graph as work between points in time: threads, devices and communication."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.exporters.chakra.nodes.communication_tasks import Communication, communication_rows, issued
from tracebraid.exporters.chakra.nodes.device_tasks import device_tasks, stream_lanes
from tracebraid.exporters.chakra.nodes.handed_on import HandedOn, handed_on
from tracebraid.exporters.chakra.nodes.host_owners import host_owners
from tracebraid.exporters.chakra.nodes.host_tasks import Line, host_tasks, line_of
from tracebraid.exporters.chakra.nodes.step_marks import step_marks
from tracebraid.exporters.chakra.nodes.tasks import NONE, Tasks, Waits
from tracebraid.exporters.chakra.nodes.threads import threads_of
from tracebraid.model.chakra.codes import Detail, NodeType
from tracebraid.model.graph.codes import Point
from tracebraid.model.graph.rank_graph import RankGraph, moment

__all__ = ["Network", "network_of"]

_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Network:
    """Work between points in time.

    Args:
        times_ns: of each point.
        tasks: the work.
        waits: points that wait for others.
        activity: the activity of each point: what is delayed there is of it.
        lane: its lane.
        unordered: rows of communication that could not wait until the one ahead of them was issued.
    """

    times_ns: _Ints
    tasks: Tasks
    waits: Waits
    activity: _Ints
    lane: _Ints
    unordered: int


def network_of(graph: RankGraph, communication: pl.DataFrame, detail: Detail) -> Network:
    """The work of a rank, and which of its points wait for others.

    Args:
        graph: of one rank.
        communication: `CHAKRA_COMMUNICATION`.
        detail: `full` tells apart what a thread does between two moments at which it meets something else.
    """
    named = communication_rows(graph, communication)
    threads = threads_of(graph, np.unique(named.activity))
    borders_ns = np.unique(step_marks(graph).select("start_ns", "end_ns").to_numpy().reshape(-1))
    handed = handed_on(graph, threads, borders_ns)
    line, owners = line_of(threads, handed.cuts), host_owners(graph)
    lane = stream_lanes(graph, len(threads.first) - 1)
    times_ns = np.r_[graph.times_ns, handed.cuts.times_ns]
    works = device_tasks(graph, handed.after, lane, len(times_ns))
    times_ns = np.r_[times_ns, works.times_ns]
    rows = _in_graph(named, line, works.tasks)
    is_cut = _cuts(line, handed, rows, borders_ns)
    if detail is Detail.FULL:
        is_cut |= line.changes(owners) & ~line.communicates
    sends = (communication.get_column("type") == NodeType.COMM_SEND_NODE.name).to_numpy()[rows.row]
    begins, taken, held = _begins(line, rows, is_cut, sends)
    host = host_tasks(line, is_cut, taken, owners)
    lane_of_point = np.r_[
        np.repeat(lane, 2), threads.thread[handed.cuts.position], lane[works.waiting], lane[rows.activity]
    ]
    lane_of_point[line.point] = line.thread
    communicates = issued(rows, (begins, moment(rows.activity, Point.END)), times_ns, lane_of_point[begins])
    computes = works.tasks[~np.isin(works.tasks.activity, rows.activity)]
    moments = np.arange(len(graph.times_ns)) // 2
    return Network(
        np.r_[times_ns, communicates.times_ns],
        Tasks.joined([host.tasks, computes, communicates.tasks]),
        Waits.joined([Waits(handed.before, handed.after), held, host.waits, works.waits, communicates.waits]),
        np.r_[moments, threads.owner[handed.cuts.position], works.waiting, rows.activity],
        lane_of_point,
        communicates.unordered,
    )


def _in_graph(rows: Communication, line: Line, works: Tasks) -> Communication:
    """The rows of events that threads or devices do here, from their start to their end."""
    start, end = (line.rows(moment(rows.activity, point)) for point in (Point.START, Point.END))
    on_thread = (start != NONE) & (end != NONE)
    there = on_thread | np.isin(rows.activity, works.activity)
    return Communication(rows.row[there], rows.activity[there])


def _cuts(line: Line, handed: HandedOn, rows: Communication, borders_ns: _Ints) -> _Flags:
    """Where a thread meets something else, begins or ends a wait, a step or communication."""
    found = line.ends()
    for points in (
        handed.before,
        handed.after,
        moment(rows.activity, Point.START),
        moment(rows.activity, Point.END),
    ):
        at = line.rows(points)
        found[at[at != NONE]] = True
    found |= np.isin(line.times_ns, borders_ns)
    return found


def _begins(line: Line, rows: Communication, is_cut: _Flags, sends: _Flags) -> tuple[_Ints, _Flags, Waits]:
    """The point from which each row lasts up to its end, the rows of the line that are such ends, and what those await.

    On a thread that is the last cut in it: what something else waits for inside of it is time of the thread. A send
    begins when the thread begins it, for its receiver may let the thread go on: what the thread does meanwhile ends
    before it.
    """
    end = line.rows(moment(rows.activity, Point.END))
    on_thread = end != NONE
    cuts = np.flatnonzero(is_cut)
    taken = np.zeros(len(line), dtype=np.bool_)
    taken[end[on_thread]] = True
    begins = moment(rows.activity, Point.START)
    last = line.point[cuts[np.searchsorted(cuts, end[on_thread]) - 1]]
    is_under_way = sends[on_thread] & (last != begins[on_thread])
    held = Waits(last[is_under_way], moment(rows.activity[on_thread], Point.END)[is_under_way])
    begins[on_thread] = np.where(is_under_way, begins[on_thread], last)
    return begins, taken, held
