"""Order of moments, and the edges of each moment side by side in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.model.graph import EdgeList
from tracebraid.native.loops import native_loop

_Ints = NDArray[np.int64]
_Ids = NDArray[np.int32]
_Codes = NDArray[np.uint8]


class Order(Struct, frozen=True, eq=False):
    """An order of moments.

    Args:
        moments: the moments in order.
        position: where in it each moment stands.
    """

    moments: _Ids
    position: _Ids


def order_of(times_ns: _Ints, first: _Ints, before: _Ids) -> Order:
    """Order moments by time, and equal times by dependencies."""
    by_time = np.argsort(times_ns, kind="stable").astype(np.int32)
    moments = _ordered(by_time, first, before)
    position = np.empty(len(moments), dtype=np.int32)
    position[moments] = np.arange(len(moments), dtype=np.int32)
    return Order(moments, position)


@native_loop
def _ordered(by_time: _Ids, first: _Ints, before: _Ids) -> _Ids:
    """Order moments by time, each after its dependencies; in a cycle, one edge points back."""
    placed = np.zeros(len(by_time), dtype=np.bool_)
    ordered: list[int] = []
    for moment in by_time:
        if placed[moment]:
            continue
        placed[moment] = True
        # The moments that wait for each other, and the next edge of each. Only those of one time can.
        stack = [[moment, first[moment]]]
        while stack:
            current, edge = stack[-1]
            if edge < first[current + 1]:
                stack[-1][1] += 1
                waited = before[edge]
                if not placed[waited]:
                    placed[waited] = True
                    stack.append([waited, first[waited]])
            else:
                ordered.append(current)
                stack.pop()
    return np.array(ordered, dtype=np.int32)


class Rows(Struct, frozen=True, eq=False):
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
    """The edges of moments in an order, and by their positions in it; those that go back in it are left out."""
    first = np.zeros(len(moments) + 1, dtype=np.int64)
    _count_in_order(rows.first, rows.before, moments, position, first)
    count = int(first[-1])
    before, work_ns = np.empty(count, dtype=np.int32), np.empty(count, dtype=np.int64)
    kind, owner = np.empty(count, dtype=np.uint8), np.empty(count, dtype=np.int32)
    given = (rows.first, rows.before, rows.work_ns, rows.kind, rows.activity)
    _fill_in_order(given, moments, position, (before, work_ns, kind, owner))
    return Rows(first, before, work_ns, kind, owner, len(rows.before) - count)


@native_loop
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


@native_loop
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


@native_loop
def _count_in_order(first: _Ints, before: _Ids, moments: _Ids, position: _Ids, result: _Ints) -> None:
    for number, moment in enumerate(moments):
        count = 0
        for edge in range(first[moment], first[moment + 1]):
            if position[before[edge]] < number:
                count += 1
        result[number + 1] = result[number] + count


@native_loop
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


def edges_in_order(times_ns: NDArray[np.int64], edges: EdgeList) -> tuple[Order, Rows]:
    """An order of the moments, and the edges in it, by the moment that waits; `backward` of them close a cycle."""
    by_after = edges[np.argsort(edges.after, kind="stable")]
    first = np.zeros(len(times_ns) + 1, dtype=np.int64)
    np.cumsum(np.bincount(edges.after, minlength=len(times_ns)), out=first[1:])
    before, owner = by_after.before.astype(np.int32), by_after.activity.astype(np.int32)
    order = order_of(times_ns, first, before)
    rows = Rows(first, before, by_after.work_ns, by_after.kind, owner)
    return order, in_order(rows, order.moments, order.position)
