"""Nodes on a network: what each takes, and which lane it occupies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.model.chakra.codes import CollectiveCommType, NodeType
from tracebraid.model.chakra.network import CollectiveSettings, Lanes, Network
from tracebraid.simulation.chakra.algorithms import Plan, rounds_of
from tracebraid.simulation.chakra.collective_cost import Collective, cost_of
from tracebraid.simulation.chakra.links import message_ns
from tracebraid.simulation.chakra.meetings import Meetings
from tracebraid.simulation.chakra.play import COLLECTIVE, NEVER, RECEIVE, SEND, WORK, Program
from tracebraid.simulation.chakra.ranks_nodes import RankNodes

__all__ = ["Hardware", "lanes_of", "program_of"]

_Ints = NDArray[np.int64]

_NS_PER_US = 1000
_SHORTEST_NS = 1
"""ASTRA-sim's time of a node whose duration is 0."""
_HOST, _COMPUTE, _COMMUNICATION = 0, 1, 2
"""Lanes of a rank in ASTRA-sim."""
_LANES_OF_RANK = 3
_NO_TIME = (NodeType.METADATA_NODE, NodeType.INVALID_NODE)
"""Types that take neither time nor a lane."""


@dataclass(frozen=True)
class Hardware:
    """What nodes run on.

    Args:
        network: between ranks.
        settings: how collectives are done.
        lanes: what of a rank can run at once.
    """

    network: Network
    settings: CollectiveSettings
    lanes: Lanes


def program_of(nodes: RankNodes, meet: Meetings, hardware: Hardware) -> Program:
    """The nodes as `play` takes them.

    Args:
        nodes: of all ranks.
        meet: who meets whom.
        hardware: what they run on.

    Raises:
        ArgumentError: an algorithm cannot do a collective, or the network has another number of ranks.
        InputError: communication names no size.
    """
    kind = nodes.ints("type")
    role = np.full(len(kind), WORK, dtype=np.int8)
    role[kind == NodeType.COMM_SEND_NODE] = SEND
    role[kind == NodeType.COMM_RECV_NODE] = RECEIVE
    role[meet.group >= 0] = COLLECTIVE
    if not hardware.network.is_measured:
        # A broadcast of a rank to itself stands for communication that is simulated on that rank alone.
        lasts = np.full(len(kind), hardware.lanes is Lanes.ASTRA_SIM) | (meet.expected == 1)
        role[(meet.group >= 0) & lasts & (nodes.ints("comm_type") == CollectiveCommType.BROADCAST)] = WORK
    duration = _own_ns(nodes, kind, hardware)
    delivery = np.zeros(len(kind), dtype=np.int64)
    plan, plans = np.full(len(kind), NEVER, dtype=np.int64), []
    if not hardware.network.is_measured:
        _refuse_ranks(hardware.network, len(nodes.paths))
        _refuse_no_size(nodes, np.flatnonzero(role != WORK))
        plans = _put_collectives(duration, plan, (nodes, meet, hardware), role == COLLECTIVE)
        sends = np.flatnonzero(role == SEND)
        src, dst, size = (nodes.ints(name, 0)[sends] for name in ("rank", "comm_dst", "comm_size"))
        delivery[sends] = duration[sends] = message_ns(hardware.network, src, dst, size, len(nodes.paths))
        duration[role == RECEIVE] = 0
    lane = lanes_of(nodes, kind, hardware.lanes)
    return Program(
        role, lane, duration, delivery, nodes.waits, nodes.first, nodes.after,
        meet.slot, meet.counter, meet.expected, meet.signature, meet.position, plan, rounds_of(plans),
    )  # fmt: skip


def lanes_of(nodes: RankNodes, kind: _Ints, lanes: Lanes) -> _Ints:
    """The lane of each node; receives have none: a rank waits for messages beside all else."""
    rank = nodes.ints("rank")
    free = np.isin(kind, _NO_TIME) | (kind == NodeType.COMM_RECV_NODE)
    if lanes is Lanes.UNLIMITED:
        return np.full(len(kind), NEVER, dtype=np.int64)
    if lanes is Lanes.ASTRA_SIM:
        is_host = nodes.table.get_column("is_cpu_op").fill_null(value=False).to_numpy()
        is_work = kind == NodeType.COMP_NODE
        own = np.where(is_work, np.where(is_host, _HOST, _COMPUTE), _COMMUNICATION)
        return np.where(free, NEVER, rank * _LANES_OF_RANK + own)
    stream, thread = nodes.ints("stream", NEVER), nodes.ints("thread", NEVER)
    named = ~free & ((stream != NEVER) | (thread != NEVER))
    lane = np.full(len(kind), NEVER, dtype=np.int64)
    keys = np.stack([rank[named], stream[named], thread[named]])
    lane[named] = np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1)
    return lane


def _own_ns(nodes: RankNodes, kind: _Ints, hardware: Hardware) -> _Ints:
    """What the files say that each node takes; ASTRA-sim reads whole microseconds, and takes 1 ns for none."""
    micros = nodes.ints("duration_micros", 0) * _NS_PER_US
    exact = nodes.ints("duration_ns")
    if hardware.lanes is not Lanes.ASTRA_SIM:
        own = np.where(exact >= 0, exact, micros)
    else:
        by_file = np.isin(kind, (NodeType.COMM_COLL_NODE, NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE))
        own = np.where(by_file & (exact >= 0) & hardware.network.is_measured, exact, micros)
        own = np.maximum(own, _SHORTEST_NS)
    return np.where(np.isin(kind, _NO_TIME), 0, np.maximum(own, 0))


def _put_collectives(
    duration: _Ints,
    plan: _Ints,
    asked: tuple[RankNodes, Meetings, Hardware],
    chosen: NDArray[np.bool_],
) -> list[Plan]:
    """Write what collectives take on a network and which plan each has; each kind, size and group has one."""
    nodes, meet, hardware = asked
    at = np.flatnonzero(chosen)
    kinds, sizes = nodes.ints("comm_type"), nodes.ints("comm_size", 0)
    keys = np.stack([meet.group[at], kinds[at], sizes[at]])
    different, which = np.unique(keys, axis=1, return_inverse=True)
    which = which.reshape(-1)
    plans: list[Plan] = []
    for number, (group, kind, size) in enumerate(different.T.tolist()):
        rows = at[which == number]
        collective = Collective(CollectiveCommType(kind), size, meet.groups[group], len(nodes.paths))
        cost = cost_of(collective, hardware.network, hardware.settings)
        duration[rows] = cost.even_ns[meet.position[rows]]
        if cost.plan is not None:
            plan[rows] = len(plans)
            plans.append(cost.plan)
    return plans


def _refuse_ranks(network: Network, world: int) -> None:
    """Raise ArgumentError where a network has another number of ranks than the job."""
    named = [dimension.ranks for dimension in network.dimensions]
    ranks = int(np.prod([count or world for count in named]))
    if ranks != world or (len(named) > 1 and None in named):
        raise ArgumentError(
            f"the network {network.name} has {ranks} ranks, and the job has {world}: name the ranks of each of its "
            "dimensions so that their product is the job's"
        )


def _refuse_no_size(nodes: RankNodes, rows: _Ints) -> None:
    """Raise InputError where communication has no size."""
    kind = nodes.ints("comm_type")
    none = rows[(nodes.ints("comm_size")[rows] < 0) & (kind[rows] != CollectiveCommType.BARRIER)]
    if len(none):
        raise nodes.problem(
            int(none[0]),
            "it communicates without a comm_size",
            "Give it one, in bytes, or run with --network measured",
        )
