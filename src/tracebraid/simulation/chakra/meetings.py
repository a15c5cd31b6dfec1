"""Who meets whom: the groups of collectives, the pairs of sends and receives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.chakra.codes import CollectiveCommType, NodeType
from tracebraid.simulation.chakra.ranks_nodes import RankNodes

__all__ = ["ALL_RANKS", "Groups", "Meetings", "meetings"]

_Ints = NDArray[np.int64]

ALL_RANKS = ("", "0")
"""Names of the group of all ranks. Two groups of other names do not meet, though they have the same ranks."""


@dataclass(frozen=True)
class Groups:
    """Process groups.

    Args:
        path: the file that names them; "": there is none.
        members: the ranks of each, in its order.
    """

    path: str
    members: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Meetings:
    """Where the nodes of communication meet; each array has an entry for each node, -1 of those that do not.

    Args:
        groups: the members of each group that nodes name, by its number here.
        group: of a collective its group.
        position: of a collective the position of its rank in the group.
        slot: the first slot of the group, or of the pair of ranks with a tag and size.
        counter: what counts the slots that are taken.
        expected: of a collective the members of its group.
        signature: of a collective its kind and size, as a number.
        counters: how many counters there are.
        slots: how many slots there are.
    """

    groups: tuple[tuple[int, ...], ...]
    group: _Ints
    position: _Ints
    slot: _Ints
    counter: _Ints
    expected: _Ints
    signature: _Ints
    counters: int
    slots: int


def meetings(nodes: RankNodes, groups: Groups) -> Meetings:
    """Who meets whom.

    Args:
        nodes: of all ranks.
        groups: the process groups beside that of all ranks.

    Raises:
        InputError: a node names a group, a rank or a size that there is not.
    """
    world = len(nodes.paths)
    kind = nodes.ints("type")
    count = len(kind)
    group, position, members = _of_groups(nodes, groups, kind == NodeType.COMM_COLL_NODE, world)
    sizes = np.array([len(ranks) for ranks in members], dtype=np.int64)
    at = np.flatnonzero(group >= 0)
    counter = np.full(count, -1, dtype=np.int64)
    slot, expected = counter.copy(), counter.copy()
    first_counter = np.concatenate([[0], np.cumsum(sizes)])
    counter[at] = first_counter[group[at]] + position[at]
    expected[at] = sizes[group[at]]
    slot[at], slots = _first_slots(group[at], counter[at], len(sizes))
    counters = int(first_counter[-1])
    sends = np.flatnonzero(kind == NodeType.COMM_SEND_NODE)
    receives = np.flatnonzero(kind == NodeType.COMM_RECV_NODE)
    at = np.concatenate([sends, receives])
    if len(at):
        pair = _pairs(nodes, sends, receives, world)
        pairs = int(pair.max()) + 1
        counter[at] = counters + 2 * pair + (np.arange(len(at)) >= len(sends))
        of_pairs, more = _first_slots(pair, counter[at], pairs)
        slot[at] = of_pairs + slots
        slots, counters = slots + more, counters + 2 * pairs
    signature = nodes.ints("comm_type") + (nodes.ints("comm_size", 0) << len(CollectiveCommType).bit_length())
    return Meetings(tuple(members), group, position, slot, counter, expected, signature, counters, slots)


def _first_slots(of: _Ints, counter: _Ints, count: int) -> tuple[_Ints, int]:
    """The first slot of each node's group or pair, which has as many as its busiest counter; and how many there are.

    Args:
        of: the group or pair of each node.
        counter: the counter of each node.
        count: groups or pairs.
    """
    most = np.zeros(count, dtype=np.int64)
    used, times = np.unique(np.stack([of, counter]), axis=1, return_counts=True)
    np.maximum.at(most, used[0], times)
    first = np.concatenate([[0], np.cumsum(most)])
    return first[of], int(first[-1])


def _of_groups(
    nodes: RankNodes, groups: Groups, is_collective: NDArray[np.bool_], world: int
) -> tuple[_Ints, _Ints, list[tuple[int, ...]]]:
    """Of each collective its group's number and its rank's position in it; and the groups.

    Raises:
        InputError: a node names a group that is not there, or that its rank is not in.
    """
    rows = np.flatnonzero(is_collective)
    _refuse_no_kind(nodes, rows)
    group = np.full(len(is_collective), -1, dtype=np.int64)
    position = group.copy()
    members: dict[str, tuple[int, ...]] = {}
    frame = nodes.table[rows].select("rank", pl.col("pg_name").fill_null("").cast(pl.String))
    for (name, rank), part in frame.with_row_index("row").group_by("pg_name", "rank", maintain_order=True):
        at = rows[part.get_column("row").to_numpy()]
        key = "0" if name in ALL_RANKS else str(name)
        ranks = tuple(range(world)) if key == "0" else _members(nodes, groups, key, int(at[0]))
        if rank not in ranks:
            raise nodes.problem(
                int(at[0]),
                f"its process group {name} is of ranks {_listed(ranks)}, without rank {rank}",
                f"Mend the group in {groups.path}, or the node's pg_name",
            )
        if max(ranks) >= world:
            raise nodes.problem(
                int(at[0]),
                f"its process group {name} names rank {max(ranks)}, and the job has ranks 0 to {world - 1}",
                f"Add the file of that rank, or mend the group in {groups.path}",
            )
        members.setdefault(key, ranks)
        group[at] = list(members).index(key)
        position[at] = ranks.index(rank)
    return group, position, list(members.values())


def _refuse_no_kind(nodes: RankNodes, rows: _Ints) -> None:
    """Raise InputError where a collective has no kind."""
    unknown = rows[nodes.ints("comm_type")[rows] < 0]
    if len(unknown):
        raise nodes.problem(
            int(unknown[0]),
            "it is a collective without a comm_type that Chakra knows",
            "Give it one, such as ALL_REDUCE",
        )


def _members(nodes: RankNodes, groups: Groups, name: str, row: int) -> tuple[int, ...]:
    """The ranks of a group.

    Raises:
        InputError: there is no such group.
    """
    if name not in groups.members:
        known = _listed(sorted(groups.members)) if groups.members else "none"
        where = groups.path or "there is no comm-group file"
        raise nodes.problem(
            row,
            f"its process group {name} is not known ({where}; groups: {known})",
            'Name the comm-group file with --comm-group: JSON such as {"1": [0, 1]}',
        )
    return groups.members[name]


def _pairs(nodes: RankNodes, sends: _Ints, receives: _Ints, world: int) -> _Ints:
    """A number for each (source, destination, tag, size), of sends and behind them of receives.

    Raises:
        InputError: a node names no other rank, or one that is not there.
    """
    rank, src, dst = (nodes.ints(name) for name in ("rank", "comm_src", "comm_dst"))
    _refuse_no_partner(nodes, sends, dst, world)
    _refuse_no_partner(nodes, receives, src, world)
    at = np.concatenate([sends, receives])
    source = np.concatenate([rank[sends], src[receives]])
    target = np.concatenate([dst[sends], rank[receives]])
    keys = np.stack([source, target, nodes.ints("comm_tag", 0)[at], nodes.ints("comm_size", 0)[at]])
    return np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _refuse_no_partner(nodes: RankNodes, rows: _Ints, partner: _Ints, world: int) -> None:
    """Raise InputError where a send or receive has no other rank that is there."""
    other = partner[rows]
    bad = rows[(other < 0) | (other >= world) | (other == nodes.ints("rank")[rows])]
    if len(bad):
        named = int(partner[bad[0]])
        other_rank = f"rank {named}" if named >= 0 else "no rank"
        raise nodes.problem(
            int(bad[0]),
            f"it sends to or receives from {other_rank}, and the job has ranks 0 to {world - 1}",
            "Mend its comm_dst or comm_src, or add the file of that rank",
        )


def _listed(values: object) -> str:
    return ", ".join(map(str, values))  # type: ignore[call-overload]
