"""Nesting of the threads on which nothing overlaps, all at once with arrays; the others are left to a walk.

What is plain: ops lie inside one another or apart, calls lie inside the op that is open, nothing lies inside a call,
and there are no Python frames. Then the rules of `nesting.host_tree` leave no choice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["HostRows", "PlainNesting", "plain_nesting"]

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]
_NONE = -1
_LARGEST = 1 << 62
"""Times of all threads are laid one after the other: as long as they fit."""


@dataclass(frozen=True)
class HostRows:
    """Host events by thread, start, and what is outside of what.

    Args:
        lane: the thread.
        start: ns.
        end: ns.
        is_op: whether it is an op or annotation.
        is_frame: whether it is a Python frame; what is neither is a call.
    """

    lane: _Ints
    start: _Ints
    end: _Ints
    is_op: _Bools
    is_frame: _Bools

    def __getitem__(self, rows: _Ints | _Bools) -> HostRows:
        """Some of the rows."""
        return HostRows(*(column[rows] for column in vars(self).values()))


@dataclass(frozen=True)
class PlainNesting:
    """How the events of plain threads nest.

    Args:
        is_plain: whether the thread of each row is plain; of the other rows nothing is said.
        parent: row of the op that encloses each row; -1: none.
        depth: number of ops that enclose it.
    """

    is_plain: _Bools
    parent: _Ints
    depth: _Ints


def plain_nesting(rows: HostRows) -> PlainNesting:
    """How the events of plain threads nest, in O(n log n)."""
    count = len(rows.lane)
    parent, depth = np.full(count, _NONE, dtype=np.int64), np.zeros(count, dtype=np.int64)
    thread = np.cumsum(np.r_[True, rows.lane[1:] != rows.lane[:-1]]) - 1 if count else rows.lane
    spread = _laid_in_sequence(rows, thread)
    if spread is None:
        return PlainNesting(np.zeros(count, dtype=np.bool_), parent, depth)
    start, end = spread
    ops, calls = np.flatnonzero(rows.is_op), np.flatnonzero(~rows.is_op & ~rows.is_frame)
    fault = rows.is_frame | (rows.end < rows.start)
    # A call must end before the next event of its thread begins.
    fault[calls] |= np.r_[start[1:], _LARGEST][calls] < end[calls]
    op_parent, op_depth, op_fault = _of_ops(start[ops], end[ops])
    fault[ops] |= op_fault
    parent[ops], depth[ops] = _at(ops, op_parent), op_depth
    op_of_call = _of_calls(start[calls], end[calls], start[ops], end[ops], op_parent)
    known = op_of_call != _NONE
    fault[calls[known]] |= end[calls[known]] > end[ops[op_of_call[known]]]
    parent[calls] = _at(ops, op_of_call)
    depth[calls[known]] = op_depth[op_of_call[known]] + 1
    has_fault = np.zeros(int(thread[-1]) + 1 if count else 0, dtype=np.bool_)
    has_fault[thread[fault]] = True
    return PlainNesting(~has_fault[thread], parent, depth)


def _laid_in_sequence(rows: HostRows, thread: _Ints) -> tuple[_Ints, _Ints] | None:
    """Starts and ends, where each thread begins after the last has ended; None where the numbers do not allow it."""
    if not len(thread):
        return rows.start, rows.end
    first, last = int(rows.start.min()), int(np.maximum(rows.start, rows.end).max())
    # Two apart, so that no event of a thread begins where one of the thread before may end.
    length = last - first + 2
    if length * (int(thread[-1]) + 1) >= _LARGEST:
        return None
    shift = thread * length - first
    return rows.start + shift, np.maximum(rows.end, rows.start) + shift


def _of_ops(start: _Ints, end: _Ints) -> tuple[_Ints, _Ints, _Bools]:
    """Of each op the op around it (-1: none), how many there are around it, and whether that is not plain.

    An op is over at the first later op that starts behind its end, or at its end and has a length. Those that are
    not over enclose the ops that follow; the innermost is the last op of the depth above.
    """
    count = len(start)
    number = np.arange(count)
    long = np.flatnonzero(end > start)
    behind = np.searchsorted(start, end, side="right")
    at_end = np.searchsorted(start[long], end, side="left")
    # For an op without length, of those that start with it only later ones.
    at_end = np.where(end > start, at_end, np.searchsorted(long, number, side="right"))
    over = np.minimum(behind, np.r_[long, count][at_end])
    depth = number - np.cumsum(np.bincount(over, minlength=count + 1))[:count]
    order = np.argsort(depth, kind="stable")
    keys = depth[order] * (count + 1) + order
    before = np.searchsorted(keys, (depth - 1) * (count + 1) + number) - 1
    parent = np.where(depth > 0, order[np.maximum(before, 0)], _NONE) if count else number
    inside = parent >= 0
    outer = np.maximum(parent, 0)
    holds = (depth[outer] == depth - 1) & (over[outer] > number) & (end[outer] >= end) if count else inside
    return parent, depth, inside & ~holds


def _of_calls(start: _Ints, end: _Ints, op_start: _Ints, op_end: _Ints, op_parent: _Ints) -> _Ints:
    """The innermost op that is open at each call; one that ends as a call with a length starts is not."""
    op_of_call = np.searchsorted(op_start, start, side="right") - 1
    until = np.where(end > start, start + 1, start)
    over = np.flatnonzero(op_of_call >= 0)
    while len(over := over[op_end[op_of_call[over]] < until[over]]):
        op_of_call[over] = op_parent[op_of_call[over]]
        over = over[op_of_call[over] >= 0]
    found: _Ints = op_of_call
    return found


def _at(rows: _Ints, numbers: _Ints) -> _Ints:
    """The row of each number; -1 for -1."""
    found: _Ints = np.r_[rows, _NONE][numbers]
    return found
