"""The nodes of a rank for simulators that compute one thing of a rank at a time."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.exporters.chakra.merged.awaited import awaited
from tracebraid.exporters.chakra.merged.issued import Issued, issued
from tracebraid.exporters.chakra.merged.lane import Cuts, Lane, lane_of
from tracebraid.exporters.chakra.merged.nodes import Ordered, ordered
from tracebraid.exporters.chakra.merged.steps import steps_of
from tracebraid.exporters.chakra.merged.waits import waits_of
from tracebraid.exporters.chakra.merged.work import work_of
from tracebraid.exporters.chakra.nodes.communication_tasks import Communication, communication_rows
from tracebraid.exporters.chakra.nodes.node_columns import node_columns
from tracebraid.exporters.chakra.nodes.step_marks import step_marks
from tracebraid.exporters.chakra.nodes.tasks import NONE, TaskKind, Tasks
from tracebraid.exporters.chakra.reduction import reduced
from tracebraid.exporters.chakra.rounding import rounded_micros
from tracebraid.exporters.chakra.schema_version import SCHEMA_VERSION
from tracebraid.model.chakra.chakra_rank import AttributeValue, ChakraRank, NodeDeps
from tracebraid.model.chakra.codes import Detail
from tracebraid.model.graph.codes import Point
from tracebraid.model.graph.rank_graph import RankGraph, moment

__all__ = ["rank_as_lane"]

_Ints = NDArray[np.int64]


def rank_as_lane(graph: RankGraph, communication: pl.DataFrame, begins_ns: int | None = None) -> ChakraRank:
    """The nodes of a rank that computes one thing at a time.

    Work of all streams, or of all threads where no device computes, becomes one sequence by its measured starts. Each
    has the part of its time that no work before it covers, so that the sequence is as long as the time in which the
    rank computed; time in which it did not is a delay, but for that in which it waited for communication.

    Args:
        graph: of one rank.
        communication: `CHAKRA_COMMUNICATION` of the same rank; events that it does not name are computation.
        begins_ns: when the simulation begins, on the rank's own clock, if that is before its first moment.

    Raises:
        MissingLibraryError: numba is not installed.
    """
    rows = _in_graph(communication_rows(graph, communication), graph)
    events, event = np.unique(rows.activity, return_inverse=True)
    over_ns = graph.times_ns[moment(events, Point.END)]
    transfer_ns = communication.get_column("transfer_ns").to_numpy()[rows.row]
    waited, sent = awaited(graph, events), issued(graph, rows.activity, transfer_ns)
    used = _used(graph)
    first_ns = int(graph.times_ns[used].min()) if len(used) else 0
    begins_ns = first_ns if begins_ns is None else min(begins_ns, first_ns)
    cuts = _cuts(graph, sent, used, begins_ns)
    lane = lane_of(work_of(graph, events), cuts, waited.last, over_ns, begins_ns)
    nodes = ordered(lane, sent, waits_of(lane, waited, over_ns, event))
    kept = reduced(nodes.before, nodes.after, (nodes.issued != NONE).astype(np.int64))
    deps = NodeDeps.of_pairs(kept.before, kept.after, np.arange(len(nodes.entry)))
    found = node_columns(graph, *_tasks(graph, rows, lane, nodes), communication, Detail.MERGED)
    found = _as_lane(found, lane, sent, nodes).with_columns(
        steps_of(graph, lane, nodes, found.get_column("step"))
    )
    return ChakraRank(
        graph.rank,
        SCHEMA_VERSION,
        _counts(lane, nodes),
        found,
        deps,
        NodeDeps.none(len(nodes.entry)),
        graph.findings,
    )


def _in_graph(rows: Communication, graph: RankGraph) -> Communication:
    """The rows of what happens here: of a part of a trace, other communication is there for what waits for it."""
    here = np.isin(moment(rows.activity, Point.END), graph.edges.after)
    return Communication(rows.row[here], rows.activity[here])


def _used(graph: RankGraph) -> _Ints:
    """The moments that wait or are waited for, by their times."""
    used = np.unique(np.r_[graph.edges.before, graph.edges.after])
    by_time: _Ints = used[np.argsort(graph.times_ns[used], kind="stable")]
    return by_time


def _cuts(graph: RankGraph, sent: Issued, used: _Ints, begins_ns: int) -> Cuts:
    """Where communication is issued, where steps begin and end, and the last moment of all."""
    marks = step_marks(graph).get_column("activity").to_numpy()
    moments = np.r_[moment(marks, Point.START), moment(marks, Point.END)]
    moments = np.r_[moments[np.isin(moments, used)], used[-1:]]
    cuts = Cuts(np.r_[sent.at_ns, graph.times_ns[moments]], np.r_[sent.moment, moments])
    inside = cuts.time_ns > begins_ns
    return Cuts(cuts.time_ns[inside], cuts.moment[inside])


def _tasks(
    graph: RankGraph, rows: Communication, lane: Lane, nodes: Ordered
) -> tuple[Tasks, tuple[_Ints, _Ints]]:
    """The nodes as tasks, and when each starts and ends."""
    entry, sent = np.maximum(nodes.entry, 0), np.maximum(nodes.issued, 0)
    none = np.full(1, NONE, dtype=np.int64)
    is_sent = nodes.issued != NONE
    activity, row = (np.r_[part, none][sent] for part in (rows.activity, rows.row))
    own = np.r_[lane.activity, none][entry]
    of_delay = np.r_[lane.moment, none][entry] // 2
    kind = np.where(own == NONE, int(TaskKind.DEVICE_DELAY), int(TaskKind.DEVICE))
    kind = np.where(is_sent, int(TaskKind.COMMUNICATION), kind)
    owner = np.where(is_sent, activity, np.where(own == NONE, of_delay, own))
    spans = (
        np.where(is_sent, graph.times_ns[2 * owner], np.r_[lane.start_ns, none][entry]),
        np.where(is_sent, graph.times_ns[2 * owner + 1], np.r_[lane.end_ns, none][entry]),
    )
    nothing = np.zeros(len(owner), dtype=np.int64)
    row = np.where(is_sent, row, NONE)
    return Tasks(nothing, nothing, kind, owner, row, is_sent.astype(np.int64)), spans


def _as_lane(found: pl.DataFrame, lane: Lane, sent: Issued, nodes: Ordered) -> pl.DataFrame:
    """With durations in us, and what was cut or covered; without streams."""
    is_sent = nodes.issued != NONE
    of_lane, of_sent = nodes.entry, nodes.issued
    own_ns = np.r_[lane.end_ns - lane.start_ns, NONE][of_lane]
    duration_ns = np.where(is_sent, np.r_[sent.duration_ns, NONE][of_sent], own_ns)
    is_delay = np.r_[lane.activity, NONE][of_lane] == NONE
    kind = np.where(is_sent, 2, is_delay.astype(np.int64))
    parts = np.bincount(lane.activity[lane.activity != NONE], minlength=1)
    several = (lane.activity != NONE) & (parts[np.maximum(lane.activity, 0)] > 1)
    noted = {
        "part": np.r_[np.where(several, lane.part, NONE), NONE][of_lane],
        "covered_ns": np.where(
            is_sent, np.r_[sent.covered_ns, NONE][of_sent], np.r_[lane.covered_ns, NONE][of_lane]
        ),
        "lead_ns": np.r_[sent.lead_ns, NONE][of_sent],
    }
    for name in ("covered_ns", "lead_ns"):
        noted[name] = np.where(noted[name] > 0, noted[name], NONE)
    return found.with_columns(
        pl.Series("duration_ns", duration_ns),
        pl.Series("duration_micros", rounded_micros(duration_ns, kind)),
        pl.Series("attributes", _as_json(noted), dtype=found.schema["attributes"]),
        stream=pl.lit(None, dtype=found.schema["stream"]),
        thread=pl.lit(None, dtype=found.schema["thread"]),
    )


def _as_json(noted: dict[str, _Ints]) -> list[str | None]:
    """The entries that are not -1, as an object for each row that has one."""
    found: list[str | None] = [None] * len(noted["part"])
    for row in np.flatnonzero(np.any([each != NONE for each in noted.values()], axis=0)).tolist():
        found[row] = json.dumps({name: int(each[row]) for name, each in noted.items() if each[row] != NONE})
    return found


def _counts(lane: Lane, nodes: Ordered) -> tuple[tuple[str, AttributeValue], ...]:
    """What of the rank's time became what."""
    is_work = lane.activity != NONE
    return (
        ("merged_parts", int(np.count_nonzero(lane.part > 0))),
        ("merged_covered_nodes", int(np.count_nonzero(lane.covered_ns > 0))),
        ("merged_covered_ns", int(lane.covered_ns.sum())),
        ("merged_delays", int(np.count_nonzero(~is_work))),
        ("merged_waits_left_out", nodes.contradicted),
    )
