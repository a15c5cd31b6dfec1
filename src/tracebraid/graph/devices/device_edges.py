"""Work on devices: each takes its duration, from its start to its end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.graph.activities import RankActivities
from tracebraid.model.graph.codes import EdgeKind, Point
from tracebraid.model.graph.rank_graph import EdgeList, moment

__all__ = ["device_edges"]


def device_edges(activities: RankActivities, times_ns: NDArray[np.int64]) -> EdgeList:
    """From the start of each work of a device to its end."""
    work = activities.first_device + np.arange(len(activities.device_events))
    start, end = moment(work, Point.START), moment(work, Point.END)
    return EdgeList.of(start, end, EdgeKind.DEVICE, work, times_ns[end] - times_ns[start])
