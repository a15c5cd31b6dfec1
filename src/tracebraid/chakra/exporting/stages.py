"""A stage of a pipeline as the nodes of a rank: its part of what a rank did without stages, and messages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.chakra.codes import NodeType
from tracebraid.chakra.dependencies import ends
from tracebraid.chakra.exporting.reduction import node_lanes, reduced
from tracebraid.chakra.exporting.tasks import DELAY, rounded_micros
from tracebraid.chakra.schema import CHAKRA_NODES, ChakraRank, NodeDeps
from tracebraid.model.expressions import as_text
from tracebraid.model.graph import ActivityKind, EdgeKind, RankGraph
from tracebraid.model.pipeline import ALL_STAGES, PipelineWork
from tracebraid.model.quantities import NS_PER_US

_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]
_NONE = -1
_SEND, _RECEIVE = NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE


class _Placed(Struct, frozen=True, eq=False):
    """Nodes of a rank in the order of a stage.

    Args:
        place: of each node its place in that order.
        position: the position of its block.
        lane: its thread or stream; all communication is one.
        kept: whether the stage has it.
        by_lane: all nodes by lane and place.
    """

    place: _Ints
    position: _Ints
    lane: _Ints
    kept: _Flags
    by_lane: _Ints

    @classmethod
    def of(cls, position: _Ints, lane: _Ints, kept: _Flags, behind: _Ints) -> _Placed:
        """Place nodes by the position of their block, then by row, but some right behind another row."""
        rows = np.arange(len(position))
        place = np.empty(len(rows), dtype=np.int64)
        place[np.lexsort((rows, behind != rows, behind, position))] = rows
        return cls(place, position, lane, kept, np.lexsort((place, lane)))

    def last_kept(self) -> _Ints:
        """The last node of its lane up to each that the stage has; -1: there is none."""
        return self._nearest(self.by_lane)

    def next_kept(self) -> _Ints:
        """The next node of its lane from each on that the stage has; -1: there is none."""
        return self._nearest(self.by_lane[::-1])

    def _nearest(self, order: _Ints) -> _Ints:
        at = np.maximum.accumulate(np.where(self.kept[order], np.arange(len(order)), _NONE))
        near = np.where(at >= 0, order[at], _NONE)
        found = np.full(len(order), _NONE, dtype=np.int64)
        found[order] = np.where(self.lane[near] == self.lane[order], near, _NONE)
        return found


def as_stage(rank: ChakraRank, graph: RankGraph, work: PipelineWork, pipeline: Sequence[int]) -> ChakraRank:
    """The stage that a rank does of what its nodes do without stages.

    Passes are in the order of 1F1B. A node waits for what it waited for, of another stage's for what is before that on
    its thread or stream, unless the order is the other way round now. The first work of a pass on each thread or stream
    waits for the message from the stage before, and the message to the next one for the last work.

    Args:
        rank: all nodes.
        graph: the graph that they are from.
        work: what each stage does.
        pipeline: the ranks of the stages; one of them is this rank.
    """
    stage, nodes = tuple(pipeline).index(rank.rank), rank.nodes
    asked = _asked(rank, graph, work)
    block = work.block[asked.interval]
    kept = np.isin(work.stage[asked.interval], (stage, ALL_STAGES)) | asked.divided
    placed = _placed(asked, work.order[stage][block], kept)
    nodes = _shared(nodes, asked.divided | work.is_update[asked.interval], work.share[stage])
    found = _messages(nodes, placed, block, work, (stage, tuple(pipeline)))
    pairs = (
        _pairs(rank.data_deps, placed, asked),
        _between_blocks(placed, asked),
        _of_collectives(nodes, placed, asked),
        found.pairs,
    )
    before, after = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    rows = np.r_[np.flatnonzero(kept), len(kept) + np.arange(found.nodes.height)]
    position, place = np.r_[placed.position, found.position], np.r_[placed.place, found.place]
    rows = rows[np.lexsort((place[rows], position[rows]))]
    number = np.full(len(position), _NONE)
    number[rows] = np.arange(len(rows))
    own = pl.concat([nodes, found.nodes])[pl.Series(rows)].with_columns(
        node_id=pl.int_range(pl.len(), dtype=pl.Int64)
    )
    lanes, _ = node_lanes(own)
    deps = reduced(number[before], number[after], lanes)
    return _timed(
        replace(
            rank,
            attributes=(*rank.attributes, ("pipeline_stage", stage)),
            nodes=own,
            data_deps=NodeDeps.of_pairs(deps.before, deps.after, np.arange(len(rows))),
            ctrl_deps=NodeDeps.none(len(rows)),
        ),
        lanes,
    )


class _Asked(Struct, frozen=True, eq=False):
    """Nodes by what the host does.

    Args:
        interval: the interval of `PipelineWork` in which the host asks for each.
        lane: its thread or stream; all communication is one.
        communicates: whether it is communication.
        divided: whether it is communication of which each stage does its share.
        is_host: whether a thread that calls ops does it, or the only lane.
    """

    interval: _Ints
    lane: _Ints
    communicates: _Flags
    divided: _Flags
    is_host: _Flags


def _asked(rank: ChakraRank, graph: RankGraph, work: PipelineWork) -> _Asked:
    """When the host asks for each node: for work of a device at its launch, for a delay when for what it delays."""
    assert rank.spans_ns is not None, "nodes that were made of a trace have their times"
    of_event = _facts_of_events(graph, work)
    with_ops = graph.activities.filter(as_text("kind") == ActivityKind.OP.value).get_column("lane").unique()
    columns = (
        rank.nodes.join(of_event, on="event_id", how="left", maintain_order="left")
        .with_columns(communicates=as_text("type") != NodeType.COMP_NODE.name)
        .select(
            "interval",
            "communicates",
            (pl.col("communicates") & pl.col("divided").fill_null(value=False)).alias("divided"),
            pl.when("communicates").then("lane").otherwise("thread").fill_null(_NONE).alias("thread"),
            pl.col("thread").is_in(with_ops.implode()).fill_null(value=False).alias("calls"),
            ((as_text("kind") == DELAY) & pl.col("thread").is_null()).alias("delays"),
        )
    )
    communicates, divided, thread, calls, delays = (
        columns.get_column(name).to_numpy()
        for name in ("communicates", "divided", "thread", "calls", "delays")
    )
    own = columns.get_column("interval").fill_null(_NONE).to_numpy()
    interval = np.where(own == _NONE, work.interval_of(rank.spans_ns[0]), own)
    lane, _ = node_lanes(rank.nodes)
    interval = np.where(delays, _next_of(lane, interval, ~delays), interval)
    # A thread of a backend does what its next communication needs.
    helps = (thread != _NONE) & ~calls & ~communicates
    interval = np.where(helps, _next_of(thread, interval, communicates), interval)
    is_merged = (
        rank.nodes.get_column("thread").is_null() & rank.nodes.get_column("stream").is_null()
    ).to_numpy()
    return _Asked(interval, lane, communicates, divided, (calls | is_merged) & ~communicates)


def _facts_of_events(graph: RankGraph, work: PipelineWork) -> pl.DataFrame:
    """`event_id`, `lane`, `interval` and `divided` of events of devices and of communication."""
    launches = graph.edges[graph.edges.kind == EdgeKind.LAUNCH]
    events = graph.activities.get_column("event_id")
    launched = pl.DataFrame(
        {
            "event_id": events[pl.Series(launches.after // 2)],
            "interval": work.interval_of(graph.times_ns[launches.before]),
        }
    )
    requested = pl.DataFrame({"event_id": work.events, "interval": work.requested, "divided": work.divided})
    known = pl.concat([requested, launched], how="diagonal").drop_nulls("event_id")
    lanes = graph.activities.select("event_id", "lane").drop_nulls("event_id")
    return known.unique("event_id", keep="first").join(lanes, on="event_id", how="left")


def _next_of(lane: _Ints, values: _Ints, known: _Flags) -> _Ints:
    """The next known value of its lane at each row; its own where there is none."""
    order = np.lexsort((np.arange(len(lane)), lane))[::-1]
    at = np.maximum.accumulate(np.where(known[order], np.arange(len(order)), 0))
    near = order[at]
    found: _Ints = values.copy()
    found[order] = np.where((lane[near] == lane[order]) & known[near], values[near], values[order])
    return found


def _placed(asked: _Asked, position: _Ints, kept: _Flags) -> _Placed:
    """Place nodes: communication of which each stage does its share behind the same share of the work before it."""
    behind: _Ints = np.arange(len(kept))
    work = np.flatnonzero(kept & ~asked.communicates)
    for number in np.unique(position[asked.divided]).tolist():
        own = work[position[work] == number]
        every = np.flatnonzero((position == number) & ~asked.communicates)
        rows = np.flatnonzero(asked.divided & (position == number))
        done = -(-np.searchsorted(every, rows) * len(own) // max(len(every), 1))
        behind[rows] = np.where(done > 0, np.r_[own, _NONE][done - 1], _NONE)
    return _Placed.of(position, asked.lane, kept, behind)


def _pairs(deps: NodeDeps, placed: _Placed, asked: _Asked) -> tuple[_Ints, _Ints]:
    """What each node of the stage waits for, in place of nodes of other stages."""
    before, after = deps.node_id, deps.rows()
    some = (placed.kept[before] | placed.kept[after]) & ~asked.divided[after]
    before, after = placed.last_kept()[before[some]], placed.next_kept()[after[some]]
    there = (before != _NONE) & (after != _NONE)
    before, after = before[there], after[there]
    forward = placed.place[before] < placed.place[after]
    return before[forward], after[forward]


def _between_blocks(placed: _Placed, asked: _Asked) -> tuple[_Ints, _Ints]:
    """The last work of each thread or stream before a block, and the first in it."""
    own = placed.by_lane[(placed.kept & ~asked.communicates)[placed.by_lane]]
    before, after = own[:-1], own[1:]
    there = (placed.lane[before] == placed.lane[after]) & (placed.position[before] != placed.position[after])
    return before[there], after[there]


def _of_collectives(nodes: pl.DataFrame, placed: _Placed, asked: _Asked) -> tuple[_Ints, _Ints]:
    """Communication behind the calls before its block, if divided behind all work before it; and that of its group."""
    collectives = np.flatnonzero(placed.kept & asked.communicates)
    collectives = collectives[np.argsort(placed.place[collectives])]
    divided, rest = (collectives[asked.divided[collectives] == each] for each in (True, False))
    group = nodes.get_column("pg_name").fill_null("").rank("dense").to_numpy()[collectives]
    in_groups = collectives[np.argsort(group, kind="stable")]
    follows = np.diff(np.sort(group)) == 0
    pairs = [(in_groups[:-1][follows], in_groups[1:][follows])]
    on_device = nodes.get_column("stream").is_not_null().to_numpy()
    own = placed.by_lane[(placed.kept & ~asked.communicates)[placed.by_lane]]
    for lane in np.unique(placed.lane[own]).tolist():
        work = own[placed.lane[own] == lane]
        if asked.is_host[work[0]] or on_device[work[0]]:
            pairs.append(_last_before(work, divided, placed.place))
        if asked.is_host[work[0]]:
            pairs.append(_last_before(work, rest, placed.position))
    before, after = zip(*pairs, strict=True)
    return np.concatenate(before), np.concatenate(after)


def _last_before(work: _Ints, after: _Ints, place: _Ints) -> tuple[_Ints, _Ints]:
    """The last work whose place is before that of each node, and the node."""
    at = np.searchsorted(place[work], place[after]) - 1
    return work[at[at >= 0]], after[at >= 0]


def _shared(nodes: pl.DataFrame, shared: _Flags, share: float) -> pl.DataFrame:
    """Nodes of which a stage does its share."""
    names = ("duration_ns", "num_ops", "tensor_size", "comm_size")
    return nodes.with_columns(
        pl.when(pl.Series(shared))
        .then((pl.col(name) * share).round().cast(pl.Int64))
        .otherwise(name)
        .alias(name)
        for name in names
    ).with_columns(pl.col("comm_size").clip(lower_bound=1))


class _Messages(Struct, frozen=True, eq=False):
    """Nodes that send to other stages or receive from them.

    Args:
        nodes: `CHAKRA_NODES`.
        position: of each the position of its block.
        place: where it is in the block: receives before all, sends behind all.
        pairs: rows that are waited for and that wait; those of messages come behind all others.
    """

    nodes: pl.DataFrame
    position: _Ints
    place: _Ints
    pairs: tuple[_Ints, _Ints]


def _messages(
    nodes: pl.DataFrame, placed: _Placed, block: _Ints, work: PipelineWork, own: tuple[int, tuple[int, ...]]
) -> _Messages:
    """The messages of each pass; those from a stage, and those to one, are one after the other."""
    stage, pipeline = own
    rows: list[dict[str, object]] = []
    places, positions, before, after = [], [], [], []
    last: dict[tuple[NodeType, int], int] = {}
    works = _works(nodes, placed, block)
    for number in np.unique(block[work.micro_batch[block] >= 0]).tolist():
        is_forward, (firsts, lasts) = bool(work.is_forward[number]), works.get(number, ([], []))
        ahead = 1 if is_forward else -1
        for kind, peer, place in ((_RECEIVE, stage - ahead, _NONE), (_SEND, stage + ahead, nodes.height)):
            if not 0 <= peer < len(pipeline):
                continue
            row = nodes.height + len(rows)
            name = "activations" if is_forward else "gradients of activations"
            rows.append(
                {
                    "name": f"{'send' if kind is _SEND else 'receive'} {name}",
                    "type": kind.name,
                    "kind": ActivityKind.COMMUNICATION.value,
                    "is_cpu_op": False,
                    "comm_dst" if kind is _SEND else "comm_src": pipeline[peer],
                    "comm_size": max(work.message_bytes, 1),
                    "comm_tag": 2 * int(work.micro_batch[number]) + (not is_forward),
                    "duration_ns": 0,
                    "step": nodes.get_column("step")[int((block == number).argmax())],
                }
            )
            waited = lasts if kind is _SEND else []
            waited = [*waited, last[kind, peer]] if (kind, peer) in last else waited
            before += [*waited, *(row for _ in firsts if kind is _RECEIVE)]
            after += [*(row for _ in waited), *(firsts if kind is _RECEIVE else [])]
            last[kind, peer] = row
            places.append(place)
            positions.append(int(work.order[stage][number]))
    frame = CHAKRA_NODES.conform(pl.DataFrame(rows), fill_missing=True) if rows else nodes.clear()
    pairs = np.array(before, dtype=np.int64), np.array(after, dtype=np.int64)
    return _Messages(frame, np.array(positions, dtype=np.int64), np.array(places, dtype=np.int64), pairs)


def _works(nodes: pl.DataFrame, placed: _Placed, block: _Ints) -> dict[int, tuple[list[int], list[int]]]:
    """The first and the last work of each stream, or thread where a block has no device's, by block."""
    on_device = nodes.get_column("stream").is_not_null().to_numpy()
    computes = (nodes.get_column("type") == NodeType.COMP_NODE.name).to_numpy()
    own = placed.by_lane[(placed.kept & computes)[placed.by_lane]]
    of_device = np.isin(block[own], np.unique(block[own[on_device[own]]]))
    own = own[on_device[own] | ~of_device]
    changes = (np.diff(placed.lane[own]) != 0) | (np.diff(placed.position[own]) != 0)
    begins, closes = np.r_[True, changes][: len(own)], np.r_[changes, True][: len(own)]
    found: dict[int, tuple[list[int], list[int]]] = {}
    for first, last in zip(own[begins].tolist(), own[closes].tolist(), strict=True):
        firsts, lasts = found.setdefault(int(block[first]), ([], []))
        firsts.append(first)
        lasts.append(last)
    return found


def _timed(rank: ChakraRank, lane: _Ints) -> ChakraRank:
    """Let nodes start as early as their dependencies allow; when other ranks come is not known here."""
    deps, nodes = rank.data_deps, rank.nodes
    lasts_ns = nodes.get_column("duration_ns").to_numpy()
    end_ns = ends(deps.first, deps.node_id, np.arange(nodes.height), lasts_ns)
    is_delay, computes = (
        nodes.select(each).to_series().to_numpy()
        for each in (as_text("kind") == DELAY, as_text("type") == NodeType.COMP_NODE.name)
    )
    micros = rounded_micros(lasts_ns, 3 * lane + np.where(computes, is_delay, 2))
    timed = nodes.with_columns(
        pl.Series("duration_micros", micros), pl.Series("start_time_micros", (end_ns - lasts_ns) // NS_PER_US)
    )
    return replace(rank, nodes=timed, spans_ns=None)
