"""The nodes of a rank with one compute lane: what is on the lane, communication, and what each waits for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.exporters.chakra.merged.awaited import NONE, Awaited
from tracebraid.exporters.chakra.merged.issued import Issued
from tracebraid.exporters.chakra.merged.lane import Lane

__all__ = ["Ordered", "ordered", "waits_of"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Ordered:
    """Nodes, each behind all that it waits for.

    Args:
        entry: of each node, its entry of the lane; -1: it is communication.
        row: of each node, its row among those of communication; -1: it is on the lane.
        before: the node that is waited for, of each dependency.
        after: the node that waits.
        contradicted: waits of the lane for communication that were left out, for that communication is issued behind
            them in the order of all ranks.
    """

    entry: _Ints
    row: _Ints
    before: _Ints
    after: _Ints
    contradicted: int


def ordered(lane: Lane, issued: Issued, waits: tuple[_Ints, _Ints], of_row: _Ints) -> Ordered:
    """The order of nodes, and what they wait for.

    Args:
        lane: of a rank.
        issued: its communication.
        waits: entries of the lane, and the communication that each waits for, by number.
        of_row: of each row of communication its number: a kernel of sends and receives has several rows; rising.
    """
    behind = np.searchsorted(lane.end_ns, issued.at_ns, side="right")
    entries, rows = np.arange(len(lane)), np.arange(len(of_row))
    is_entry = np.r_[np.ones(len(lane), dtype=np.int64), np.zeros(len(of_row), dtype=np.int64)]
    order = np.lexsort((np.r_[entries, rows], is_entry, np.r_[entries, behind[of_row]]))
    node = np.empty(len(order), dtype=np.int64)
    node[order] = np.arange(len(order))
    of_entry, of_communication = node[: len(lane)], node[len(lane) :]
    entry, number = waits
    possible = behind[number] <= entry
    pairs = [
        (of_entry[:-1], of_entry[1:]),
        _from_rows(number[possible], of_entry[entry[possible]], of_row, of_communication),
        _to_rows(behind, of_entry, of_row, of_communication),
        _between_rows(issued, of_row, of_communication),
    ]
    before, after = (np.concatenate(part) for part in zip(*pairs, strict=True))
    own = np.full(len(order), NONE, dtype=np.int64)
    entry_of, row_of = own.copy(), own
    entry_of[of_entry], row_of[of_communication] = entries, rows
    return Ordered(entry_of, row_of, before, after, int(np.count_nonzero(~possible)))


def waits_of(lane: Lane, awaited: Awaited, end_ns: _Ints) -> tuple[_Ints, _Ints]:
    """What communication the entries of a lane wait for: entries, and the number of the communication.

    What an entry's moment waited for, if it was over when the entry started, and nothing before it on the lane has
    waited for it; and that at whose end the entry starts.

    Args:
        lane: of a rank.
        awaited: of the same rank.
        end_ns: when each communication was over.
    """
    own = np.flatnonzero(lane.communication != NONE)
    entries, numbers = [own], [lane.communication[own]]
    place = np.empty(len(end_ns), dtype=np.int64)
    place[np.argsort(end_ns, kind="stable")] = np.arange(len(end_ns))
    moment = np.maximum(lane.moment, 0)
    for latest in awaited.by_lane:
        number = latest[moment]
        known = (number != NONE) & (end_ns[number] <= lane.start_ns)
        newest = np.maximum.accumulate(np.where(known, place[number], NONE))
        new = np.flatnonzero(newest > np.r_[NONE, newest[:-1]])
        entries.append(new)
        numbers.append(number[new])
    return np.concatenate(entries), np.concatenate(numbers)


def _rows_of(number: _Ints, of_row: _Ints) -> tuple[_Ints, _Ints]:
    """All rows of each number, and which of the numbers each is of."""
    first = np.searchsorted(of_row, number, side="left")
    count = np.searchsorted(of_row, number, side="right") - first
    of = np.repeat(np.arange(len(number)), count)
    return first[of] + np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count), of


def _from_rows(number: _Ints, after: _Ints, of_row: _Ints, node: _Ints) -> tuple[_Ints, _Ints]:
    rows, of = _rows_of(number, of_row)
    return node[rows], after[of]


def _to_rows(behind: _Ints, of_entry: _Ints, of_row: _Ints, node: _Ints) -> tuple[_Ints, _Ints]:
    """Communication waits for the last entry that is over when it is issued."""
    behind_row = behind[of_row]
    rows = np.flatnonzero(behind_row > 0)
    return of_entry[behind_row[rows] - 1], node[rows]


def _between_rows(issued: Issued, of_row: _Ints, node: _Ints) -> tuple[_Ints, _Ints]:
    counts = [len(before) for before in issued.before]
    after = np.repeat(np.arange(len(counts)), counts)
    before = np.array([other for others in issued.before for other in others], dtype=np.int64)
    rows, of = _rows_of(before, of_row)
    first, pair = _rows_of(after[of], of_row)
    return node[rows[pair]], node[first]
