"""Hand-overs between threads, from the last moment of the thread that hands over to the first of the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.compiled import compiled
from tracebraid.graph.hosts.thread_chains import ThreadChains
from tracebraid.model.graph.codes import EdgeKind
from tracebraid.model.graph.rank_graph import EdgeList

__all__ = ["PROMPT_NS", "at_thread_starts", "closest_hand_overs"]

_Ints = NDArray[np.int64]

PROMPT_NS = 100_000
"""A thread that resumes within this resumed because of the hand-over, however short its silence was before."""

_BETWEEN_THREADS = (EdgeKind.THREAD, EdgeKind.FORWARD_BACKWARD)


def closest_hand_overs(edges: EdgeList, chains: ThreadChains) -> EdgeList:
    """The edges, of which those of `EdgeKind.THREAD` join moments as close to each other as they can be.

    Linking finds hand-overs between ops, annotations and calls. A thread's Python functions say more exactly when it
    resumed: at the end of its longest silence between the two; and what it waited for: the last moment of the
    other thread until then. A thread that stays silent for longer behind that than it was before did not wait for it:
    these are left out.

    Args:
        edges: between moments of threads, those that are of this kind.
        chains: the moments of all threads.
    """
    rows = np.flatnonzero(edges.kind == EdgeKind.THREAD)
    rows = rows[(chains.position[edges.before[rows]] >= 0) & (chains.position[edges.after[rows]] >= 0)]
    giver, taker = chains.position[edges.before[rows]], chains.position[edges.after[rows]]
    since = np.maximum(
        chains.last_until(chains.thread[taker], chains.times_ns[giver]), chains.first[chains.thread[taker]]
    )
    resumed = _longest_silence(since, taker, chains.times_ns)
    handed = np.maximum(chains.last_until(chains.thread[giver], chains.times_ns[resumed]), giver)
    before, after = edges.before.copy(), edges.after.copy()
    before[rows], after[rows] = chains.moments[handed], chains.moments[resumed]
    kept = np.ones(len(edges), dtype=np.bool_)
    kept[rows] = _prompt(chains, handed, resumed)
    return EdgeList(before, after, edges.work_ns, edges.kind, edges.activity)[kept]


def _prompt(chains: ThreadChains, handed: _Ints, resumed: _Ints) -> NDArray[np.bool_]:
    """Whether threads resumed soon after hand-overs, measured by their silence; the first moment of a thread may."""
    handed_ns, resumed_ns = chains.times_ns[handed], chains.times_ns[resumed]
    silent_ns = chains.times_ns[np.maximum(resumed - 1, 0)]
    is_first = resumed - 1 <= chains.first[chains.thread[resumed]]
    late = np.maximum(handed_ns - silent_ns, PROMPT_NS)
    prompt: NDArray[np.bool_] = is_first | (resumed_ns - handed_ns <= late)
    return prompt


def at_thread_starts(edges: EdgeList, chains: ThreadChains) -> EdgeList:
    """The edges, of which those from other threads to a thread's first event end at the start of the thread itself."""
    starts = chains.first[:-1]
    start_of = np.full(len(chains.position), -1, dtype=np.int64)
    start_of[chains.moments[starts + 1]] = chains.moments[starts]
    moved = np.isin(edges.kind, _BETWEEN_THREADS) & (start_of[edges.after] >= 0)
    moved &= chains.position[edges.before] >= 0
    after = np.where(moved, start_of[edges.after], edges.after)
    return EdgeList(edges.before, after, edges.work_ns, edges.kind, edges.activity)


@compiled
def _longest_silence(since: _Ints, until: _Ints, times_ns: _Ints) -> _Ints:
    """The position that ends the longest time without a moment, between two positions; the last of equals."""
    found: _Ints = until.copy()
    for index in range(len(since)):
        longest = -1
        for position in range(since[index] + 1, until[index] + 1):
            silence = times_ns[position] - times_ns[position - 1]
            if silence >= longest:
                longest = silence
                found[index] = position
    return found
