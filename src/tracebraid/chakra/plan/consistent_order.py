"""One order of all communication of a job in which no ranks wait for each other in a circle."""

from __future__ import annotations

import heapq
from itertools import pairwise

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]

_ROUNDING_NS = 1_000
"""Maximum overlap of an event's end with the start of a dependent event: traces round to a µs."""


class Rows(Struct, frozen=True, eq=False):
    """Communication of each rank: a row for each part of a rank.

    Args:
        rank: of each row, any numbers.
        item: joint communication has one number on all its ranks; numbers are consecutive from 0.
        stream: of each row; rows of one rank and stream follow each other.
        start_ns: of each row; clocks of several ranks may disagree.
        end_ns: of each row; later than its start.
        first: items that are the first half of a pair: sends, which do not wait for their receive.
        second: the other halves, which wait for the first.
    """

    rank: _Ints
    item: _Ints
    stream: _Ints
    start_ns: _Ints
    end_ns: _Ints
    first: _Ints
    second: _Ints


class OrderedRows(Struct, frozen=True, eq=False):
    """The order.

    Args:
        order: of each row; rows of an item have the same number.
        broken: rows of items that have no place in any order: each is on its own, and has its own number.
    """

    order: _Ints
    broken: _Flags


def consistent_order(rows: Rows, by_end: bool = False) -> OrderedRows:
    """Order all items, so that each rank can do its own in this order.

    What ended on a rank before another began there may be what that waited for: it comes first. That holds on every
    rank, by its own clock alone. What ran at once on a rank, or was on other ranks, comes in the order of last
    arrivals. Where the ranks contradict each other, items are broken up until the others have an order; pairs are so as
    a whole.
    """
    ends = _possible_ends(rows)
    key = _first_ends(rows) if by_end else _keys(rows)
    order = np.lexsort((np.arange(len(key)), _level(rows, len(key)), key))
    position = np.empty(len(key), dtype=np.int64)
    position[order] = np.arange(len(key))
    if not _is_contradicted(rows, ends, position):
        return OrderedRows(position[rows.item], np.zeros(len(rows.item), dtype=np.bool_))
    return _Search.of(rows, ends, position).ordered()


def _possible_ends(rows: Rows) -> _Ints:
    """The latest moment of each row that can be the end of what another one waited for."""
    duration = rows.end_ns - rows.start_ns
    ends = rows.end_ns - np.minimum(_ROUNDING_NS, duration // 2)
    order = np.lexsort((rows.end_ns, rows.start_ns, rows.stream, rows.rank))
    before, after = order[:-1], order[1:]
    follows = (rows.rank[before] == rows.rank[after]) & (rows.stream[before] == rows.stream[after])
    before, after = before[follows], after[follows]
    ends[before] = np.minimum(ends[before], rows.start_ns[after])
    possible: _Ints = np.maximum(ends, rows.start_ns + 1)
    return possible


def _keys(rows: Rows) -> _Ints:
    """The last arrival of each item; of the second half of a pair not before the first."""
    key = np.full(int(rows.item.max(initial=-1)) + 1, np.iinfo(np.int64).min)
    np.maximum.at(key, rows.item, rows.start_ns)
    key[rows.second] = np.maximum(key[rows.second], key[rows.first])
    return key


def _first_ends(rows: Rows) -> _Ints:
    """The first end of each item; of the first half of a pair not behind the second."""
    key = np.full(int(rows.item.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(key, rows.item, rows.end_ns)
    key[rows.first] = np.minimum(key[rows.first], key[rows.second])
    return key


def _level(rows: Rows, items: int) -> _Ints:
    """Second halves follow their first at equal times."""
    level = np.zeros(items, dtype=np.int64)
    level[rows.second] = 1
    return level


def _is_contradicted(rows: Rows, ends: _Ints, position: _Ints) -> bool:
    """Return whether a row comes before another one of its rank that ended before it began."""
    own = position[rows.item]
    order = np.lexsort((own, rows.rank))
    rank, start, end = rows.rank[order], rows.start_ns[order], ends[order]
    bounds = [*np.flatnonzero(np.diff(rank, prepend=rank[:1] - 1)), len(rank)]
    return any(
        bool((np.minimum.accumulate(end[first:last][::-1])[::-1] <= start[first:last]).any())
        for first, last in pairwise(bounds)
    )


class _Lane(Struct, eq=False):
    """The rows of a rank.

    Args:
        by_end: they, by their ends; `ended` of them come before all that are not placed.
        by_start: they, by their starts; `begun` of them wait for no row that is not placed.
    """

    by_end: list[int]
    by_start: list[int]
    ended: int = 0
    begun: int = 0


class _Search(Struct, eq=False):
    """The search for an order: an item is ready when it waits for nothing on any of its ranks.

    Args:
        item, rank, start, end: of the rows.
        position: of each item: among those that are ready, the first comes next.
        lanes: by rank.
        rows_of: the rows of each item.
        waits: of each item how much it still waits for.
        halves: the second half of each first one.
        firsts: the first half of each second one.
        free: of each row, whether it waits for no other row of its rank.
        number: of each row, in the order that is found; -1: it is not placed.
        broken: items that are broken up.
        ready: items that wait for nothing, and free rows of broken ones: position, item, and the row or -1.
    """

    item: list[int]
    rank: list[int]
    start: list[int]
    end: list[int]
    position: list[int]
    lanes: dict[int, _Lane]
    rows_of: list[list[int]]
    waits: list[int]
    halves: dict[int, int]
    firsts: dict[int, int]
    free: list[bool]
    number: list[int]
    broken: set[int] = field(default_factory=set)
    ready: list[tuple[int, int, int]] = field(default_factory=list)

    @staticmethod
    def of(rows: Rows, ends: _Ints, position: _Ints) -> _Search:
        ranks, items = rows.rank.tolist(), rows.item.tolist()
        lanes: dict[int, _Lane] = {rank: _Lane([], []) for rank in sorted(set(ranks))}
        for row in np.argsort(ends, kind="stable").tolist():
            lanes[ranks[row]].by_end.append(row)
        for row in np.argsort(rows.start_ns, kind="stable").tolist():
            lanes[ranks[row]].by_start.append(row)
        rows_of: list[list[int]] = [[] for _ in range(len(position))]
        for row, item in enumerate(items):
            rows_of[item].append(row)
        halves = dict(zip(rows.first.tolist(), rows.second.tolist(), strict=True))
        firsts = {second: first for first, second in halves.items()}
        waits = [len(own) + (item in firsts) for item, own in enumerate(rows_of)]
        return _Search(
            items,
            ranks,
            rows.start_ns.tolist(),
            ends.tolist(),
            position.tolist(),
            lanes,
            rows_of,
            waits,
            halves,
            firsts,
            free=[False] * len(items),
            number=[-1] * len(items),
        )

    def ordered(self) -> OrderedRows:
        """The order; items that have no place in it are broken up."""
        for lane in self.lanes.values():
            self._advance(lane)
        placed = nth = 0
        while placed < len(self.item):
            if not self.ready:
                self._break(self._in_a_circle())
            _, item, single = heapq.heappop(self.ready)
            rows = self.rows_of[item] if single < 0 else [single]
            for row in rows:
                self.number[row] = nth
            for rank in {self.rank[row] for row in rows}:
                self._advance(self.lanes[rank])
            if single < 0 and item in self.halves:
                self._less(self.halves[item])
            placed, nth = placed + len(rows), nth + 1
        broken = [item in self.broken for item in self.item]
        return OrderedRows(np.array(self.number, dtype=np.int64), np.array(broken, dtype=np.bool_))

    def _advance(self, lane: _Lane) -> None:
        """Free the rows that begin before the first one ends that is not placed."""
        while lane.ended < len(lane.by_end) and self.number[lane.by_end[lane.ended]] >= 0:
            lane.ended += 1
        whole = lane.ended == len(lane.by_end)
        while lane.begun < len(lane.by_start):
            row = lane.by_start[lane.begun]
            if not whole and self.start[row] >= self.end[lane.by_end[lane.ended]]:
                break
            lane.begun += 1
            self.free[row] = True
            if self.item[row] in self.broken:
                heapq.heappush(self.ready, (self.position[self.item[row]], self.item[row], row))
            else:
                self._less(self.item[row])

    def _less(self, item: int) -> None:
        self.waits[item] -= 1
        if not self.waits[item] and item not in self.broken:
            heapq.heappush(self.ready, (self.position[item], item, -1))

    def _in_a_circle(self) -> int:
        """Choose, in a cycle of dependent items, the one with the fewest rows; the first of several."""
        open_ = (lane.by_end[lane.ended] for lane in self.lanes.values() if lane.ended < len(lane.by_end))
        item = min(self.item[row] for row in open_)
        seen: dict[int, int] = {}
        while item not in seen:
            seen[item] = len(seen)
            item = self._waited_for(item)
        circle = [other for other, at in seen.items() if at >= seen[item]]
        return min(circle, key=lambda other: (len(self.rows_of[other]), self.position[other]))

    def _waited_for(self, item: int) -> int:
        blocked = next((row for row in self.rows_of[item] if not self.free[row]), None)
        if blocked is None:
            return self.firsts[item]
        lane = self.lanes[self.rank[blocked]]
        return self.item[lane.by_end[lane.ended]]

    def _break(self, item: int) -> None:
        """Let each row of an item, and of the other half of its pair, be on its own."""
        for half in {item, self.halves.get(item, item), self.firsts.get(item, item)} - self.broken:
            self.broken.add(half)
            for row in self.rows_of[half]:
                if self.free[row] and self.number[row] < 0:
                    heapq.heappush(self.ready, (self.position[half], half, row))
