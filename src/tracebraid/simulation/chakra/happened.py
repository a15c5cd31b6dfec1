"""What happened in a run, with all that it was made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tracebraid.model.chakra.codes import CollectiveCommType, NodeType
from tracebraid.simulation.chakra.meetings import Meetings
from tracebraid.simulation.chakra.play import COLLECTIVE, RECEIVE, WORK, Played, Program
from tracebraid.simulation.chakra.ranks_nodes import RankNodes

__all__ = ["Happened", "union_ns"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Happened:
    """What happened.

    Args:
        nodes: of all ranks.
        meet: who was to meet whom.
        program: what each node takes.
        played: when each ran.
    """

    nodes: RankNodes
    meet: Meetings
    program: Program
    played: Played

    @cached_property
    def done(self) -> NDArray[np.bool_]:
        """Whether each node ended."""
        return self.played.end_ns >= 0

    @cached_property
    def is_communication(self) -> NDArray[np.bool_]:
        """Whether each node is a collective, send or receive."""
        found: NDArray[np.bool_] = self.nodes.ints("type") >= NodeType.COMM_SEND_NODE
        return found

    @cached_property
    def is_compute(self) -> NDArray[np.bool_]:
        """Whether each node computes on the device."""
        found: NDArray[np.bool_] = (self.nodes.ints("type") == NodeType.COMP_NODE) & ~self.is_host
        return found

    @cached_property
    def is_host(self) -> NDArray[np.bool_]:
        """Whether each node is work of the host."""
        is_host: NDArray[np.bool_] = (
            self.nodes.table.get_column("is_cpu_op").fill_null(value=False).to_numpy()
        )
        found: NDArray[np.bool_] = is_host & (self.nodes.ints("type") == NodeType.COMP_NODE)
        return found

    @cached_property
    def waiting_ns(self) -> _Ints:
        """Of communication that ended, the time until its last member or its message came; else 0."""
        waiting = np.zeros(len(self.done), dtype=np.int64)
        role = self.program.role
        met = np.flatnonzero(self.done & ((role == COLLECTIVE) | (role == RECEIVE)))
        came = self.played.latest_ns[self.played.slot[met]]
        waiting[met] = np.maximum(came - self.played.start_ns[met], 0)
        return waiting

    def kinds(self, rows: _Ints) -> list[str]:
        """What communication each of some nodes is."""
        kind, collective = self.nodes.ints("type")[rows], self.nodes.ints("comm_type")[rows]
        names = {NodeType.COMM_SEND_NODE: "SEND", NodeType.COMM_RECV_NODE: "RECEIVE"}
        return [
            names.get(NodeType(node)) or CollectiveCommType(other).name
            for node, other in zip(kind.tolist(), collective.tolist(), strict=True)
        ]

    @cached_property
    def is_replayed(self) -> NDArray[np.bool_]:
        """Whether each node is communication that meets nobody."""
        found: NDArray[np.bool_] = self.is_communication & (self.program.role == WORK)
        return found


def union_ns(start_ns: _Ints, end_ns: _Ints) -> tuple[_Ints, _Ints]:
    """Intervals that do not touch, ascending, which cover what the given ones cover."""
    order = np.argsort(start_ns, kind="stable")
    start, end = start_ns[order], np.maximum.accumulate(end_ns[order]) if len(order) else end_ns
    new = np.ones(len(start), dtype=np.bool_)
    new[1:] = start[1:] > end[:-1]
    last = np.ones(len(start), dtype=np.bool_)
    last[:-1] = new[1:]
    return start[new], end[last]
