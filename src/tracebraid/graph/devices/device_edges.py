"""Work on devices: each takes its duration; what overlaps on a stream waits for the start and the end of the first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.graph.devices.device_works import DeviceWorks
from tracebraid.model.graph.codes import EdgeKind, Point
from tracebraid.model.graph.rank_graph import EdgeList, moment

__all__ = ["device_edges"]

_Ints = NDArray[np.int64]


def device_edges(works: DeviceWorks, others: EdgeList, times_ns: _Ints) -> EdgeList:
    """From the start of each work of a device to its end, and between works that overlap on a stream.

    A programmatic launch starts a kernel before the one before it has ended, when that allows it: from start to start,
    with a lag that belongs to the first. It goes on when the first has ended: from end to end, with what is left of
    it as work, which is all the work that it has of its own then. Works of one launch of a graph overlap because
    they are branches: neither waits for the other. What is a wait for another stream has no work of its own.

    Args:
        works: of one rank.
        others: all other edges of the rank.
        times_ns: of each moment.
    """
    before, after = _overlapping(works)
    own_ns = works.end_ns - works.start_ns
    ends_later = works.end_ns[after] >= works.end_ns[before]
    first, second = before[ends_later], after[ends_later]
    rest_ns = works.end_ns[second] - works.end_ns[first]
    own_ns[second] = np.minimum(own_ns[second], rest_ns)
    own_ns[_waits(others) - works.first] = 0
    work = works.first + np.arange(len(works))
    start, end = moment(work, Point.START), moment(work, Point.END)
    lag_ns = works.start_ns[after] - works.start_ns[before]
    # The lag is what it waited for only if its launch had come by the time that the first work began.
    called = np.where(works.call[after] >= 0, times_ns[2 * works.call[after]], works.start_ns[before])
    lag_ns = np.where(called <= works.start_ns[before], lag_ns, 0)
    return EdgeList.joined(
        [
            EdgeList.of(start, end, EdgeKind.DEVICE, work, own_ns),
            EdgeList.of(start[before], start[after], EdgeKind.STREAM_OVERLAP, work[before], lag_ns),
            EdgeList.of(end[first], end[second], EdgeKind.STREAM_END, work[second], rest_ns),
        ]
    )


def _waits(others: EdgeList) -> _Ints:
    """Device work whose end waits for other work: it is nothing but that wait."""
    waits = (others.kind == EdgeKind.EVENT_WAIT) & (others.after % 2 == Point.END)
    work: _Ints = others.after[waits] // 2
    return work


def _overlapping(works: DeviceWorks) -> tuple[_Ints, _Ints]:
    """Pairs of works of different launches, of which one starts on a stream while the one before it runs."""
    order = np.lexsort((np.arange(len(works)), works.start_ns, works.lane))
    before, after = order[:-1], order[1:]
    overlap = (works.lane[before] == works.lane[after]) & (works.start_ns[after] < works.end_ns[before])
    together = (works.call[before] == works.call[after]) & (works.call[after] >= 0)
    pairs = overlap & ~together
    return before[pairs], after[pairs]
