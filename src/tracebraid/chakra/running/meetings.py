"""Match communication between ranks: groups of collectives, pairs of sends and receives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.chakra.codes import CollectiveCommType, NodeType
from tracebraid.chakra.running.play import COLLECTIVE, RECEIVE, WORK, Played, Program
from tracebraid.chakra.schema import ChakraRank, NodeDeps
from tracebraid.errors import InputError
from tracebraid.model.rows import distinct_rows
from tracebraid.native.loops import native_loop

_Ints = NDArray[np.int64]

_COLUMNS = (
    *("node_id", "name", "duration_micros", "duration_ns", "is_cpu_op", "comm_size", "comm_src", "comm_dst"),
    *("comm_tag", "pg_name", "num_ops", "tensor_size", "step", "stream", "thread"),
)
_CYCLE_SHOWN = 8
"""Nodes of a cycle that an error names."""


class RankNodes(Struct, frozen=True, eq=False, dict=True):
    """The nodes of all ranks.

    Args:
        table: their columns of `CHAKRA_NODES` that matter here, with `rank`, and `type` and `comm_type` as numbers (-1:
            none, or of no known name); by rank and id.
        paths: the file of each rank, by its number.
        first: where the nodes that wait for each begin in `after`; one entry more than there are nodes.
        after: the rows that wait.
        waits: how many rows each waits for.
    """

    table: pl.DataFrame
    paths: tuple[str, ...]
    first: _Ints
    after: _Ints
    waits: _Ints

    def ints(self, column: str, none: int = -1) -> _Ints:
        """A column of integers."""
        found: _Ints = self.table.get_column(column).cast(pl.Int64).fill_null(none).to_numpy()
        return found

    @cached_property
    def is_device_work(self) -> NDArray[np.bool_]:
        """Return whether each node computes on the device."""
        is_host = self.table.get_column("is_cpu_op").fill_null(value=False).to_numpy()
        found: NDArray[np.bool_] = (self.ints("type") == NodeType.COMP_NODE) & ~is_host
        return found

    @cached_property
    def has_operations(self) -> NDArray[np.bool_]:
        """Return whether each node says what a roofline needs."""
        found: NDArray[np.bool_] = (self.ints("num_ops") >= 0) & (self.ints("tensor_size") >= 0)
        return found

    def problem(self, row: int, problem: str, advice: str) -> InputError:
        """The error of a node."""
        rank, node = self.table.select("rank", "node_id").row(row)
        return InputError(self.paths[rank], problem, advice, f"node {node}")


def all_nodes(ranks: Iterable[tuple[str, ChakraRank]]) -> RankNodes:
    """Gather the nodes of all ranks in turn, without keeping a whole rank."""
    tables: list[pl.DataFrame] = []
    paths: list[str] = []
    before: list[_Ints] = []
    after: list[_Ints] = []
    base = 0
    for number, (path, rank) in enumerate(ranks):
        table = _table(rank, number)
        order = table.get_column("node_id").arg_sort()
        ids = table.get_column("node_id").to_numpy()[order.to_numpy()]
        _refuse_twice(path, ids)
        position = np.empty(len(order), dtype=np.int64)
        position[order.to_numpy()] = np.arange(len(order))
        pairs = [_pairs(path, rank, deps, ids) for deps in (rank.data_deps, rank.ctrl_deps)]
        before.extend(pair[0] + base for pair in pairs)
        after.extend(position[pair[1]] + base for pair in pairs)
        tables.append(table[order])
        paths.append(path)
        base += len(order)
    if not tables:
        raise InputError(
            "", "there is no .et file", "Name a folder with a file for each rank, such as job.0.et"
        )
    joined = pl.concat(tables, rechunk=True)
    found = _joined(joined, tuple(paths), np.concatenate(before), np.concatenate(after))
    _refuse_cycles(found)
    return found


def _table(rank: ChakraRank, number: int) -> pl.DataFrame:
    codes = [
        pl.col(name)
        .cast(pl.String)
        .replace_strict({code.name: int(code) for code in enum}, default=-1, return_dtype=pl.Int64)
        for name, enum in (("type", NodeType), ("comm_type", CollectiveCommType))
    ]
    return rank.nodes.select(pl.lit(number, dtype=pl.Int64).alias("rank"), *codes, *_COLUMNS)


def _pairs(path: str, rank: ChakraRank, deps: NodeDeps, ids: _Ints) -> tuple[_Ints, _Ints]:
    """Rows among sorted ids that are waited for, and rows of the file that wait."""
    rows = deps.rows()
    found_at = np.searchsorted(ids, deps.node_id)
    known = (
        ids[np.minimum(found_at, len(ids) - 1)] == deps.node_id if len(ids) else np.zeros(0, dtype=np.bool_)
    )
    if not known.all():
        bad = int(np.argmin(known))
        node = rank.nodes.get_column("node_id")[int(rows[bad])]
        raise InputError(
            path,
            f"it depends on node {deps.node_id[bad]}, which the file does not contain",
            "Is the file truncated, or were nodes filtered? Write it again, or see: tracebraid chakra check",
            f"node {node}",
        )
    return found_at, rows


def _joined(table: pl.DataFrame, paths: tuple[str, ...], before: _Ints, after: _Ints) -> RankNodes:
    count = table.height
    # A data and a control dependency may be the same.
    key = np.sort(before * count + after)
    key = key[np.diff(key, prepend=-1) > 0]
    before, after = key // max(count, 1), key % max(count, 1)
    first = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(before, minlength=count), out=first[1:])
    return RankNodes(table, paths, first, after, np.bincount(after, minlength=count).astype(np.int64))


def _refuse_twice(path: str, ids: _Ints) -> None:
    """Raise InputError for duplicate ids."""
    twice = ids[1:][ids[1:] == ids[:-1]]
    if len(twice):
        raise InputError(path, "its id occurs twice", "Ids must be unique in a file", f"node {twice[0]}")


def _refuse_cycles(nodes: RankNodes) -> None:
    """Raise InputError for cyclic dependencies."""
    waits = _unreached(nodes.first, nodes.after, nodes.waits)
    left = np.flatnonzero(waits)
    if not len(left):
        return
    before = np.repeat(np.arange(len(waits)), np.diff(nodes.first))
    inside = (waits[before] > 0) & (waits[nodes.after] > 0)
    waits_for = dict(zip(nodes.after[inside].tolist(), before[inside].tolist(), strict=True))
    seen: dict[int, None] = {}
    row = int(left[0])
    while row not in seen:
        seen[row] = None
        row = waits_for[row]
    circle = list(seen)[list(seen).index(row) :]
    ids = nodes.table.get_column("node_id").gather(circle).to_list()
    shown = " > ".join(
        str(node) for node in [*ids[:_CYCLE_SHOWN], *(["..."] if len(ids) > _CYCLE_SHOWN else []), ids[0]]
    )
    raise nodes.problem(
        row,
        f"{len(ids)} nodes wait for each other in a circle: {shown}",
        "None of them can ever start: remove one of these dependencies",
    )


@native_loop
def _unreached(first: _Ints, after: _Ints, waits: _Ints) -> _Ints:
    """Remaining dependencies of each node after everything runnable has run; 0 if it ran."""
    left: _Ints = waits.copy()
    stack = np.empty(len(left), dtype=np.int64)
    size = 0
    for row in range(len(left)):
        if left[row] == 0:
            stack[size] = row
            size += 1
    while size > 0:
        size -= 1
        row = stack[size]
        for index in range(first[row], first[row + 1]):
            left[after[index]] -= 1
            if left[after[index]] == 0:
                stack[size] = after[index]
                size += 1
    return left


ALL_RANKS = ("", "0")
"""Names of the group of all ranks. Two groups of other names do not meet, though they have the same ranks."""


class Groups(Struct, frozen=True):
    """Process groups.

    Args:
        path: the file that lists them; "": none.
        members: the ranks of each, in its order.
    """

    path: str
    members: Mapping[str, tuple[int, ...]]


class Meetings(Struct, frozen=True, eq=False):
    """Meetings of communication nodes; each array has an entry for each node, -1 if it has none.

    Args:
        groups: the members of each group that nodes name, by its number here.
        group: of a collective its group.
        position: of a collective the position of its rank in the group.
        slot: the first slot of the group, or of the pair of ranks with a tag and size.
        counter: the counter of consumed slots.
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
    """Match communication between ranks."""
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
        pair = _message_pairs(nodes, sends, receives, world)
        pairs = int(pair.max()) + 1
        counter[at] = counters + 2 * pair + (np.arange(len(at)) >= len(sends))
        of_pairs, more = _first_slots(pair, counter[at], pairs)
        slot[at] = of_pairs + slots
        slots, counters = slots + more, counters + 2 * pairs
    signature = nodes.ints("comm_type") + (nodes.ints("comm_size", 0) << len(CollectiveCommType).bit_length())
    return Meetings(tuple(members), group, position, slot, counter, expected, signature, counters, slots)


def _first_slots(of: _Ints, counter: _Ints, count: int) -> tuple[_Ints, int]:
    """The first slot of each node's group or pair, which has as many as its busiest counter; and how many there are."""
    most = np.zeros(count, dtype=np.int64)
    (used, _), which = distinct_rows(of, counter)
    np.maximum.at(most, used, np.bincount(which, minlength=len(used)))
    first = np.concatenate([[0], np.cumsum(most)])
    return first[of], int(first[-1])


def _of_groups(
    nodes: RankNodes, groups: Groups, is_collective: NDArray[np.bool_], world: int
) -> tuple[_Ints, _Ints, list[tuple[int, ...]]]:
    """Group number and position of each collective's rank; and the groups."""
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
    """Raise InputError if a collective has no type."""
    unknown = rows[nodes.ints("comm_type")[rows] < 0]
    if len(unknown):
        raise nodes.problem(
            int(unknown[0]),
            "it is a collective without a comm_type that Chakra knows",
            "Give it one, such as ALL_REDUCE",
        )


def _members(nodes: RankNodes, groups: Groups, name: str, row: int) -> tuple[int, ...]:
    """The ranks of a group."""
    if name not in groups.members:
        known = _listed(sorted(groups.members)) if groups.members else "none"
        where = groups.path or "there is no comm-group file"
        raise nodes.problem(
            row,
            f"its process group {name} is not known ({where}; groups: {known})",
            'Name the comm-group file with --comm-group: JSON such as {"1": [0, 1]}',
        )
    return groups.members[name]


def _message_pairs(nodes: RankNodes, sends: _Ints, receives: _Ints, world: int) -> _Ints:
    """A number for each (source, destination, tag, size), of sends and behind them of receives."""
    rank, src, dst = (nodes.ints(name) for name in ("rank", "comm_src", "comm_dst"))
    _refuse_no_partner(nodes, sends, dst, world)
    _refuse_no_partner(nodes, receives, src, world)
    at = np.concatenate([sends, receives])
    source = np.concatenate([rank[sends], src[receives]])
    target = np.concatenate([dst[sends], rank[receives]])
    _, pair = distinct_rows(source, target, nodes.ints("comm_tag", 0)[at], nodes.ints("comm_size", 0)[at])
    return pair


def _refuse_no_partner(nodes: RankNodes, rows: _Ints, partner: _Ints, world: int) -> None:
    """Raise InputError if the peer of a send or receive does not exist."""
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


class Happened(Struct, frozen=True, eq=False, dict=True):
    """Result of a run.

    Args:
        nodes: of all ranks.
        meet: who was to meet whom.
        program: the duration of each node.
        played: when each ran.
    """

    nodes: RankNodes
    meet: Meetings
    program: Program
    played: Played

    @cached_property
    def done(self) -> NDArray[np.bool_]:
        """Return whether each node ended."""
        return self.played.end_ns >= 0

    @cached_property
    def is_communication(self) -> NDArray[np.bool_]:
        """Return whether each node is a collective, send or receive."""
        found: NDArray[np.bool_] = self.nodes.ints("type") >= NodeType.COMM_SEND_NODE
        return found

    @cached_property
    def is_host(self) -> NDArray[np.bool_]:
        """Return whether each node is work of the host."""
        is_host: NDArray[np.bool_] = (
            self.nodes.table.get_column("is_cpu_op").fill_null(value=False).to_numpy()
        )
        found: NDArray[np.bool_] = is_host & (self.nodes.ints("type") == NodeType.COMP_NODE)
        return found

    @cached_property
    def waiting_ns(self) -> _Ints:
        """Waiting time of finished communication until its last member, message or receive arrived; else 0."""
        waiting = np.zeros(len(self.done), dtype=np.int64)
        role = self.program.role
        met = np.flatnonzero(self.done & ((role == COLLECTIVE) | (role == RECEIVE)))
        came = self.played.latest_ns[self.played.slot[met]]
        waiting[met] = np.maximum(came - self.played.start_ns[met], 0)
        sends = np.flatnonzero(self.done & self.program.rendezvous)
        lasted = (self.played.end_ns - self.played.start_ns)[sends]
        waiting[sends] = lasted - self.program.duration_ns[sends]
        return waiting

    def kinds(self, rows: _Ints) -> list[str]:
        """Communication type of some nodes."""
        kind, collective = self.nodes.ints("type")[rows], self.nodes.ints("comm_type")[rows]
        names = {NodeType.COMM_SEND_NODE: "SEND", NodeType.COMM_RECV_NODE: "RECEIVE"}
        return [
            names.get(NodeType(node)) or CollectiveCommType(other).name
            for node, other in zip(kind.tolist(), collective.tolist(), strict=True)
        ]

    @cached_property
    def is_replayed(self) -> NDArray[np.bool_]:
        """Return whether each node is communication without a partner."""
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
