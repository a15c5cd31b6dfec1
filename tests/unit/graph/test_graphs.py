"""Graphs of some steps: what describes their activities, the parts of time, and questions of traces and graphs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tracebraid
from tests.planted import Cause, Copy, Host, PlannedJob, Planted, Scene, device_scene, write_ranks
from tests.planted.graphs import check_graph, graph_of
from tests.planted.nodes import node_id_of, nodes_of
from tracebraid import dependency_graph
from tracebraid.errors import ArgumentError, InputError
from tracebraid.graph.rank_graph import forward_edges
from tracebraid.model.engine import Job
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.graph import DependencyGraph, EdgeKind, EdgeList, Residual


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    planned = PlannedJob(2)
    for number in (1, 2, 3, 4):
        with planned.step(number):
            planned.compute(100_000)
            planned.compute(200_000 * number, [1])
            planned.collective()
    opened = tracebraid.open(planned.write(tmp_path_factory.mktemp("job")))
    assert isinstance(opened, Job)
    return opened


@pytest.mark.slow
@pytest.mark.parametrize("steps", [2, "2", "ProfilerStep#2", [2], range(2, 3)])
def test_a_step_is_named_by_number_name_or_range(job: Job, steps: int | str | list[int]) -> None:
    graph = tracebraid.dependency_graph(job, steps=steps)
    check_graph(graph)
    assert graph.steps.get_column("step").to_list() == ["ProfilerStep#2"] * 2
    assert not graph.is_whole


@pytest.mark.slow
def test_moments_in_the_steps_are_those_of_the_whole_graph(job: Job) -> None:
    whole = tracebraid.dependency_graph(job)
    some = tracebraid.dependency_graph(job, steps=[2, 4])
    check_graph(some)
    assert some.steps.get_column("step").to_list() == ["ProfilerStep#2"] * 2 + ["ProfilerStep#4"] * 2
    for step, rank, *moments in some.steps.iter_rows():
        same = whole.steps.row(by_predicate=(pl.col("step") == step) & (pl.col("rank") == rank))[2:]
        for ours, theirs in zip(moments, same, strict=True):
            assert some.moments.time_ns[ours] == whole.moments.time_ns[theirs]
    assert len(some.moments) < 0.8 * len(whole.moments)
    collectives = some.activities.filter(pl.col("rank").is_null())
    assert collectives.get_column("step").cast(pl.String).to_list() == ["ProfilerStep#2", "ProfilerStep#4"]


def test_what_was_waited_for_before_the_window_happens_when_it_did(job: Job) -> None:
    graph = tracebraid.dependency_graph(job, steps=3)
    without = np.flatnonzero((np.diff(graph.edges.first) == 0) & (graph.moments.residual_ns > 0))
    assert len(without)
    assert set(graph.moments.residual[without]) == {Residual.BEFORE}


@pytest.mark.slow
def test_a_step_that_is_not_there_is_an_error_that_names_those_that_are(job: Job) -> None:
    with pytest.raises(ArgumentError, match=r"9.*ProfilerStep#1"):
        tracebraid.dependency_graph(job, steps=[2, 9])
    with pytest.raises(ArgumentError):
        tracebraid.dependency_graph(job, steps=[])
    with pytest.raises(ArgumentError):
        tracebraid.dependency_graph(job.with_annotation("nothing"), steps=1)


@pytest.mark.slow
def test_a_rank_is_read_once_for_the_same_graph(job: Job) -> None:
    loads: list[int] = []

    def load(files: object, progress: object) -> object:
        loads.append(1)
        return job.load(files, progress)  # type: ignore[arg-type]

    counted = Job(job.path, job.files, load)  # type: ignore[arg-type]
    first = tracebraid.dependency_graph(counted, steps=2)
    assert tracebraid.dependency_graph(counted, steps=2) is first
    assert len(loads) == 2
    tracebraid.analyses.stragglers(counted)
    assert len(loads) <= 4


def test_a_linked_trace_is_a_job_of_one_rank(demo: Path) -> None:
    opened = tracebraid.open(demo)
    assert isinstance(opened, Job)
    graph = tracebraid.dependency_graph(opened[0], steps=4)
    check_graph(graph)
    assert graph.steps.get_column("rank").to_list() == [0]
    assert tracebraid.dependency_graph(opened[0], steps=4) is graph


def test_two_traces_that_claim_a_rank_are_an_error(tmp_path: Path) -> None:
    text = Scene(rank=0, world_size=2).text()
    for name in ("kineto_trace_0.json", "kineto_trace_1.json"):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError):
        tracebraid.dependency_graph(tracebraid.open(tmp_path))


def spans(graph: DependencyGraph) -> dict[tuple[int, str], int]:
    """From the first moment of each thread or stream to its last, by rank and track."""
    times, moment_of = graph.moments.time_ns, graph.moment_of
    by_lane = (
        graph.activities.select("rank", "lane", "stream")
        .with_columns(
            pl.Series("start", times[moment_of[:, 0]], dtype=pl.Int64),
            pl.Series("end", times[moment_of[:, 1]], dtype=pl.Int64),
            track=pl.when(pl.col("stream").is_null()).then(pl.lit("host")).otherwise(pl.lit("device")),
        )
        .drop_nulls("lane")
        .group_by("rank", "lane", "track")
        .agg((pl.col("end").max() - pl.col("start").min()).alias("ns"))
    )
    summed = by_lane.group_by("rank", "track").agg(pl.col("ns").sum())
    return {(rank, track): ns for rank, track, ns in summed.iter_rows() if ns}


def check(graph: DependencyGraph) -> pl.DataFrame:
    found = tracebraid.graph_coverage(graph).with_columns(pl.col("track", "part", "kind").cast(pl.String))
    assert found.is_empty() or found.get_column("ns").min() > 0  # type: ignore[operator]
    every = found.filter(pl.col("step").is_null()).group_by("rank", "track").agg(pl.col("ns").sum())
    assert {(rank, track): ns for rank, track, ns in every.iter_rows()} == spans(graph)
    shares = found.group_by("step", "rank", "track").agg(pl.col("share").sum())
    assert shares.get_column("share").to_list() == pytest.approx([1.0] * shares.height)
    return found


def test_parts_add_up_and_name_what_was_planted() -> None:
    job = PlannedJob(2)
    for number in (1, 2):
        with job.step(number):
            job.compute(100_000)
            job.compute(400_000, [1])
            job.collective(transfer=60_000)
    graph = graph_of(job)
    found = check(graph)
    rows = {
        tuple(row)
        for row in found.filter(pl.col("step").is_not_null() & (pl.col("track") == "device"))
        .select("step", "rank", "part", "kind", "ns")
        .iter_rows()
    }
    for step in ("ProfilerStep#1", "ProfilerStep#2"):
        assert {(step, 0, "work", "transfer", 60_000), (step, 1, "work", "transfer", 60_000)} <= rows
        assert {(step, 0, "work", "kernel", 100_000), (step, 1, "work", "kernel", 500_000)} <= rows
        waited = [
            ns
            for name, rank, part, kind, ns in rows
            if (name, rank, part, kind) == (step, 0, "waiting", "transfer")
        ]
        assert waited == pytest.approx([400_000], abs=20_000)


@pytest.mark.slow
def test_the_main_threads_part_of_a_step_is_the_step(demo: Path) -> None:
    graph = tracebraid.dependency_graph(tracebraid.open(demo), steps=4)
    found = tracebraid.graph_coverage(graph)
    assert found.filter(pl.col("step") == "ProfilerStep#4").height == found.height / 2
    steps = graph.steps.filter(pl.col("rank") == 0)
    span = (
        graph.moments.time_ns[steps.item(0, "host_end_moment")]
        - graph.moments.time_ns[steps.item(0, "start_moment")]
    )
    assert found.filter(pl.col("rank") == 0).get_column("ns").sum() >= 2 * span


@pytest.mark.slow
def test_the_demo_adds_up(demo: Path) -> None:
    check(tracebraid.dependency_graph(tracebraid.open(demo)))


def row(graph: DependencyGraph, event: Planted) -> dict[str, object]:
    """The activity of an event."""
    found = graph.activities.filter(pl.col("event_id") == event.event_id)
    return found.row(0, named=True)


def test_forward_backward_and_copy() -> None:
    scene, host, stream = device_scene()
    with host.step(1, 1_000):
        with host.module("Linear_0", 1_000), host.op("aten::mm", dims=[[2, 3], [3, 4]], sequence=1) as mm:
            forward = host.launch(stream, "sgemm_128x64_nn", 50_000)
        with host.backward("MmBackward0", mm, host):
            backward = host.launch(stream, "sgemm_128x64_nt", 50_000)
        copied = host.copy(stream, Copy.DEVICE_TO_PINNED, 4096, 7_000)
    graph = dependency_graph(scene.linked(nodes_of(scene)))
    of_op, of_kernel = row(graph, mm), row(graph, forward)
    assert (of_op["family"], of_op["module"]) == ("gemm", "Linear_0")
    assert of_op["shapes"] == of_kernel["shapes"] == "[[2, 3], [3, 4]]"
    assert of_op["node_id"] == of_kernel["node_id"] == node_id_of(mm)
    assert (of_kernel["family"], of_kernel["module"]) == ("gemm", "Linear_0")
    assert row(graph, backward)["module"] == "Linear_0"
    assert (row(graph, copied)["size_bytes"], row(graph, copied)["family"]) == (4096, "copy")


@pytest.mark.slow
@pytest.mark.parametrize("devices", [True, False])
def test_communication_has_group_and_bytes(tmp_path: Path, devices: bool) -> None:
    job = PlannedJob(2) if devices else PlannedJob(2, devices=())
    with job.step(1):
        job.compute(10_000)
        planted = job.collective(nelems=256)
    graph = dependency_graph(tracebraid.open(job.write(tmp_path)))
    members = graph.activities.filter(pl.col("kind") == "communication")
    assert members.get_column("rank").to_list() == [0, 1]
    assert members.get_column("event_id").to_list() == [planted.event_ids[rank] for rank in (0, 1)]
    whole = graph.activities.filter(pl.col("kind") == "collective")
    assert whole.get_column("name").to_list() == ["all_reduce"]
    for found in (members, whole):
        assert found.get_column("size_bytes").unique().to_list() == [1024]
        assert found.get_column("collective").unique().to_list() == [0]
        assert found.get_column("group").null_count() == 0


def test_an_execution_trace_that_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    scene = Scene()
    scene.thread().run("aten::mm", 1_000)
    write_ranks(tmp_path, [scene])
    (tmp_path / "et_trace_0.json").write_text("{}")
    graph = dependency_graph(tracebraid.open(tmp_path))
    assert graph.activities.get_column("node_id").null_count() == graph.activities.height
    assert FindingCode.GRAPH_WITHOUT_NODES in {finding.code for finding in graph.findings}


QUESTIONS: dict[str, Callable[[Job | DependencyGraph], pl.DataFrame]] = {
    "critical_path": lambda asked: tracebraid.critical_path(asked, replays=2).segments,
    "graph_coverage": tracebraid.graph_coverage,
    "straggler_metrics": tracebraid.straggler_metrics,
    "sweep": tracebraid.sweep,
    "what_if": lambda asked: tracebraid.what_if(asked, "scale 0.5 kind=kernel").steps,
}


@pytest.fixture(scope="module")
def delayed_job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    planned = PlannedJob(2)
    for number in (1, 2):
        with planned.step(number):
            planned.compute(100_000)
            planned.delay(number % 2, Cause.KERNEL, 400_000)
            planned.collective("allreduce")
    return tracebraid.open(planned.write(tmp_path_factory.mktemp("job")))


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
def test_traces_and_their_graph_give_the_same_answer(delayed_job: Job, question: str) -> None:
    found = QUESTIONS[question](tracebraid.dependency_graph(delayed_job))
    assert not found.is_empty()
    assert found.equals(QUESTIONS[question](delayed_job))


def test_edges_against_time_are_left_out_and_counted_by_kind() -> None:
    before, after = np.array([0, 1, 2, 3]), np.array([1, 0, 0, 3])
    kind = np.array([EdgeKind.LAUNCH, EdgeKind.LAUNCH, EdgeKind.SYNC, EdgeKind.SYNC], dtype=np.uint8)
    edges = EdgeList(before, after, np.zeros(4, dtype=np.int64), kind, after)
    kept, findings = forward_edges(edges, np.array([0, 10, 20, 30]), "trace.json")
    assert kept.before.tolist() == [0, 3]
    assert [(one.code, one.count, one.path, one.details["kind"]) for one in findings] == [
        (FindingCode.DEPENDENCY_BACKWARD, 1, "trace.json", "launch"),
        (FindingCode.DEPENDENCY_BACKWARD, 1, "trace.json", "sync"),
    ]


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("drift_ppm", [20.0, -20.0, 300.0])
def test_work_on_a_clock_that_drifts_depends_on_what_it_depended_on(drift_ppm: float) -> None:
    """On the reference's clock a kernel takes less time than it says, or more: it starts where the one before ended."""

    def graph_with(drift: float) -> DependencyGraph:
        job = PlannedJob(2, hosts=[Host("a"), Host("b", drift_ppm=drift)])
        for number in range(1, 6):
            with job.step(number):
                job.compute(100_000)
                job.delay(1, Cause.KERNEL, 400_000)
                for _ in range(3):
                    job.collective(transfer=50_000)
                    job.compute(60_000)
        return graph_of(job)

    plain, drifting = graph_with(0.0), graph_with(drift_ppm)
    check_graph(drifting)
    assert drifting.ranks.clocks.get_column("drift_ppm").to_list() == [
        0.0,
        pytest.approx(-drift_ppm, rel=0.1),
    ]
    assert FindingCode.GRAPH_EDGES_CONTRADICTED not in {finding.code for finding in drifting.findings}
    assert len(drifting.edges) == len(plain.edges)
    assert drifting.moments.residual_ns.sum() == pytest.approx(plain.moments.residual_ns.sum(), abs=5_000)
    assert drifting.edges.work_ns.sum() == pytest.approx(plain.edges.work_ns.sum(), rel=0.001)
