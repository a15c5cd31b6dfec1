"""The nodes of a rank with one compute lane in their order, and what each waits for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.exporters.chakra.merged.issued import Issued
from tracebraid.exporters.chakra.merged.lane import Lane
from tracebraid.exporters.chakra.nodes.tasks import NONE

__all__ = ["Ordered", "ordered"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Ordered:
    """Nodes, each behind all that it waits for.

    Args:
        entry: of each node, its entry of the lane; -1: it is communication.
        issued: of each node, its entry among what is issued; -1: it is on the lane.
        before: the node that is waited for, of each dependency.
        after: the node that waits.
        contradicted: waits of the lane for communication that were left out, for that communication is issued behind
            them in the order of all ranks.
    """

    entry: _Ints
    issued: _Ints
    before: _Ints
    after: _Ints
    contradicted: int


def ordered(lane: Lane, issued: Issued, waits: tuple[_Ints, _Ints]) -> Ordered:
    """The order of nodes, and what they wait for.

    Args:
        lane: of a rank.
        issued: its communication.
        waits: entries of the lane, and the entry of `issued` that each waits for.
    """
    # So many entries of the lane are over when it is issued: in the order of nodes it stands behind the last of them.
    over = np.searchsorted(lane.end_ns, issued.at_ns, side="right")
    entries, numbers = np.arange(len(lane)), np.arange(len(over))
    is_entry = np.r_[np.ones(len(lane), dtype=np.int64), np.zeros(len(over), dtype=np.int64)]
    order = np.lexsort((np.r_[entries, numbers], is_entry, np.r_[entries, over]))
    node = np.empty(len(order), dtype=np.int64)
    node[order] = np.arange(len(order))
    of_entry, of_issued = node[: len(lane)], node[len(lane) :]
    entry, number = waits
    possible = over[number] <= entry
    behind_entry = np.flatnonzero(over > 0)
    behind, between = _between_blocks(issued.block)
    before = [
        of_entry[:-1],
        of_issued[number[possible]],
        of_entry[over[behind_entry] - 1],
        of_issued[behind],
    ]
    after = [of_entry[1:], of_entry[entry[possible]], of_issued[behind_entry], of_issued[between]]
    entry_of, issued_of = (np.full(len(order), NONE, dtype=np.int64) for _ in range(2))
    entry_of[of_entry], issued_of[of_issued] = entries, numbers
    contradicted = int(np.count_nonzero(~possible))
    return Ordered(entry_of, issued_of, np.concatenate(before), np.concatenate(after), contradicted)


def _between_blocks(block: _Ints) -> tuple[_Ints, _Ints]:
    """Pairs of entries: each with all of the block before its own."""
    first = np.searchsorted(block, block - 1, side="left")
    count = np.searchsorted(block, block - 1, side="right") - first
    of = np.repeat(np.arange(len(block)), count)
    return first[of] + np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count), of
