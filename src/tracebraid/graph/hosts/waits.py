"""Time of a thread in which it waited for another thread or a device is none of its work."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tracebraid.model.graph.codes import EdgeKind
from tracebraid.model.graph.rank_graph import EdgeList

__all__ = ["WAITS", "without_waiting"]

WAITS = (EdgeKind.SYNC, EdgeKind.THREAD, EdgeKind.COMMUNICATION_WAIT, EdgeKind.QUEUE)
"""Edges whose moment a thread waits for."""


def without_waiting(of_threads: EdgeList, others: EdgeList, times_ns: NDArray[np.int64]) -> EdgeList:
    """The edges of threads, of which those that end with a wait have no work.

    A thread waited if what it waits for came after its own moment before.
    """
    waits = others[np.isin(others.kind, WAITS)]
    until = np.full(len(times_ns), np.iinfo(np.int64).min, dtype=np.int64)
    np.maximum.at(until, waits.after, times_ns[waits.before])
    waited = until[of_threads.after] > times_ns[of_threads.before]
    return replace(of_threads, work_ns=np.where(waited, 0, of_threads.work_ns))
