"""Communication as tasks: in the order in which a rank issues it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.exporters.chakra.nodes.tasks import TaskKind, Tasks, Waits
from tracebraid.model.graph.rank_graph import RankGraph

__all__ = ["Communication", "Issued", "communication_rows", "issued"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Communication:
    """The rows of communication that a rank's graph has.

    Args:
        row: rows of `CHAKRA_COMMUNICATION`, in the order in which they are issued.
        activity: the activity of each.
    """

    row: _Ints
    activity: _Ints


@dataclass(frozen=True, eq=False)
class Issued:
    """Communication that is issued in order.

    Args:
        tasks: the communication.
        waits: what keeps its order.
        times_ns: of the points at which it is issued.
        unordered: rows that could not wait for the one before them: these began after they had ended.
    """

    tasks: Tasks
    waits: Waits
    times_ns: _Ints
    unordered: int


def communication_rows(graph: RankGraph, communication: pl.DataFrame) -> Communication:
    """The communication that is in the graph.

    Args:
        graph: of one rank.
        communication: `CHAKRA_COMMUNICATION`.
    """
    events = graph.activities.select("event_id").with_row_index("activity").drop_nulls()
    found = (
        communication.select("event_id", "order")
        .with_row_index("row")
        .join(events, on="event_id", how="inner")
        .sort("order", "row")
        .select(pl.col("row").cast(pl.Int64), pl.col("activity").cast(pl.Int64))
    )
    return Communication(found.get_column("row").to_numpy(), found.get_column("activity").to_numpy())


def issued(rows: Communication, spans: tuple[_Ints, _Ints], times_ns: _Ints, lane: _Ints) -> Issued:
    """Each row from the point at which it is issued to its end: not before the row ahead of it is.

    A simulator that does one communication of a rank at a time begins those first that are ready first, and of several
    that are ready the one with the lowest number: so ranks begin in one order, and never wait for each other in a
    circle. None waits for the end of the one ahead of it for that: they may run at once.

    Args:
        rows: in the order in which they are issued.
        spans: the points at which each could begin, and at which it ends.
        times_ns: of each point.
        lane: of each row.
    """
    start, end = spans
    at_ns, unordered = _issue_times(times_ns[start], times_ns[end])
    point = len(times_ns) + np.arange(len(start))
    follows = np.flatnonzero(at_ns[1:] >= at_ns[:-1]) + 1
    waits = Waits(np.r_[start, point[follows - 1]], np.r_[point, point[follows]])
    tasks = Tasks.of((point, end), TaskKind.COMMUNICATION, rows.activity, rows.row, lane)
    return Issued(tasks, waits, at_ns, unordered)


def _issue_times(starts_ns: _Ints, ends_ns: _Ints) -> tuple[_Ints, int]:
    """When each is issued: when it and all ahead of it had begun; those that had ended by then at their own start."""
    latest = np.iinfo(np.int64).min
    found, unordered = starts_ns.copy(), 0
    for index, (start_ns, end_ns) in enumerate(zip(starts_ns.tolist(), ends_ns.tolist(), strict=True)):
        if latest > end_ns:
            unordered += 1
            continue
        latest = max(latest, start_ns)
        found[index] = latest
    return found, unordered
