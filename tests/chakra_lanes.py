"""Ranks with one compute lane, replayed: each node when what it waits for ended, and one at a time for each lane."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.chakra import ChakraRank
from tracebraid.model.graph import RankGraph

_Ints = NDArray[np.int64]

_COMPUTES = "COMP_NODE"


def without_lanes(rank: ChakraRank) -> tuple[_Ints, _Ints]:
    """When each node starts and ends, in ns."""
    deps = rank.data_deps
    starts, ends = (np.zeros(rank.nodes.height, dtype=np.int64) for _ in range(2))
    for node, lasts_ns in enumerate(rank.nodes.get_column("duration_ns").to_list()):
        starts[node] = ends[deps.node_id[deps.first[node] : deps.first[node + 1]]].max(initial=0)
        ends[node] = starts[node] + lasts_ns
    return starts, ends


def on_lanes(rank: ChakraRank) -> tuple[_Ints, _Ints]:
    """The same where a rank computes and communicates one thing at a time, of those that are ready the lowest first."""
    deps, lasts_ns = rank.data_deps, rank.nodes.get_column("duration_ns").to_list()
    lanes = (rank.nodes.get_column("type").cast(pl.String) != _COMPUTES).cast(pl.Int8).to_list()
    waiting, behind = np.diff(deps.first).tolist(), [[] for _ in lasts_ns]  # type: ignore[var-annotated]
    for before, after in zip(deps.node_id.tolist(), deps.rows().tolist(), strict=True):
        behind[before].append(after)
    ready: tuple[list[int], list[int]] = ([], [])
    for node, count in enumerate(waiting):
        if count == 0:
            heappush(ready[lanes[node]], node)
    starts, ends = (np.full(len(lasts_ns), -1, dtype=np.int64) for _ in range(2))
    running: list[tuple[int, int]] = []
    busy, now = [False, False], 0
    while True:
        for lane in (0, 1):
            if ready[lane] and not busy[lane]:
                node = heappop(ready[lane])
                starts[node], ends[node], busy[lane] = now, now + lasts_ns[node], True
                heappush(running, (int(ends[node]), node))
        if not running:
            return starts, ends
        now, node = heappop(running)
        busy[lanes[node]] = False
        for other in behind[node]:
            waiting[other] -= 1
            if waiting[other] == 0:
                heappush(ready[lanes[other]], other)


def has_enclosed_communication(graph: RankGraph) -> bool:
    """Whether communication is over before some that began earlier: on one lane it is not."""
    rows = graph.activities.select(pl.col("kind").cast(pl.String), "start_ns", "end_ns")
    ends = rows.filter(pl.col("kind") == "communication").sort("start_ns").get_column("end_ns")
    return bool((ends < ends.cum_max()).any())


def check_lane(rank: ChakraRank, graph: RankGraph) -> None:
    """Check what holds of every rank that is one lane, with communication that takes as long as its events.

    It ends when the trace does; work that no other covers starts and ends when it did, with and without lanes; all that
    the devices did is there, or counted as covered.
    """
    starts, ends = without_lanes(rank)
    nodes, deps = rank.nodes, rank.data_deps
    assert (deps.node_id < deps.rows()).all()
    assert nodes.get_column("node_id").to_list() == list(range(nodes.height))
    assert nodes.get_column("duration_ns").min() is None or nodes.get_column("duration_ns").min() >= 0  # type: ignore[operator]
    assert dict(rank.attributes)["merged_waits_left_out"] == 0
    used = graph.times_ns[np.r_[graph.edges.before, graph.edges.after]]
    assert ends.max(initial=0) == used.max(initial=0) - used.min(initial=used.max(initial=0))
    on_lane = on_lanes(rank)
    assert np.array_equal(on_lane[0], starts)
    assert np.array_equal(on_lane[1], ends)
    _check_works(rank, graph, starts, ends)


def _check_works(rank: ChakraRank, graph: RankGraph, starts: _Ints, ends: _Ints) -> None:
    begin_ns = graph.times_ns[np.r_[graph.edges.before, graph.edges.after]].min(initial=2**62)
    covered = pl.col("attributes").cast(pl.String).str.json_path_match("$.covered_ns").cast(pl.Int64)
    found = (
        rank.nodes.select("event_id", "duration_ns", "attributes", "kind", pl.col("type").cast(pl.String))
        .with_columns(
            covered.fill_null(0).alias("covered_ns"), pl.Series("start", starts), pl.Series("end", ends)
        )
        .filter(pl.col("type") == _COMPUTES, pl.col("kind").cast(pl.String) != "delay")
        .group_by("event_id")
        .agg(pl.col("start").min(), pl.col("end").max(), pl.col("duration_ns", "covered_ns").sum())
    )
    works = (
        graph.activities.select("event_id", "stream", pl.col("kind").cast(pl.String))
        .with_columns(
            pl.Series("measured_start", graph.times_ns[::2] - begin_ns),
            pl.Series("measured_end", graph.times_ns[1::2] - begin_ns),
        )
        .filter(pl.col("stream").is_not_null(), pl.col("kind") != "communication")
        .join(found, on="event_id", how="left")
    )
    assert works.get_column("start").null_count() == 0
    lasted = pl.col("measured_end") - pl.col("measured_start")
    assert works.filter(pl.col("duration_ns") + pl.col("covered_ns") != lasted).is_empty()
    free = works.filter(pl.col("covered_ns") == 0)
    differs = (pl.col("start") != pl.col("measured_start")) | (pl.col("end") != pl.col("measured_end"))
    assert free.filter(differs).is_empty()
