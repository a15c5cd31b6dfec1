"""The edges of all ranks by the moment that waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.compiled import compiled
from tracebraid.model.graph.rank_graph import EdgeList

__all__ = ["Rows", "edge_rows", "in_order"]

_Ints = NDArray[np.int64]
_Ids = NDArray[np.int32]
_Codes = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Rows:
    """Edges, those of each moment side by side.

    Args:
        first: where the edges of each moment begin; one entry more than there are moments.
        before: the moment that is waited for.
        work_ns: its work.
        kind: `EdgeKind`.
        activity: the activity that the work belongs to.
        backward: edges that were left out: their times contradict them.
    """

    first: _Ints
    before: _Ids
    work_ns: _Ints
    kind: _Codes
    activity: _Ids
    backward: int = 0


def edge_rows(parts: Sequence[EdgeList], first_activity: Sequence[int], times_ns: _Ints) -> Rows:
    """The edges of all parts by the moment that waits, without those that times contradict.

    Counting sort: linear in edges, and no copy of all edges beside the result.

    Args:
        parts: edges of each rank, numbered from its own first activity.
        first_activity: the number of that in the whole.
        times_ns: of each moment of the whole.
    """
    first = np.zeros(len(times_ns) + 1, dtype=np.int64)
    backward = 0
    for edges, activity in zip(parts, first_activity, strict=True):
        backward += _count((edges.before, edges.after, edges.work_ns), activity, times_ns, first)
    np.cumsum(first, out=first)
    count = int(first[-1])
    before, work_ns = np.empty(count, dtype=np.int32), np.empty(count, dtype=np.int64)
    kind, owner = np.empty(count, dtype=np.uint8), np.empty(count, dtype=np.int32)
    for edges, activity in zip(parts, first_activity, strict=True):
        given = (edges.before, edges.after, edges.work_ns, edges.kind, edges.activity)
        _fill(given, activity, times_ns, first, (before, work_ns, kind, owner))
    # Each entry has moved on to where the next moment's edges begin.
    first[1:] = first[:-1]
    first[0] = 0
    return Rows(first, before, work_ns, kind, owner, backward)


def in_order(rows: Rows, moments: _Ids, position: _Ids) -> Rows:
    """The edges of moments in an order, and by their positions in it; those that go back in it are left out.

    Args:
        rows: by the numbers of moments.
        moments: the moments in order.
        position: the position of each.
    """
    first = np.zeros(len(moments) + 1, dtype=np.int64)
    _count_in_order(rows.first, rows.before, moments, position, first)
    count = int(first[-1])
    before, work_ns = np.empty(count, dtype=np.int32), np.empty(count, dtype=np.int64)
    kind, owner = np.empty(count, dtype=np.uint8), np.empty(count, dtype=np.int32)
    given = (rows.first, rows.before, rows.work_ns, rows.kind, rows.activity)
    _fill_in_order(given, moments, position, (before, work_ns, kind, owner))
    return Rows(first, before, work_ns, kind, owner, len(rows.before) - count)


@compiled
def _count(edges: tuple[_Ints, _Ints, _Ints], activity: int, times_ns: _Ints, counts: _Ints) -> int:
    before, after, work_ns = edges
    backward = 0
    for edge in range(len(before)):
        waits, waited = after[edge] + 2 * activity, before[edge] + 2 * activity
        if times_ns[waited] + work_ns[edge] <= times_ns[waits]:
            counts[waits + 1] += 1
        else:
            backward += 1
    return backward


@compiled
def _fill(
    edges: tuple[_Ints, _Ints, _Ints, _Codes, _Ints],
    activity: int,
    times_ns: _Ints,
    free: _Ints,
    into: tuple[_Ids, _Ints, _Codes, _Ids],
) -> None:
    before, after, work_ns, kind, owner = edges
    into_before, into_work, into_kind, into_owner = into
    for edge in range(len(before)):
        waits, waited = after[edge] + 2 * activity, before[edge] + 2 * activity
        if times_ns[waited] + work_ns[edge] <= times_ns[waits]:
            row = free[waits]
            free[waits] += 1
            into_before[row], into_work[row] = waited, work_ns[edge]
            into_kind[row], into_owner[row] = kind[edge], owner[edge] + activity


@compiled
def _count_in_order(first: _Ints, before: _Ids, moments: _Ids, position: _Ids, result: _Ints) -> None:
    for number, moment in enumerate(moments):
        count = 0
        for edge in range(first[moment], first[moment + 1]):
            if position[before[edge]] < number:
                count += 1
        result[number + 1] = result[number] + count


@compiled
def _fill_in_order(
    rows: tuple[_Ints, _Ids, _Ints, _Codes, _Ids],
    moments: _Ids,
    position: _Ids,
    into: tuple[_Ids, _Ints, _Codes, _Ids],
) -> None:
    first, before, work_ns, kind, owner = rows
    into_before, into_work, into_kind, into_owner = into
    row = 0
    for number, moment in enumerate(moments):
        for edge in range(first[moment], first[moment + 1]):
            waited = position[before[edge]]
            if waited < number:
                into_before[row], into_work[row] = waited, work_ns[edge]
                into_kind[row], into_owner[row] = kind[edge], owner[edge]
                row += 1
