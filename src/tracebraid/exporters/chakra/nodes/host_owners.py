"""To which op, Python function or thread the time of a thread belongs, when it becomes nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.model.expressions import as_text
from tracebraid.model.graph.codes import ActivityKind
from tracebraid.model.graph.rank_graph import RankGraph

__all__ = ["host_owners"]

_Ints = NDArray[np.int64]


def host_owners(graph: RankGraph) -> _Ints:
    """Of each activity the one whose node its time on the host is part of.

    That of a call in an op is the op's; annotations are no work of their own: between ops it is the thread's.

    Args:
        graph: of one rank.
    """
    rows = graph.activities.select("event_id", "op_event", "lane", as_text("kind"), "stream")
    own = np.arange(rows.height)
    event, op = (rows.get_column(name).fill_null(-1).to_numpy() for name in ("event_id", "op_event"))
    of_event = np.full(max(int(event.max(initial=-1)), int(op.max(initial=-1))) + 1, -1, dtype=np.int64)
    of_event[event[event >= 0]] = own[event >= 0]
    of_op = np.where(op >= 0, of_event[op], -1) if len(of_event) else own
    kind = rows.get_column("kind")
    is_thread = (kind == ActivityKind.THREAD.value).fill_null(value=False).to_numpy()
    lane = rows.get_column("lane").fill_null(0).to_numpy()
    thread_of = np.full(int(lane.max(initial=0)) + 1, -1, dtype=np.int64)
    thread_of[lane[is_thread]] = own[is_thread]
    gap = (kind == ActivityKind.ANNOTATION.value).fill_null(value=False).to_numpy() & (thread_of[lane] >= 0)
    communicates = (kind == ActivityKind.COMMUNICATION.value).fill_null(value=False).to_numpy()
    found: _Ints = np.where(gap, thread_of[lane], own)
    return np.where((of_op >= 0) & ~communicates, of_op, found)
