"""What holds of every rank that has become nodes, and its replay: each node starts when all that it waits for ended."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.chakra import ChakraRank
from tracebraid.chakra.plan.meeting_times import MEETING_COLUMNS, with_meeting_times
from tracebraid.chakra.schema import CHAKRA_COMMUNICATION, CHAKRA_NODES
from tracebraid.model.graph import EdgeKind, RankGraph

_Ints = NDArray[np.int64]
_COMPUTES = "COMP_NODE"


def communication_of(graph: RankGraph, *, single_lane: bool = True) -> pl.DataFrame:
    """All communication of a rank as all-reduces over all ranks, which take as long as their events."""
    rows = graph.activities.filter(
        pl.col("kind").cast(pl.String) == "communication", pl.col("event_id").is_not_null()
    ).sort("start_ns", "event_id")
    described = rows.select(
        "event_id",
        pl.lit("COMM_COLL_NODE").alias("type"),
        pl.lit("ALL_REDUCE").alias("comm_type"),
        pl.lit(1024).alias("comm_size"),
        pl.col("name").alias("collective"),
        (pl.col("end_ns") - pl.col("start_ns")).alias("transfer_ns"),
        pl.int_range(pl.len()).alias("order"),
    )
    on_lane = rows.select(
        pl.lit(0).alias("rank"),
        pl.int_range(pl.len()).alias("order"),
        *("event_id", "start_ns", "end_ns"),
        pl.col("stream").alias("stream_key"),
        pl.lit(None, dtype=pl.Int64).alias("pair"),
        pl.lit(value=False).alias("receives"),
    )
    lanes = with_meeting_times(on_lane, single_lane).select(MEETING_COLUMNS)
    return CHAKRA_COMMUNICATION.conform(described.hstack(lanes), fill_missing=True)


def deps_of(rank: ChakraRank, node: int) -> list[int]:
    """The nodes that a node waits for."""
    deps = rank.data_deps
    return deps.node_id[deps.first[node] : deps.first[node + 1]].tolist()


def names_of_deps(rank: ChakraRank, name: str) -> list[str]:
    """The names of what the first node of a name waits for."""
    names = rank.nodes.get_column("name").cast(pl.String).to_list()
    return [names[other] for other in deps_of(rank, names.index(name))]


def replayed(rank: ChakraRank, graph: RankGraph) -> tuple[_Ints, _Ints]:
    """When each node starts and ends in ns; communication ends when it did: nodes do not say how long it waited."""
    begin = _begin_ns(graph)
    end_of = dict(
        zip(graph.activities.get_column("event_id").to_list(), graph.times_ns[1::2].tolist(), strict=True)
    )
    rows = rank.nodes.select("event_id", "duration_ns", pl.col("type").cast(pl.String)).rows()
    starts, ends = [0] * len(rows), [0] * len(rows)
    for node, (event, lasts_ns, kind) in enumerate(rows):
        starts[node] = max((ends[other] for other in deps_of(rank, node)), default=0)
        ends[node] = starts[node] + lasts_ns if kind == _COMPUTES else end_of[event] - begin
        assert ends[node] >= starts[node]
    return np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64)


def check_nodes(rank: ChakraRank, graph: RankGraph) -> None:
    """Check what holds of every rank that was made of a graph.

    Each work of a device starts and ends when it did; host nodes start when they did; nodes are numbered from 0
    up, each behind all that it waits for; a rank that does anything has a node that waits for nothing.
    """
    nodes, deps = rank.nodes, rank.data_deps
    assert nodes.schema == CHAKRA_NODES.empty().schema
    assert nodes.get_column("node_id").to_list() == list(range(nodes.height))
    assert len(deps.first) == nodes.height + 1
    assert (deps.node_id < deps.rows()).all()
    assert (deps.node_id >= 0).all()
    assert len(np.unique(np.stack([deps.rows(), deps.node_id]), axis=1).T) == len(deps)
    if nodes.height:
        assert (np.diff(deps.first) == 0).any()
    assert nodes.get_column("duration_ns").min() is None or nodes.get_column("duration_ns").min() >= 0  # type: ignore[operator]
    starts, ends = replayed(rank, graph)
    assert (starts // 1000 == nodes.get_column("start_time_micros").to_numpy()).all()
    _check_devices(rank, graph, starts, ends)


def _begin_ns(graph: RankGraph) -> int:
    """The earliest moment of a rank, of those that anything waits for."""
    return int(min(graph.times_ns[graph.edges.before].min(), graph.times_ns[graph.edges.after].min()))


def _check_devices(rank: ChakraRank, graph: RankGraph, starts: _Ints, ends: _Ints) -> None:
    work = graph.edges.activity[graph.edges.kind == EdgeKind.DEVICE]
    waits = graph.edges.after[graph.edges.kind == EdgeKind.EVENT_WAIT]
    # Waits that are work of their own last as long as what they wait for.
    work = work[~np.isin(2 * work + 1, waits)]
    begin = _begin_ns(graph)
    measured = pl.DataFrame(
        {
            "event_id": graph.activities.get_column("event_id").gather(work),
            "start_ns": graph.times_ns[2 * work] - begin,
            "end_ns": graph.times_ns[2 * work + 1] - begin,
        }
    )
    found = rank.nodes.select("event_id").with_columns(
        pl.Series("start_ns", starts), pl.Series("end_ns", ends)
    )
    found = found.filter(rank.nodes.get_column("stream").is_not_null(), pl.col("event_id").is_not_null())
    assert measured.join(found, on=["event_id", "start_ns", "end_ns"], how="anti").is_empty()
