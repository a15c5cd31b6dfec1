"""Chakra's traces run on networks: the answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.chakra.codes import CollectiveCommType, NodeType
from tracebraid.chakra.running.algorithms import Plan, rounds_of
from tracebraid.chakra.running.collective_cost import Collective, cost_of, message_ns
from tracebraid.chakra.running.meetings import (
    ALL_RANKS,
    Groups,
    Happened,
    Meetings,
    RankNodes,
    all_nodes,
    meetings,
    union_ns,
)
from tracebraid.chakra.running.network import CollectiveSettings, Lanes, Network
from tracebraid.chakra.running.play import COLLECTIVE, NEVER, RECEIVE, SEND, WORK, Program, play
from tracebraid.chakra.running.results import (
    CHAKRA_RUN_CHAIN,
    CHAKRA_RUN_COLLECTIVES,
    CHAKRA_RUN_RANKS,
    CHAKRA_RUN_STEPS,
    CHAKRA_RUN_WAITS,
    CHAKRA_RUNS,
    ChainPart,
    ChakraRun,
    ChakraRunNote,
    Waiting,
)
from tracebraid.chakra.schema import ChakraRank
from tracebraid.errors import ArgumentError
from tracebraid.model.column import Table
from tracebraid.model.quantities import NS_PER_US
from tracebraid.model.rows import distinct_rows

_IN_ASTRA_SIM = (
    *(CollectiveCommType.ALL_REDUCE, CollectiveCommType.ALL_GATHER, CollectiveCommType.REDUCE_SCATTER),
    *(CollectiveCommType.ALL_TO_ALL, CollectiveCommType.BROADCAST),
)


def notes_of(nodes: RankNodes, hardware: Sequence[Hardware]) -> tuple[ChakraRunNote, ...]:
    """Notes on the assumptions of an answer."""
    networks, lanes = [each.network for each in hardware], hardware[0].lanes
    kind, collective = nodes.ints("type"), nodes.ints("comm_type")
    is_collective = kind == NodeType.COMM_COLL_NODE
    communicates = kind >= NodeType.COMM_SEND_NODE
    is_modelled = any(not network.is_measured for network in networks)
    is_astra = lanes is Lanes.ASTRA_SIM
    measured = np.maximum(nodes.ints("duration_ns", 0), nodes.ints("duration_micros", 0))
    by_roofline = nodes.is_device_work & nodes.has_operations & hardware[0].settings.roofline
    is_work = (kind == NodeType.COMP_NODE) & (nodes.ints("duration_ns") >= 0) & ~by_roofline
    broadcasts = is_collective & (collective == CollectiveCommType.BROADCAST)
    others = is_collective & ~np.isin(collective, _IN_ASTRA_SIM)
    holds = {
        ChakraRunNote.MICROSECONDS: is_astra and bool(is_work.any()),
        ChakraRunNote.SHARED_LANE: is_astra and _has_streams(nodes),
        ChakraRunNote.BROADCAST_REPLAYED: is_astra and is_modelled and bool(broadcasts.any()),
        ChakraRunNote.LIKE_OTHERS: is_modelled and bool((others | (broadcasts & (not is_astra))).any()),
        ChakraRunNote.NO_TIME: any(network.is_measured for network in networks)
        and bool((measured[communicates] <= 0).any()),
        ChakraRunNote.SINGLE_RANK: len(nodes.paths) == 1,
        ChakraRunNote.NO_COLLECTIVES: not communicates.any(),
        ChakraRunNote.UNNUMBERED_GROUP: is_astra and is_modelled and _mixes_groups(nodes),
        ChakraRunNote.MEMORY: bool(np.isin(kind, (NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE)).any()),
        ChakraRunNote.ROOFLINE: bool(by_roofline.any()),
        ChakraRunNote.NO_WORK: hardware[0].settings.roofline
        and bool((nodes.is_device_work & ~nodes.has_operations).any()),
        ChakraRunNote.NO_RENDEZVOUS: hardware[0].rendezvous_bytes is not None
        and not _waits_for_receive(nodes, hardware[0]).any(),
    }
    return tuple(note for note, is_so in holds.items() if is_so)


def _mixes_groups(nodes: RankNodes) -> bool:
    """Return whether some collectives name a group and others do not."""
    collectives = nodes.table.filter(pl.col("type") == int(NodeType.COMM_COLL_NODE))
    is_unnamed = collectives.get_column("pg_name").cast(pl.String).fill_null("").is_in(ALL_RANKS)
    return bool(is_unnamed.any()) and not is_unnamed.all()


def _has_streams(nodes: RankNodes) -> bool:
    """Return whether work of a rank is on several streams."""
    work = nodes.table.filter(pl.col("type") == int(NodeType.COMP_NODE))
    return bool((work.group_by("rank").agg(pl.col("stream").drop_nulls().n_unique())["stream"] > 1).any())


def chain_of(happened: Happened) -> pl.DataFrame:
    """`CHAKRA_RUN_CHAIN` without the network."""
    links = list(_links(happened))
    schema = {name: dtype for name, dtype in CHAKRA_RUN_CHAIN.polars_schema().items() if name != "network"}
    if not links:
        return pl.DataFrame(schema=schema)
    row, duration = (list(column) for column in zip(*links, strict=True))
    parts, names = _parts(happened, row)
    frame = pl.DataFrame(
        {
            "part": parts,
            "name": names,
            "rank": happened.nodes.table.get_column("rank").gather(row),
            "duration_ns": pl.Series(duration, dtype=pl.Int64),
        }
    )
    total = max(sum(duration), 1)
    found = frame.group_by("part", "name").agg(
        pl.len().cast(pl.Int64).alias("nodes"),
        pl.col("duration_ns").sum(),
        (pl.col("duration_ns").sum() / total).alias("share"),
        pl.col("rank").unique().sort().alias("ranks"),
    )
    return found.sort("duration_ns", "part", "name", descending=[True, False, False]).select(list(schema))


def _links(happened: Happened) -> Iterator[tuple[int, int]]:
    """The nodes of the chain from the last end backwards, and the time of each in it."""
    played, role = happened.played, happened.program.role
    if not len(role) or played.end_ns.max() < 0:
        return
    row = int(played.end_ns.argmax())
    end = int(played.end_ns[row])
    while row != NEVER:
        # What came last is what this waited for.
        last = _last_of(happened, row)
        begin = int(played.start_ns[last])
        yield row, end - begin
        end, row = begin, int(played.cause[last])


def _last_of(happened: Happened, row: int) -> int:
    """The node that a collective, send or receive waited for; other nodes are their own."""
    played, role = happened.played, happened.program.role
    slot, begin = int(played.slot[row]), int(played.start_ns[row])
    send, receive = (NEVER, NEVER) if slot == NEVER else (int(played.last[slot]), int(played.receive[slot]))
    if role[row] == COLLECTIVE and send != NEVER:
        return send
    if role[row] == SEND and happened.program.rendezvous[row] and played.start_ns[receive] > begin:
        return receive
    waits = role[row] == RECEIVE and send != NEVER and played.latest_ns[slot] > begin
    if waits and not (happened.program.rendezvous[send] and played.start_ns[send] <= begin):
        return send
    return row


def _parts(happened: Happened, rows: list[int]) -> tuple[list[str], list[str]]:
    """The part and the name of each row."""
    at = np.array(rows, dtype=np.int64)
    communicates, is_host, is_compute = (
        part[at] for part in (happened.is_communication, happened.is_host, happened.nodes.is_device_work)
    )
    names = (
        happened.nodes.table.get_column("name").cast(pl.String).gather(rows).fill_null("").to_numpy().copy()
    )
    names[communicates] = happened.kinds(at[communicates])
    parts = {
        ChainPart.COLLECTIVE: communicates & (happened.meet.group[at] >= 0),
        ChainPart.MESSAGE: communicates,
        ChainPart.HOST: is_host,
        ChainPart.COMPUTE: is_compute,
    }
    found = np.select(list(parts.values()), [part.value for part in parts], ChainPart.OTHER.value)
    return found.tolist(), names.tolist()


def waits_of(happened: Happened) -> pl.DataFrame:
    """Build `CHAKRA_RUN_WAITS` without the network: issued nodes that never ended."""
    played = happened.played
    schema = {name: dtype for name, dtype in CHAKRA_RUN_WAITS.polars_schema().items() if name != "network"}
    stuck = np.flatnonzero((played.start_ns >= 0) & ~happened.done)
    at_rank: dict[int, int] = {}
    rank = happened.nodes.ints("rank")
    for row in stuck.tolist():
        at_rank.setdefault(int(rank[row]), row)
    rows = [line for row in stuck.tolist() for line in _lines(happened, row, at_rank)]
    return pl.DataFrame(rows, schema=schema)


def _lines(happened: Happened, row: int, at_rank: dict[int, int]) -> Iterator[dict[str, Any]]:
    """A line for each rank that a node waits for."""
    played, role = happened.played, happened.program.role
    slot = int(played.slot[row])
    if role[row] in (SEND, RECEIVE):
        is_send = role[row] == SEND
        other = int(happened.nodes.ints("comm_dst" if is_send else "comm_src")[row])
        why = Waiting.RECEIVE_MISSING if is_send else Waiting.SEND_MISSING
        yield _line(happened, row, why, (other, at_rank.get(other, NEVER)))
        return
    differs = int(played.differs[slot])
    if differs != NEVER:
        members = _members(happened, slot)
        signature = happened.program.signature
        for other_row in members:
            if signature[other_row] != signature[row]:
                other = int(happened.nodes.ints("rank")[other_row])
                yield _line(happened, row, Waiting.MEMBERS_DISAGREE, (other, other_row))
        return
    come = {int(happened.nodes.ints("rank")[member]) for member in _members(happened, slot)}
    for other in sorted(set(happened.meet.groups[int(happened.meet.group[row])]) - come):
        yield _line(happened, row, Waiting.MEMBER_MISSING, (other, at_rank.get(other, NEVER)))


def _members(happened: Happened, slot: int) -> list[int]:
    """The nodes that met in a slot."""
    met: list[int] = np.flatnonzero(
        (happened.played.slot == slot) & (happened.program.role == COLLECTIVE)
    ).tolist()
    return met


def _line(happened: Happened, row: int, why: Waiting, other: tuple[int, int]) -> dict[str, Any]:
    node, other_rank, other_row = _named(happened, row), *other
    there = (
        _named(happened, other_row) if other_row != NEVER else {"node_id": None, "name": None, "what": None}
    )
    return {
        **node,
        "why": why.value,
        "other_rank": other_rank,
        **{f"other_{key}": there[key] for key in ("node_id", "name", "what")},
    }


def _named(happened: Happened, row: int) -> dict[str, Any]:
    table = happened.nodes.table
    columns = ("rank", "node_id", "name", "comm_size", "comm_src", "comm_dst", "comm_tag", "pg_name")
    node = table.select(columns)[row].to_dicts()[0]
    kind = happened.kinds(np.array([row]))[0] if happened.is_communication[row] else ""
    if happened.program.role[row] == COLLECTIVE or happened.is_replayed[row]:
        what = f"{kind} of {node['comm_size']} bytes in group {node['pg_name'] or 'of all ranks'}"
    elif kind:
        to = f"from rank {node['comm_src']}" if kind == "RECEIVE" else f"to rank {node['comm_dst']}"
        what = f"{kind} {to}, tag {node['comm_tag']}, {node['comm_size']} bytes"
    else:
        what = "work"
    return {"rank": node["rank"], "node_id": node["node_id"], "name": str(node["name"]), "what": what}


_Ints = NDArray[np.int64]


def ranks_of(happened: Happened) -> pl.DataFrame:
    """`CHAKRA_RUN_RANKS` without the network."""
    rank = happened.nodes.ints("rank")
    bounds = np.searchsorted(rank, np.arange(len(happened.nodes.paths) + 1))
    rows = [
        _rank(happened, number, slice(first, last))
        for number, (first, last) in enumerate(pairwise(bounds.tolist()))
    ]
    return pl.DataFrame(rows, schema=_schema(CHAKRA_RUN_RANKS.polars_schema()))


def _rank(happened: Happened, number: int, own: slice) -> dict[str, int]:
    done = happened.done[own]
    start, end = happened.played.start_ns[own], happened.played.end_ns[own]

    def covered(chosen: NDArray[np.bool_]) -> int:
        chosen = chosen & done
        first, last = union_ns(start[chosen], end[chosen])
        return int((last - first).sum())

    compute, host, communication = (
        part[own] for part in (happened.nodes.is_device_work, happened.is_host, happened.is_communication)
    )
    finish = int(end.max(initial=0))
    computing = covered(compute)
    return {
        "rank": number,
        "end_ns": finish,
        "nodes": int(np.count_nonzero(done)),
        "compute_ns": computing,
        "host_ns": covered(host),
        "communication_ns": covered(communication),
        "exposed_communication_ns": covered(compute | communication) - computing,
        "waiting_ns": int(happened.waiting_ns[own][done].sum()),
        "idle_ns": finish - covered(np.ones(len(done), dtype=np.bool_)),
        "not_computing_ns": finish - int((end - start)[compute & done].sum()),
    }


def steps_of(happened: Happened) -> pl.DataFrame:
    """`CHAKRA_RUN_STEPS` without the network; by the start of the steps."""
    schema = _schema(CHAKRA_RUN_STEPS.polars_schema())
    frame = happened.nodes.table.select("rank", pl.col("step").cast(pl.String)).with_columns(
        pl.Series("start_ns", happened.played.start_ns), pl.Series("end_ns", happened.played.end_ns)
    )
    frame = frame.filter(pl.col("step").is_not_null(), pl.col("end_ns") >= 0)
    times = (pl.col("start_ns").min(), pl.col("end_ns").max())
    of_ranks = frame.group_by("step", "rank", maintain_order=True).agg(*times)
    of_all = frame.group_by("step", maintain_order=True).agg(*times)
    of_all = of_all.with_columns(pl.lit(None, dtype=pl.Int64).alias("rank")).select(of_ranks.columns)
    rows = pl.concat([of_all, of_ranks]).sort(
        pl.col("rank").is_not_null(), "rank", "start_ns", "end_ns", "step"
    )
    before = pl.col("end_ns").shift().over("rank", order_by="start_ns")
    return rows.with_columns(duration_ns=pl.col("end_ns") - before.fill_null(pl.col("start_ns"))).select(
        list(schema)
    )


def collectives_of(happened: Happened) -> pl.DataFrame:
    """`CHAKRA_RUN_COLLECTIVES` without the network."""
    rows = np.flatnonzero(happened.is_communication & happened.done)
    played = happened.played
    waiting = happened.waiting_ns[rows]
    # A send and its receive are one message, which each of them counts; what meets nobody counts for itself.
    alone = happened.is_replayed[rows]
    frame = pl.DataFrame(
        {
            "kind": pl.Series(happened.kinds(rows), dtype=pl.String),
            "slot": np.where(alone, -1 - rows, played.slot[rows]),
            "size_bytes": happened.nodes.ints("comm_size", 0)[rows],
            "waiting_ns": waiting,
            "transfer_ns": (played.end_ns - played.start_ns)[rows] - waiting,
        }
    )
    found = frame.group_by("kind").agg(
        pl.col("slot").n_unique().cast(pl.Int64).alias("count"),
        pl.len().cast(pl.Int64).alias("nodes"),
        pl.col("size_bytes", "waiting_ns", "transfer_ns").sum(),
    )
    found = found.sort("transfer_ns", "kind", descending=[True, False])
    return found.select(name for name in CHAKRA_RUN_COLLECTIVES.polars_schema() if name != "network")


def _schema(schema: dict[str, pl.DataType]) -> dict[str, pl.DataType]:
    return {name: dtype for name, dtype in schema.items() if name != "network"}


_SHORTEST_NS = 1
"""ASTRA-sim's time of a node whose duration is 0."""
_MOST_NS = 2.0**62
"""Longest time of work: a few of them can be added up in 64 bits."""
_HOST = 0
_COMPUTE = 1
_COMMUNICATION = 2
"""Lanes of a rank in ASTRA-sim."""
_LANES_OF_RANK = 3
_NO_TIME = (NodeType.METADATA_NODE, NodeType.INVALID_NODE)
"""Types that take neither time nor a lane."""


class Hardware(Struct, frozen=True):
    """Hardware of nodes.

    Args:
        network: between ranks.
        settings: how collectives are done, and the roofline of work.
        lanes: concurrency within a rank.
        rendezvous_bytes: the size from which on a send waits for its receive; None: none does.
    """

    network: Network
    settings: CollectiveSettings
    lanes: Lanes
    rendezvous_bytes: int | None = None


def program_of(nodes: RankNodes, meet: Meetings, hardware: Hardware) -> Program:
    """The nodes as `play` takes them."""
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
        meet.slot, meet.counter, meet.expected, meet.signature, meet.position, plan,
        _waits_for_receive(nodes, hardware), rounds_of(plans),
    )  # fmt: skip


def _waits_for_receive(nodes: RankNodes, hardware: Hardware) -> NDArray[np.bool_]:
    """Return whether each node is a send that waits for its receive."""
    sends: NDArray[np.bool_] = nodes.ints("type") == NodeType.COMM_SEND_NODE
    if hardware.rendezvous_bytes is None:
        return np.zeros(len(sends), dtype=np.bool_)
    # A size beyond 64 bits is that of no message.
    least = min(hardware.rendezvous_bytes, np.iinfo(np.int64).max)
    return sends & (nodes.ints("comm_size", 0) >= least)


def lanes_of(nodes: RankNodes, kind: _Ints, lanes: Lanes) -> _Ints:
    """Return the lane of each node; receives have none, as a rank waits for messages concurrently."""
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
    _, lane[named] = distinct_rows(rank[named], stream[named], thread[named])
    return lane


def _own_ns(nodes: RankNodes, kind: _Ints, hardware: Hardware) -> _Ints:
    """Durations of nodes from the files, or of a roofline; ASTRA-sim reads whole microseconds, and uses 1 ns for 0."""
    micros = nodes.ints("duration_micros", 0) * NS_PER_US
    exact = nodes.ints("duration_ns")
    if hardware.lanes is not Lanes.ASTRA_SIM:
        own = np.where(exact >= 0, exact, micros)
    else:
        by_file = np.isin(kind, (NodeType.COMM_COLL_NODE, NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE))
        own = np.where(by_file & (exact >= 0) & hardware.network.is_measured, exact, micros)
        own = np.maximum(own, _SHORTEST_NS)
    own = np.where(np.isin(kind, _NO_TIME), 0, np.maximum(own, 0))
    if hardware.settings.roofline:
        rows = np.flatnonzero(nodes.is_device_work & nodes.has_operations)
        own[rows] = _roofline_ns(nodes, rows, hardware.settings)
    else:
        _refuse_no_duration(nodes)
    return own


def _roofline_ns(nodes: RankNodes, rows: _Ints, settings: CollectiveSettings) -> _Ints:
    """Time of work by its operations and bytes, in the arithmetic of ASTRA-sim (Workload.cc, Roofline.cc).

    Work without bytes takes no time there. Where it divides 0 by 0, work without operations takes that of its bytes.
    """
    operations, moved = (nodes.ints(name)[rows].astype(np.float64) for name in ("num_ops", "tensor_size"))
    bytes_per_s, peak_per_s = settings.memory_bytes_per_ns * 1e9, settings.peak_tflops * 1e12
    intensity = operations / np.maximum(moved, 1)
    per_s = np.minimum(bytes_per_s * intensity, peak_per_s)
    seconds = np.where(operations > 0, operations / np.maximum(per_s, 1e-300), moved / bytes_per_s)
    return np.where(moved > 0, np.minimum(seconds * 1e9, _MOST_NS), 0).astype(np.int64)


def _refuse_no_duration(nodes: RankNodes) -> None:
    """Raise InputError if work has operations and no duration: it would take no time."""
    timed = (nodes.ints("duration_micros", 0) > 0) | (nodes.ints("duration_ns") >= 0)
    rows = np.flatnonzero(nodes.is_device_work & ~timed & (nodes.ints("num_ops") > 0))
    if len(rows):
        others = f", and so have {len(rows) - 1:,} other nodes" if len(rows) > 1 else ""
        raise nodes.problem(
            int(rows[0]),
            f"it has operations (num_ops) and no duration{others}",
            'Name a system file with --system that has "roofline-enabled": 1, "peak-perf" (TFLOPS) and "local-mem-bw" '
            "(GB/s), as ASTRA-sim needs it for these files",
        )


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
    different, which = distinct_rows(meet.group[at], kinds[at], sizes[at])
    plans: list[Plan] = []
    for number, (group, kind, size) in enumerate(np.stack(different, axis=1).tolist()):
        rows = at[which == number]
        collective = Collective(CollectiveCommType(kind), size, meet.groups[group], len(nodes.paths))
        cost = cost_of(collective, hardware.network, hardware.settings)
        duration[rows] = cost.even_ns[meet.position[rows]]
        if cost.plan is not None:
            plan[rows] = len(plans)
            plans.append(cost.plan)
    return plans


def _refuse_ranks(network: Network, world: int) -> None:
    """Raise ArgumentError if network and job have different numbers of ranks."""
    named = [dimension.ranks for dimension in network.dimensions]
    ranks = int(np.prod([count or world for count in named]))
    if ranks != world or (len(named) > 1 and None in named):
        raise ArgumentError(
            f"the network {network.name} has {ranks} ranks, and the job has {world}: name the ranks of each of its "
            "dimensions so that their product is the job's"
        )


def _refuse_no_size(nodes: RankNodes, rows: _Ints) -> None:
    """Raise InputError if communication has no size."""
    kind = nodes.ints("comm_type")
    none = rows[(nodes.ints("comm_size")[rows] < 0) & (kind[rows] != CollectiveCommType.BARRIER)]
    if len(none):
        raise nodes.problem(
            int(none[0]),
            "it communicates without a comm_size",
            "Give it one, in bytes, or run with --network measured",
        )


def run_ranks(
    ranks: Iterable[tuple[str, ChakraRank]],
    groups: Groups,
    networks: Sequence[Network],
    settings: CollectiveSettings,
    lanes: Lanes,
    rendezvous_bytes: int | None = None,
) -> ChakraRun:
    """Run ranks on networks, one after another."""
    nodes = all_nodes(ranks)
    meet = meetings(nodes, groups)
    hardware = [Hardware(network, settings, lanes, rendezvous_bytes) for network in networks]
    happened = [_happened(nodes, meet, each) for each in hardware]
    tables = {
        table.name: _together(
            table, [(each.network.name, make(what)) for each, what in zip(hardware, happened, strict=True)]
        )
        for table, make in _TABLES.items()
    }
    notes = notes_of(nodes, hardware)
    return ChakraRun(
        runs=_runs(happened, [network.name for network in networks], tables[CHAKRA_RUN_RANKS.name]),
        ranks=tables[CHAKRA_RUN_RANKS.name],
        steps=tables[CHAKRA_RUN_STEPS.name],
        collectives=tables[CHAKRA_RUN_COLLECTIVES.name],
        chain=tables[CHAKRA_RUN_CHAIN.name],
        waits=tables[CHAKRA_RUN_WAITS.name],
        networks=tuple(networks),
        settings=settings,
        lanes=lanes,
        rendezvous_bytes=rendezvous_bytes,
        notes=notes,
    )


_TABLES = {
    CHAKRA_RUN_RANKS: ranks_of,
    CHAKRA_RUN_STEPS: steps_of,
    CHAKRA_RUN_COLLECTIVES: collectives_of,
    CHAKRA_RUN_CHAIN: chain_of,
    CHAKRA_RUN_WAITS: waits_of,
}


def _happened(nodes: RankNodes, meet: Meetings, hardware: Hardware) -> Happened:
    program = program_of(nodes, meet, hardware)
    lanes = int(program.lane.max(initial=-1)) + 1
    return Happened(nodes, meet, program, play(program, lanes, meet.counters, meet.slots))


def _together(table: Table, parts: list[tuple[str, pl.DataFrame]]) -> pl.DataFrame:
    """The same table of several networks."""
    frames = [table.conform(frame.with_columns(pl.lit(name).alias("network"))) for name, frame in parts]
    return pl.concat(frames)


def _runs(happened: Sequence[Happened], names: Sequence[str], ranks: pl.DataFrame) -> pl.DataFrame:
    count = ranks.height // len(names)
    rows: list[dict[str, Any]] = []
    for number, (name, what) in enumerate(zip(names, happened, strict=True)):
        own = ranks[number * count : (number + 1) * count]
        done = what.played.end_ns >= 0
        rows.append(
            {
                "network": name,
                "is_finished": bool(done.all()),
                "end_ns": int(what.played.end_ns.max(initial=0)),
                "compute_ns": _mean(own, "compute_ns"),
                "exposed_communication_ns": _mean(own, "exposed_communication_ns"),
                "speedup": None,
                "nodes": int(np.count_nonzero(done)),
            }
        )
    first = rows[0]
    for row in rows:
        if first["is_finished"] and row["is_finished"] and row["end_ns"]:
            row["speedup"] = first["end_ns"] / row["end_ns"]
    return pl.DataFrame(rows, schema=CHAKRA_RUNS.polars_schema())


def _mean(ranks: pl.DataFrame, column: str) -> int:
    return round(ranks.get_column(column).mean() or 0)  # type: ignore[arg-type]
