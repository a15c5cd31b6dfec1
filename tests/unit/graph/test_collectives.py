"""Communication in the graph: who waits for whom, on devices and on the host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import tracebraid
from tests.captures import CAPTURES
from tests.planted import Cause, Host, PlannedJob, Planted, Scene, Thread, TrueCollective, host_scene
from tests.planted.graphs import check_graph, graph_of, member_moments
from tracebraid import dependency_graph
from tracebraid import open as open_traces
from tracebraid.graph.collective_edges import arrivals
from tracebraid.graph.hosts.backend_ranges import backend_ranges, issuing_ops
from tracebraid.graph.rank_graph import rank_graph
from tracebraid.model.expressions import as_text
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.graph import ActivityKind, DependencyGraph, EdgeKind, Point
from tracebraid.simulation.replay import replay

NEAR_AND_FAR = (Host("a"), Host("b", ahead_ns=5_000_000_000))


def imbalanced(ranks: int, late: dict[int, int], **options: Any) -> tuple[PlannedJob, TrueCollective]:
    """A step in which some ranks compute so long, and then all reduce."""
    job = PlannedJob(ranks, **options)
    with job.step(1):
        job.compute(100_000)
        for rank, ns in late.items():
            job.compute(ns, [rank])
        return job, job.collective(transfer=50_000)


def pair(late_ns: int) -> tuple[PlannedJob, TrueCollective]:
    """A message to a rank that comes late."""
    job = PlannedJob(2)
    with job.step(1):
        job.compute(100_000)
        job.compute(late_ns, [1])
        return job, job.send(0, 1, transfer=20_000)


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


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("without_device", [False, True], ids=["nccl", "gloo"])
@pytest.mark.parametrize("hosts", [(Host(),), NEAR_AND_FAR], ids=["one host", "two hosts"])
def test_the_transfer_begins_when_the_last_member_arrives(
    without_device: bool, hosts: tuple[Host, ...]
) -> None:
    job = PlannedJob(4, hosts=hosts, devices=()) if without_device else PlannedJob(4, hosts=hosts)
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


@pytest.mark.slow
def test_time_before_the_last_arrival_is_no_work_so_an_earlier_straggler_helps_all() -> None:
    job, reduced = imbalanced(2, {1: 400_000})
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


@pytest.mark.slow
def test_missing_ranks_wait_for_whom_is_known_and_a_finding_counts_them() -> None:
    job, reduced = imbalanced(4, {1: 200_000})
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
    job, reduced = imbalanced(2, {1: 200_000})
    graph = graph_of(job, missing=[1])
    check_graph(graph)
    end = member_moments(graph, 0, reduced.event_ids[0])[1]
    assert edges_into(graph, end) == {EdgeKind.DEVICE: reduced.end[0] - reduced.arrival[0]}
    assert codes(graph) == {FindingCode.GRAPH_COLLECTIVES_INCOMPLETE: 1}
    kinds = tracebraid.graph_coverage(graph).get_column("kind").cast(pl.String).to_list()
    assert "communication" in kinds


@pytest.mark.slow
def test_of_a_pair_both_wait_where_the_send_lasts_until_the_receiver_is_there() -> None:
    job, sent = pair(300_000)
    graph = graph_of(job)
    check_graph(graph)
    assert transfers(graph, sent) == {0: 20_000, 1: 20_000}


@pytest.mark.slow
def test_an_eager_send_waits_for_nothing_and_its_receiver_for_its_start() -> None:
    job, sent = pair(500_000)
    (send,) = [event for event in job.scenes[0].events if event.event_id == sent.event_ids[0]]
    send.dur = 5_000
    graph = graph_of(job)
    check_graph(graph)
    assert transfers(graph, sent) == {0: None, 1: 20_000}
    end = member_moments(graph, 0, sent.event_ids[0])[1]
    assert edges_into(graph, end)[EdgeKind.DEVICE] == 5_000
    assert codes(graph) == {}


@pytest.mark.slow
def test_a_member_that_ends_a_little_before_another_arrived_does_not_wait() -> None:
    job = PlannedJob(3)
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


@pytest.mark.slow
def test_the_demo_is_joined_by_all_of_its_collectives(demo: Path) -> None:
    graph = tracebraid.dependency_graph(tracebraid.open(demo))
    check_graph(graph)
    assert (graph.edges.kind == EdgeKind.TRANSFER).sum() == 18
    assert codes(graph) == {}


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize(("world", "pairs"), [(2, 4), (4, 12)])
def test_sends_and_receives_over_gloo_are_joined(world: int, pairs: int) -> None:
    graph = tracebraid.dependency_graph(tracebraid.open(CAPTURES / f"pipeline{world}"))
    joined = graph.activities.filter(pl.col("kind") == ActivityKind.COLLECTIVE.value)
    assert joined.height == pairs
    assert FindingCode.GRAPH_COLLECTIVES_CONTRADICTED not in codes(graph)


TOLERANCE_NS = 100


def members(rows: list[tuple[int, bool, bool]]) -> pl.DataFrame:
    """Members by collective, and whether each sends and receives."""
    found = pl.DataFrame(rows, schema=["collective", "sends", "receives"], orient="row")
    return found.with_row_index("activity").with_columns(
        pl.col("activity").cast(pl.Int64),
        tolerance_ns=pl.lit(TOLERANCE_NS),
        issuer=pl.col("activity").cast(pl.Int64),
    )


def all_to_all(count: int, collective: int = 0) -> list[tuple[int, bool, bool]]:
    return [(collective, True, True)] * count


@pytest.mark.parametrize(
    ("rows", "spans", "arrives", "waits"),
    [
        (all_to_all(2), [(0, 50), (30, 60)], [True, True], [True, True]),
        ([(0, True, False), (0, False, True)], [(0, 50), (30, 60)], [True, True], [True, True]),
        ([(0, True, False), (0, False, True)], [(0, 10), (30, 60)], [True, False], [False, True]),
        (
            [(0, True, False), (0, False, True), (0, False, True)],
            [(0, 90), (10, 40), (60, 95)],
            [True, False, False],
            [False, True, True],
        ),
        (all_to_all(2), [(0, 50), (100, 160)], [True, True], [False, True]),
    ],
    ids=["all", "rendezvous", "eager send", "root of a tree", "within what clocks err"],
)
def test_who_arrives_and_who_waits(
    rows: list[tuple[int, bool, bool]], spans: list[tuple[int, int]], arrives: list[bool], waits: list[bool]
) -> None:
    found = arrivals(members(rows), np.array(spans).reshape(-1))
    assert found.arrives.tolist() == arrives
    assert found.waits.tolist() == waits
    assert not len(found.contradicted)
    assert found.clamped == sum(
        not waited and receives for waited, (_, _, receives) in zip(waits, rows, strict=True)
    )


def test_a_send_that_was_recorded_after_it_was_received_arrived_with_its_op() -> None:
    """Of gloo, whose range of a send may begin when the bytes are there already: the receiver has waited for it."""
    pair = members([(0, True, False), (0, False, True)]).with_columns(issuer=pl.Series([2, 1]))
    found = arrivals(pair, np.array([100, 110, 10, 90, 80, 120]))
    assert found.members.get_column("arriving").to_list() == [2, 1]
    assert (found.arrives.tolist(), found.waits.tolist()) == ([True, False], [False, True])
    assert (found.arrival_ns.tolist(), found.clamped, len(found.contradicted)) == ([80], 0, 0)


def test_a_collective_that_times_contradict_is_left_out_and_the_others_stay() -> None:
    rows = all_to_all(2, 4) + all_to_all(2, 7)
    found = arrivals(members(rows), np.array([0, 50, 500, 560, 600, 700, 650, 700]))
    assert found.contradicted.tolist() == [4]
    assert found.members.get_column("activity").to_list() == [2, 3]
    assert found.members.get_column("number").to_list() == [0, 0]
    assert found.arrival_ns.tolist() == [650]


def test_a_damaged_member_without_duration_does_not_contradict_the_others() -> None:
    found = arrivals(members(all_to_all(3)), np.array([0, 0, 500, 600, 550, 600]))
    assert not len(found.contradicted)
    assert found.members.get_column("activity").to_list() == [1, 2]


def test_nothing_is_joined_of_no_members_and_of_single_members() -> None:
    for rows in ([], [(0, True, True)]):
        found = arrivals(members(rows) if rows else members(all_to_all(1)).clear(), np.array([0, 1]))
        assert found.members.is_empty()
        assert not len(found.arrival_ns)


TRANSFER_NS, LATE_NS = 200_000, 900_000


@pytest.fixture(scope="module")
def job() -> PlannedJob:
    """Two ranks on CPUs; in each step the second is late for the first of two collectives."""
    planned = PlannedJob(2, devices=[])
    for number in range(1, 4):
        with planned.step(number):
            planned.compute(100_000)
            planned.delay(1, Cause.OP, LATE_NS)
            planned.collective("allreduce", transfer=TRANSFER_NS)
            planned.compute(50_000)
            planned.collective("allreduce", transfer=TRANSFER_NS)
    return planned


@pytest.fixture(scope="module")
def graph(job: PlannedJob, tmp_path_factory: pytest.TempPathFactory) -> DependencyGraph:
    return dependency_graph(open_traces(job.write(tmp_path_factory.mktemp("job"))))


@pytest.mark.slow
def test_every_collective_of_the_host_is_there(job: PlannedJob, graph: DependencyGraph) -> None:
    kinds = graph.activities.select(as_text("kind")).to_series().value_counts()
    counts = dict(kinds.iter_rows())
    assert (counts["communication"], counts["collective"]) == (12, len(job.collectives))
    transfers = graph.edges.work_ns[graph.edges.kind == EdgeKind.TRANSFER]
    assert np.abs(transfers - TRANSFER_NS).max() <= 1_000


def test_threads_wait_for_each_range_that_they_asked_for(graph: DependencyGraph) -> None:
    edges, moments, after = graph.edges, graph.moments, graph.after
    waits = np.flatnonzero(edges.kind == EdgeKind.COMMUNICATION_WAIT)
    assert len(waits) == 12
    assert (moments.time_ns[after[waits]] == moments.time_ns[edges.before[waits]]).all()
    chain = (edges.kind == EdgeKind.HOST) & np.isin(after, after[waits])
    assert edges.work_ns[chain].sum() == 0


def test_a_rank_that_is_no_longer_late_saves_that_time_on_both(graph: DependencyGraph) -> None:
    names = graph.activities.select(as_text("name")).to_series()
    late = names.eq_missing("aten::nonzero").to_numpy()[graph.edges.activity]
    work = np.where(late & (graph.edges.kind == EdgeKind.HOST), 0, graph.edges.work_ns)
    edges, residual = graph.edges, graph.moments.residual_ns
    before = replay(edges.first, edges.before, edges.work_ns, residual)
    after = replay(edges.first, edges.before, work, residual)
    ends = graph.steps.filter(pl.col("step") == "ProfilerStep#3").get_column("host_end_moment").to_numpy()
    assert np.abs((before - after)[ends] - 3 * LATE_NS).max() <= 3_000


def beside_gloo(range_ns: int = 100_000) -> tuple[Scene, Thread, Planted, Planted]:
    """A collective that an op requests, and a thread of gloo runs from 8 µs on."""
    scene, host = host_scene(devices=[])
    backend = scene.thread("pt_gloo_runner")
    requested = host.run("c10d::allreduce_", 5_000)
    backend.until(8_000)
    with backend.annotation("gloo:all_reduce", range_ns) as ranged:
        pass
    return scene, host, requested, ranged


def test_an_op_computes_while_communication_runs_and_waits_for_none_of_it() -> None:
    scene, host, _, _ = beside_gloo()
    host.run("aten::mm", 120_000)
    edges = rank_graph(scene.linked()).edges
    assert not (edges.kind == EdgeKind.COMMUNICATION_WAIT).any()
    assert edges.work_ns[edges.kind == EdgeKind.HOST].sum() == 225_000


@pytest.mark.parametrize("name", ["_c10d_functional::wait_tensor", "c10d::barrier"])
def test_an_op_that_waits_ends_when_communication_does(name: str) -> None:
    scene, host, _, ranged = beside_gloo()
    host.run(name, ranged.end - host.now)
    graph = rank_graph(scene.linked())
    waits = graph.edges[graph.edges.kind == EdgeKind.COMMUNICATION_WAIT]
    assert graph.times_ns[waits.before].tolist() == graph.times_ns[waits.after].tolist() == [ranged.end]
    assert graph.edges.work_ns[graph.edges.kind == EdgeKind.HOST].sum() == 105_000


@pytest.mark.parametrize("late_ns", [0, 200_000, 2_000_000])
def test_a_thread_that_resumes_before_the_end_is_noted_has_waited(late_ns: int) -> None:
    """Work is done before its thread gets to note it: on a busy machine another thread runs first."""
    scene, host, _, ranged = beside_gloo(10_000_000)
    host.until(ranged.end - late_ns)
    resumed = host.run("aten::mm", 3_000_000)
    graph = rank_graph(scene.linked())
    waits = graph.edges[graph.edges.kind == EdgeKind.COMMUNICATION_WAIT]
    assert graph.times_ns[waits.before].tolist() == graph.times_ns[waits.after].tolist() == [resumed.ts]


def test_a_thread_that_resumed_for_another_range_has_not_waited_for_the_later_one() -> None:
    scene, host, _, ranged = beside_gloo(10_000_000)
    other = scene.thread("pt_gloo_runner")
    host.run("c10d::allreduce_", 5_000)
    other.until(20_000)
    with other.annotation("gloo:all_reduce", 11_000_000) as later:
        pass
    host.until(ranged.end + 20_000)
    host.run("aten::mm", 3_000_000)
    graph = rank_graph(scene.linked())
    assert later.end in graph.times_ns.tolist()


@pytest.mark.parametrize(
    ("ends_ns", "waits"),
    [
        pytest.param((2_000_000, 9_800_000, 5_000_000, 7_000_000), 0, id="sleeps: one ends last by chance"),
        pytest.param((9_960_000, 9_800_000, 9_970_000, 7_000_000), 3, id="waits: and computes after one"),
        pytest.param((2_000_000, 9_800_000, 5_000_000, 14_000_000), 0, id="sleeps: one ends behind it"),
    ],
)
def test_a_thread_that_mostly_resumes_long_after_what_it_asked_for_sleeps(
    ends_ns: Sequence[int], waits: int
) -> None:
    """In each step the thread reads for 10 ms, a while after it has requested a collective that ends meanwhile."""
    scene, host = host_scene(devices=[])
    backend = scene.thread("pt_gloo_runner")
    for number, end_ns in enumerate(ends_ns, start=1):
        with host.step(number):
            host.run("c10d::allreduce_", 5_000)
            backend.until(host.now + 3_000)
            host.run("aten::mm", 20_000)
            with host.annotation("read", 10_000_000) as read:
                pass
            with backend.annotation("gloo:all_reduce", read.ts + end_ns - backend.now):
                pass
            host.run("aten::mm", 8_000_000)
    edges = rank_graph(scene.linked()).edges
    assert (edges.kind == EdgeKind.COMMUNICATION_WAIT).sum() == waits


@pytest.mark.parametrize(
    ("behind_ns", "works_ns", "others", "waits"),
    [
        pytest.param(20_000, 0, 0, 1, id="ends right behind it"),
        pytest.param(20_000, 0, 1, 1, id="and another does not"),
        pytest.param(20_000, 0, 2, 0, id="and most others do not"),
        pytest.param(400_000, 0, 0, 0, id="goes on"),
        pytest.param(20_000, 5_000, 0, 0, id="calls another op before"),
    ],
)
def test_a_hook_that_requests_communication_waits_in_the_op_that_calls_it(
    behind_ns: int, works_ns: int, others: int, waits: int
) -> None:
    scene, host = host_scene(devices=[])
    backend = scene.thread("pt_gloo_runner")
    with host.op("torch::autograd::AccumulateGrad", 0):
        host.spend(10_000)
        host.run("c10d::allreduce_", 5_000)
        backend.until(host.now + 3_000)
        with backend.annotation("gloo:all_reduce", 1_000_000) as ranged:
            pass
        if works_ns:
            host.run("aten::mm", works_ns)
        host.until(ranged.end + behind_ns)
    for _ in range(others):
        with host.op("torch::autograd::AccumulateGrad", 0):
            host.run("c10d::allreduce_", 5_000)
            backend.until(host.now + 3_000)
            host.run("aten::mm", 50_000)
        with backend.annotation("gloo:all_reduce", 1_000_000):
            pass
    edges = rank_graph(scene.linked()).edges
    assert (edges.kind == EdgeKind.COMMUNICATION_WAIT).sum() == waits


def test_a_range_starts_after_the_op_that_requested_it() -> None:
    scene, _, requested, ranged = beside_gloo()
    graph = rank_graph(scene.linked())
    threads = graph.edges[graph.edges.kind == EdgeKind.THREAD]
    events = graph.activities.get_column("event_id").to_list()
    assert [events[number // 2] for number in threads.before] == [requested.event_id]
    assert threads.before[0] % 2 == Point.END
    assert graph.times_ns[threads.after].tolist() == [ranged.ts]


def test_ranges_of_ops_before_the_window_have_none() -> None:
    scene = Scene(devices=[])
    host, backend = scene.thread(), scene.thread("pt_gloo_runner")
    with backend.annotation("gloo:all_reduce", 10_000):
        pass
    asked = host.run("c10d::allreduce_", 50_000)
    backend.until(60_000)
    with backend.annotation("gloo:all_reduce", 10_000):
        pass
    linked = scene.linked()
    assert backend_ranges(linked).height == 2
    assert issuing_ops(linked).get_column("event_id").to_list() == [None, asked.event_id]
