"""The arrows of a rank: launches, forward to backward, and its part in collectives of several ranks."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.exporters.perfetto.content import Flow, FlowKind
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.wire_format import Ints

__all__ = ["rank_flows"]

_RANK_BITS = 32
"""A rank numbers its own arrows in this many bits, its place among the processes stands above them."""
_COLLECTIVE = 1 << 62
"""Is added to the number of a collective, so that it is no rank's own arrow."""


def rank_flows(
    linked: LinkedTrace, process: int, row_of_event: Ints, collectives: pl.DataFrame
) -> list[Flow]:
    """The flows of a rank whose ends are all there.

    Args:
        linked: the rank.
        process: its place among all processes.
        row_of_event: the slice of each event; -1: there is none.
        collectives: `event_id` of each of the rank's parts in collectives that are joined, the `collective`, and
            whether it `is_first` and `is_last` of its parts.
    """
    launches = linked.launches.filter(pl.col("call_event").is_not_null())
    after = process << _RANK_BITS
    launched = _pairs(FlowKind.LAUNCH, launches.select("call_event", "event_id"), row_of_event, after)
    backward = linked.forward_backward.select("forward_event", "backward_event")
    after += 0 if launched is None else len(launched.rows) // 2
    flows = [
        launched,
        _pairs(FlowKind.FORWARD_BACKWARD, backward, row_of_event, after),
        _members(collectives, row_of_event),
    ]
    return [flow for flow in flows if flow is not None]


def _pairs(kind: FlowKind, pairs: pl.DataFrame, row_of_event: Ints, after: int) -> Flow | None:
    """A flow from the event in the first column to that in the second one, of each row whose events are both there."""
    if pairs.is_empty():
        return None
    start, end = (row_of_event[column.to_numpy()] for column in pairs.get_columns())
    there = (start >= 0) & (end >= 0)
    start, end = start[there], end[there]
    if not len(start):
        return None
    numbers = after + 1 + np.arange(len(start))
    return _sorted(
        Flow(
            kind,
            np.concatenate([start, end]),
            np.concatenate([numbers, numbers]),
            np.repeat([True, False], len(start)),
            np.repeat([False, True], len(start)),
        )
    )


def _members(collectives: pl.DataFrame, row_of_event: Ints) -> Flow | None:
    if collectives.is_empty():
        return None
    rows = row_of_event[collectives.get_column("event_id").to_numpy()]
    there = rows >= 0
    first, last = (collectives.get_column(name).to_numpy()[there] for name in ("is_first", "is_last"))
    numbers = _COLLECTIVE + collectives.get_column("collective").to_numpy()[there]
    return _sorted(Flow(FlowKind.COLLECTIVE, rows[there], numbers, first, last))


def _sorted(flow: Flow) -> Flow:
    order = np.lexsort((flow.numbers, flow.rows))
    return Flow(flow.kind, flow.rows[order], flow.numbers[order], flow.is_first[order], flow.is_last[order])
