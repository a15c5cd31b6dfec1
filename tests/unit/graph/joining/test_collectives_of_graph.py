"""What members of collectives wait for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracebraid
from tests.planted import Host, PlannedJob, TrueCollective
from tests.planted.graphs import check_graph, graph_of, member_moments
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.graph.codes import EdgeKind
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.simulation.replay import replay

NEAR_AND_FAR = (Host("a"), Host("b", ahead_ns=5_000_000_000))


def planned(ranks: int = 4, **options: Any) -> PlannedJob:
    return PlannedJob(ranks, **options)


def edges_into(graph: DependencyGraph, moment: int) -> dict[EdgeKind, int]:
    """The work of a moment's edges by their kind."""
    first, last = graph.edges.first[moment : moment + 2]
    return {EdgeKind(graph.edges.kind[edge]): int(graph.edges.work_ns[edge]) for edge in range(first, last)}


def transfers(graph: DependencyGraph, found: TrueCollective) -> dict[int, int | None]:
    """The transfer of each member; None of one that does not wait for others."""
    ends = {rank: member_moments(graph, rank, event)[1] for rank, event in found.event_ids.items()}
    return {rank: edges_into(graph, end).get(EdgeKind.TRANSFER) for rank, end in ends.items()}


def codes(graph: DependencyGraph) -> dict[FindingCode, int]:
    return {found.code: found.count for found in graph.findings if found.code.value.startswith("graph-")}


@pytest.mark.parametrize("devices", [None, ()], ids=["nccl", "gloo"])
@pytest.mark.parametrize("hosts", [(Host(),), NEAR_AND_FAR], ids=["one host", "two hosts"])
def test_the_transfer_begins_when_the_last_member_arrives(
    devices: tuple[()] | None, hosts: tuple[Host, ...]
) -> None:
    job = planned(4, hosts=hosts, **({} if devices is None else {"devices": devices}))
    for number in (1, 2, 3):
        with job.step(number):
            job.compute(100_000)
            job.compute(300_000, [2])
            job.collective(transfer=500_000)
    graph = graph_of(job)
    check_graph(graph)
    for found in job.collectives:
        assert transfers(graph, found) == pytest.approx(dict.fromkeys(range(4), 500_000), abs=2_000)
    assert graph.activities.get_column("kind").cast(pl.String).to_list().count("collective") == 3
    members = graph.activities.filter(pl.col("collective").is_not_null() & pl.col("rank").is_not_null())
    assert members.height == 12
    assert members.get_column("group").null_count() == 0
    assert codes(graph) == {}


def test_time_before_the_last_arrival_is_no_work_so_an_earlier_straggler_helps_all() -> None:
    job = planned(2)
    with job.step(1):
        job.compute(100_000)
        job.compute(400_000, [1])
        reduced = job.collective(transfer=50_000)
    graph = graph_of(job)
    late = member_moments(graph, 1, reduced.event_ids[1])[0]
    residual = graph.moments.residual_ns.copy()
    residual[late] -= 300_000
    assert residual[late] > 0
    edges = graph.edges
    times = replay(edges.first, edges.before, edges.work_ns, residual)
    before = graph.moments.time_ns - graph.moments.time_ns.min()
    for rank in (0, 1):
        end = member_moments(graph, rank, reduced.event_ids[rank])[1]
        assert before[end] - times[end] == 300_000


def test_missing_ranks_wait_for_whom_is_known_and_a_finding_counts_them() -> None:
    job = planned()
    with job.step(1):
        job.compute(100_000)
        job.compute(200_000, [1])
        reduced = job.collective(transfer=50_000)
    graph = graph_of(job, missing=[3])
    check_graph(graph)
    del reduced.event_ids[3]
    assert transfers(graph, reduced) == {0: 50_000, 1: 50_000, 2: 50_000}
    assert codes(graph) == {FindingCode.GRAPH_COLLECTIVES_INCOMPLETE: 1}
    kinds = tracebraid.graph_coverage(graph).get_column("kind").cast(pl.String).to_list()
    assert "transfer_bound" in kinds
    assert "transfer" not in tracebraid.graph_coverage(graph).filter(
        pl.col("part").cast(pl.String) == "work"
    ).get_column("kind").cast(pl.String)


def test_a_member_alone_keeps_its_duration_as_its_own_work() -> None:
    job = planned(2)
    with job.step(1):
        job.compute(100_000)
        job.compute(200_000, [1])
        reduced = job.collective(transfer=50_000)
    graph = graph_of(job, missing=[1])
    check_graph(graph)
    end = member_moments(graph, 0, reduced.event_ids[0])[1]
    assert edges_into(graph, end) == {EdgeKind.DEVICE: reduced.end[0] - reduced.arrival[0]}
    assert codes(graph) == {FindingCode.GRAPH_COLLECTIVES_INCOMPLETE: 1}
    kinds = tracebraid.graph_coverage(graph).get_column("kind").cast(pl.String).to_list()
    assert "communication" in kinds


def test_of_a_pair_both_wait_where_the_send_lasts_until_the_receiver_is_there() -> None:
    job = planned(2)
    with job.step(1):
        job.compute(100_000)
        job.compute(300_000, [1])
        sent = job.send(0, 1, transfer=20_000)
    graph = graph_of(job)
    check_graph(graph)
    assert transfers(graph, sent) == {0: 20_000, 1: 20_000}


def test_an_eager_send_waits_for_nothing_and_its_receiver_for_its_start() -> None:
    job = planned(2)
    with job.step(1):
        job.compute(100_000)
        job.compute(500_000, [1])
        sent = job.send(0, 1, transfer=20_000)
    (send,) = [event for event in job.scenes[0].events if event.event_id == sent.event_ids[0]]
    send.dur = 5_000
    graph = graph_of(job)
    check_graph(graph)
    assert transfers(graph, sent) == {0: None, 1: 20_000}
    end = member_moments(graph, 0, sent.event_ids[0])[1]
    assert edges_into(graph, end)[EdgeKind.DEVICE] == 5_000
    assert codes(graph) == {}


def test_a_member_that_ends_a_little_before_another_arrived_does_not_wait() -> None:
    job = planned(3)
    for number in range(1, 10):  # The clocks are known from all but the last.
        with job.step(number):
            job.compute(100_000)
            job.compute(900_000, [2])
            reduced = job.collective(transfer=50_000)
    (early,) = [event for event in job.scenes[0].events if event.event_id == reduced.event_ids[0]]
    early.dur = reduced.arrival[2] - 40_000 - early.ts
    graph = graph_of(job)
    check_graph(graph)
    assert codes(graph) == {FindingCode.GRAPH_ARRIVALS_CLAMPED: 1}
    assert transfers(graph, reduced) == {0: None, 1: 50_000, 2: 50_000}


def test_the_demo_is_joined_by_all_of_its_collectives(demo: Path) -> None:
    graph = tracebraid.dependency_graph(tracebraid.open(demo))
    check_graph(graph)
    assert (graph.edges.kind == EdgeKind.TRANSFER).sum() == 18
    assert codes(graph) == {}
