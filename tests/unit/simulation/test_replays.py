"""Replays reproduce the run that they were built from; which residuals stay, and what interference explains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

import tracebraid
from tests.planted import LATENCY_NS, Cause, PlannedJob, Scene, device_scene, host_scene
from tests.planted.scenes import clean
from tracebraid import dependency_graph
from tracebraid.model.graph import ActivityKind, DependencyGraph, EdgeKind, ReplayError, WhatIfNote
from tracebraid.model.schema.links import GRAPH_STEPS
from tracebraid.simulation.interference import (
    INTERFERENCE,
    InterferenceData,
    interference_of,
    with_interference,
)
from tracebraid.simulation.replay import (
    REPLAY_ERRORS,
    Evidence,
    Residuals,
    StepMoments,
    StepTimes,
    job_step_times,
    rank_step_times,
    replay,
    replay_error,
    replay_errors,
    step_moments,
    usual_residuals,
    with_residuals,
)


def test_a_late_kernel_is_the_error_of_its_step() -> None:
    graph = steps(late=3)
    errors = replay_errors(graph).filter(pl.col("rank").is_null())
    times = measured(graph)
    assert errors.get_column("measured_ns").to_list() == times
    assert errors.get_column("replayed_ns").to_list() == replayed(with_residuals(graph, Residuals.MODELLED))
    assert errors.get_column("error").to_list() == pytest.approx([0, 0, times[3] / times[2] - 1, 0, 0])


def test_a_step_says_how_long_the_next_takes() -> None:
    errors = replay_errors(steps()).filter(pl.col("rank").is_null())
    assert errors.get_column("next_ns").is_null().to_list() == [True, False, False, False, False]
    assert errors.get_column("next_error").to_list()[1:] == pytest.approx([0, 0, 0, 0])


@pytest.mark.slow
def test_the_share_that_is_modelled_is_that_of_residuals() -> None:
    graph = with_residuals(steps(late=3), Residuals.MODELLED)
    errors = replay_errors(steps(late=3)).filter(pl.col("rank").is_null())
    shares = errors.get_column("modelled_share").to_list()
    assert all(0 <= share < 1 for share in shares)
    assert (max(shares) > 0) == bool(graph.moments.residual_ns.sum() > 0)


@pytest.mark.slow
def test_each_rank_has_its_errors(tmp_path: Path) -> None:
    job = PlannedJob(2)
    for number in (1, 2, 3):
        with job.step(number):
            job.delay(1, Cause.OP, 100_000)
            job.collective("allreduce", transfer=50_000)
    errors = replay_errors(dependency_graph(tracebraid.open(job.write(tmp_path))))
    assert errors.get_column("rank").to_list() == [None, None, None, 0, 1, 0, 1, 0, 1]
    for rank in (None, 0, 1):
        found = replay_error(errors, rank)
        assert (found.steps, found.median, found.p95) == (3, 0, 0)


def test_a_trace_without_steps_is_one_row() -> None:
    scene, host = host_scene()
    with host.op("aten::mm"):
        host.spend(1_000)
    errors = replay_errors(dependency_graph(scene.linked()))
    assert errors.filter(pl.col("rank").is_null()).select("step", "error").rows() == [(None, 0.0)]
    assert replay_error(errors).next_step_median is None


def test_nothing_was_recorded() -> None:
    errors = replay_errors(dependency_graph(Scene().linked()))
    assert errors.equals(REPLAY_ERRORS.empty())
    assert replay_error(errors) == ReplayError()


@pytest.mark.slow
@pytest.mark.traces
@pytest.mark.parametrize(
    ("name", "median"),
    [
        ("a100_ddp_nccl_rank0of2.json.gz", 0.02),
        ("a100_event_sync.json.gz", 0.02),
        ("a100_event_sync_multi_stream.json.gz", 0.02),
        ("cpu_only_rank34.json.gz", 0.05),
        ("h100_qwen_stack_memory.json.gz", 0.05),
        ("mi250_minitoy_train.json.gz", 0.05),
        ("mi300x_compile_triton.json.gz", 0.05),
        ("mi300x_decode_graph_launch.json.gz", 0.05),
        ("mi300x_qwen_stack_memory.json.gz", 0.05),
        ("mtia_inference.json.gz", 0.05),
        ("no_distributed_info.json.gz", 0.05),
        ("sampled_2_of_128", 0.05),
        ("triton_example.json.gz", 0.05),
    ],
)
def test_real_traces_are_reproduced(real_traces: Path, name: str, median: float) -> None:
    errors = replay_errors(dependency_graph(tracebraid.open(real_traces / "kineto" / name)))
    found = replay_error(errors)
    assert found.median is not None
    assert found.median <= median
    assert not any(errors.select(pl.col("error", "next_error").is_nan().any()).row(0))
    assert errors.get_column("modelled_share").drop_nulls().is_between(0, 1).all()


@pytest.mark.slow
def test_the_demo_is_reproduced(demo: Path) -> None:
    found = replay_error(replay_errors(dependency_graph(tracebraid.open(demo))))
    assert found.median is not None
    assert found.median <= 0.02


KERNEL_NS, LATE_NS = 200_000, 700_000
MODELS = [Residuals.MODELLED, Residuals.MODELLED_ALONE, Residuals.NONE]


def steps(late: int | None = None, count: int = 5) -> DependencyGraph:
    """Steps with two kernels each, for which the host waits; the second kernel of one step starts late."""
    scene, host, stream = device_scene()
    for number in range(1, count + 1):
        with host.step(number):
            for dims in ([[2, 3], [3, 4]], [[8, 8], [8, 8]]):
                late_ns = LATE_NS if number == late and dims[0] == [8, 8] else 0
                with host.op("aten::mm", dims=dims):
                    host.launch(stream, "gemm", KERNEL_NS, latency=LATENCY_NS + KERNEL_NS + late_ns)
            host.synchronize(stream)
    return dependency_graph(scene.linked())


def replayed(graph: DependencyGraph) -> list[int]:
    edges = graph.edges
    times = replay(edges.first, edges.before, edges.work_ns, graph.moments.residual_ns)
    return job_step_times(times, step_moments(graph.steps)).time_ns.tolist()


def measured(graph: DependencyGraph) -> list[int]:
    return job_step_times(graph.moments.time_ns, step_moments(graph.steps)).time_ns.tolist()


def test_steps_that_are_the_same_are_reproduced() -> None:
    graph = steps()
    assert replayed(with_residuals(graph, Residuals.MODELLED)) == measured(graph)


@pytest.mark.slow
def test_a_step_has_no_part_in_what_is_usual_for_it() -> None:
    graph, usual = steps(late=3), steps()
    assert replayed(graph) == measured(graph) != measured(usual)
    assert replayed(with_residuals(graph, Residuals.MODELLED)) == measured(usual)


@pytest.mark.slow
def test_a_step_alone_knows_its_own_residuals_only() -> None:
    graph = steps(late=3)
    with_own = replayed(with_residuals(graph, Residuals.MODELLED_ALONE))
    others = [with_own[step] for step in (0, 1, 3, 4)]
    assert others == [measured(steps())[step] for step in (0, 1, 3, 4)]
    # The mean of two launches that are alike, of which the second alone is on the path.
    assert with_own[2] > others[2]


def test_without_residuals_nothing_is_later_than_what_it_waits_for() -> None:
    graph = with_residuals(steps(late=3), Residuals.NONE)
    assert graph.moments.residual_ns.max() == 0
    assert replayed(graph)[2] == replayed(graph)[3]


@pytest.mark.parametrize("residuals", MODELS)
def test_no_measured_start_is_used(residuals: Residuals) -> None:
    graph = dependency_graph(clean(steps=3).linked())
    blind = replace(graph, moments=replace(graph.moments, time_ns=np.zeros_like(graph.moments.time_ns)))
    assert replayed(with_residuals(blind, residuals)) == replayed(with_residuals(graph, residuals))


@pytest.mark.slow
@pytest.mark.parametrize("residuals", MODELS)
def test_what_waits_for_nothing_begins_with_its_rank(residuals: Residuals) -> None:
    graph = with_residuals(dependency_graph(clean(steps=2).linked()), residuals)
    has_edges = np.diff(graph.edges.first) > 0
    assert np.flatnonzero(~has_edges).tolist() == [0]
    assert (graph.edges.before < graph.after).all()
    assert len(graph.edges.before) == len(graph.edges.work_ns) == graph.edges.first[-1]


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("late_on_host", [True, False])
def test_ranks_begin_as_they_did(tmp_path: Path, late_on_host: bool) -> None:
    """A rank's collective comes late after work of its host, or of a stream whose wait was not recorded."""
    job = PlannedJob(2)
    for number in (1, 2, 3):
        with job.step(number):
            if late_on_host:
                job.delay(1, Cause.OP, 100_000)
            else:
                job.compute(100_000, ranks=[1])
            job.collective("allreduce", transfer=50_000)
    graph = dependency_graph(tracebraid.open(job.write(tmp_path)))
    assert replayed(with_residuals(graph, Residuals.MODELLED)) == measured(graph)


def test_where_there_is_one_step_its_own_residuals_are_all_there_is() -> None:
    graph = steps(count=1)
    found = usual_residuals(graph)
    assert set(found.evidence.tolist()) <= {Evidence.OWN, Evidence.NONE}
    assert found.residual_ns.sum() > 0 or graph.moments.residual_ns.sum() == 0


def test_measured_residuals_leave_the_graph_as_it_is() -> None:
    graph = steps(late=2)
    assert with_residuals(graph, Residuals.MEASURED) is graph


def test_an_empty_graph() -> None:
    graph = dependency_graph(Scene().linked())
    for residuals in Residuals:
        assert len(with_residuals(graph, residuals).moments) == 0


def test_a_graph_of_a_step_begins_with_what_was_there() -> None:
    """A thread that began long before the step, and one that begins in it, are as late as they were."""
    scene = Scene()
    host, worker = scene.thread(), scene.thread("worker", start=50_000)
    worker.run("aten::mul", 400_000)
    for number in (1, 2):
        with host.step(number, 1_000):
            host.run("aten::mm", 300_000)
            if number == 2:
                started = scene.thread("pool", start=host.now - 100_000)
                started.run("aten::add", 150_000)
                host.until(started.now + 10_000)
    graph = dependency_graph(scene.linked(), steps=2)
    assert not graph.is_whole
    assert replayed(with_residuals(graph, Residuals.MODELLED)) == measured(graph)


ALONE_NS, BESIDE_NS, TRANSFER_NS = 100_000, 150_000, 1_000_000


def job(beside: bool = True, alone: bool = True, steps: int = 8, shapes: bool = True) -> DependencyGraph:
    """Two kernels each step, beside a collective in the steps of odd number, without in the others."""
    scene = Scene(0, 2)
    host, compute, network = scene.thread(), scene.stream(7), scene.stream(20)
    for number in range(1, steps + 1):
        overlap = bool(number % 2) if beside and alone else beside
        with host.step(number):
            host.collective(network, TRANSFER_NS)
            if not overlap:
                host.synchronize()
            for _ in range(2):
                with host.op("aten::mm", dims=[[8, 8], [8, 8]] if shapes else None):
                    host.launch(compute, "gemm", BESIDE_NS if overlap else ALONE_NS)
            host.synchronize()
    return dependency_graph(scene.linked())


def phases(forward_ns: Sequence[int], backward_ns: Sequence[int], overlap: Sequence[bool]) -> DependencyGraph:
    """Each step has a kernel without communication, and one of its shapes later, beside communication or not."""
    scene = Scene(0, 2)
    host, compute, network = scene.thread(), scene.stream(7), scene.stream(20)
    for number, (forward, backward, beside) in enumerate(
        zip(forward_ns, backward_ns, overlap, strict=True), 1
    ):
        with host.step(number):
            for duration, communicates in ((forward, False), (backward, beside)):
                if communicates:
                    host.collective(network, TRANSFER_NS)
                with host.op("aten::mm", dims=[[8, 8], [8, 8]]):
                    host.launch(compute, "gemm", duration)
                host.synchronize()
    return dependency_graph(scene.linked())


def short_transfers(slowdown: float, transfer_ns: int) -> Scene:
    """Two kernels each step: in steps of odd number beside a transfer, if it is long; in the others it is 1 us."""
    scene = Scene(0, 2)
    host, compute, network = scene.thread(), scene.stream(7), scene.stream(20)
    for number in range(1, 9):
        long_step = bool(number % 2)
        with host.step(number):
            host.collective(network, transfer_ns if long_step else 1_000)
            for _ in range(2):
                with host.op("aten::mm", dims=[[8, 8], [8, 8]]):
                    host.launch(compute, "gemm", round(ALONE_NS * (slowdown if long_step else 1.0)))
            host.synchronize()
    return scene


def without_communication(graph: DependencyGraph) -> DependencyGraph:
    """The graph where communication takes no time."""
    kinds = graph.activities.get_column("kind").cast(pl.String).to_numpy()[graph.edges.activity]
    device = graph.edges.kind == EdgeKind.DEVICE
    gone = device & (kinds == ActivityKind.COMMUNICATION.value)
    return replace(graph, edges=replace(graph.edges, work_ns=np.where(gone, 0, graph.edges.work_ns)))


def step_ns(graph: DependencyGraph, times_ns: NDArray[np.int64]) -> list[int]:
    return job_step_times(times_ns, step_moments(graph.steps)).time_ns.tolist()


def replayed_ns(graph: DependencyGraph) -> NDArray[np.int64]:
    edges = graph.edges
    return replay(edges.first, edges.before, edges.work_ns, graph.moments.residual_ns)


def test_the_slowdown_is_the_ratio_of_durations() -> None:
    found = interference_of(job())
    assert found.data is InterferenceData.MEASURED
    assert found.table.select("family", "groups", "beside", "alone").cast({"family": pl.String}).rows() == [
        ("gemm", 2, 8, 8)
    ]
    assert found.table.select("slowdown", "low", "high").row(0) == pytest.approx([BESIDE_NS / ALONE_NS] * 3)


EVERY_OTHER = [True, False] * 6


@pytest.mark.parametrize(("backward_ns", "overlap"), [(120_000, EVERY_OTHER), (200_000, [True] * 12)])
def test_longer_kernels_of_the_backward_are_not_taken_for_slower(
    backward_ns: int, overlap: list[bool]
) -> None:
    """The backward's kernel is longer than the forward's, and as long with communication as without."""
    found = interference_of(phases([ALONE_NS] * 12, [backward_ns] * 12, overlap))
    assert found.data is InterferenceData.NO_COMPARISON
    assert found.table.is_empty()
    assert (found.slowdown == 1).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_durations_that_vary_by_chance_are_no_slowdown(seed: int) -> None:
    drawn = np.random.default_rng(seed).integers(95_000, 105_000, (2, 12)).tolist()
    found = interference_of(phases(drawn[0], drawn[1], EVERY_OTHER))
    assert found.data is InterferenceData.NO_COMPARISON


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_slowdown_of_kernels_whose_durations_vary_is_found(seed: int) -> None:
    drawn = np.random.default_rng(seed).integers(98_000, 102_000, (2, 12))
    backward = np.where(EVERY_OTHER, 1.3, 1.0) * 2 * drawn[1]
    found = interference_of(phases(drawn[0].tolist(), np.rint(backward).astype(int).tolist(), EVERY_OTHER))
    assert found.data is InterferenceData.MEASURED
    assert found.table.select("groups", "beside", "alone").row(0) == (1, 6, 6)
    assert found.table.get_column("slowdown").item() == pytest.approx(1.3, rel=0.04)


def test_kernels_are_as_fast_as_alone_where_communication_is_gone() -> None:
    graph = job()
    changed = without_communication(graph)
    slowed = step_ns(changed, replayed_ns(with_interference(changed, interference_of(graph))))
    without = step_ns(changed, replayed_ns(changed))
    gains = [before - after for before, after in zip(without, slowed, strict=True)]
    assert gains == [2 * (BESIDE_NS - ALONE_NS), 0] * 4


@pytest.mark.slow
def test_kernels_that_come_beside_communication_become_slower() -> None:
    graph = job()
    # As if all of these durations had been measured without communication.
    interference = interference_of(graph)
    quiet = replace(interference, share=np.zeros_like(interference.share))
    slower = step_ns(graph, replayed_ns(with_interference(graph, quiet)))
    assert all(
        after >= before for before, after in zip(step_ns(graph, replayed_ns(graph)), slower, strict=True)
    )
    assert not (replayed_ns(with_interference(graph, quiet)) == replayed_ns(graph)).all()


@pytest.mark.slow
def test_a_change_that_ends_overlap_predicts_the_other_trace() -> None:
    """A transfer of 1 us has ended when the first kernel begins; one of 310 us is beside both of the first two."""
    both = 2 * round(1.5 * ALONE_NS) + 10_000
    found = tracebraid.what_if(short_transfers(1.5, both).linked(), "set 1us kind=communication")
    truth = tracebraid.what_if(short_transfers(1.0, 1_000).linked(), "scale 1")
    assert found.steps.get_column("after_ns").to_list() == truth.steps.get_column("before_ns").to_list()
    assert tracebraid.results.WhatIfNote.INTERFERENCE in found.notes
    assert found.interference.get_column("slowdown").to_list() == pytest.approx([1.5])
    assert tracebraid.results.WhatIfNote.SAME_OVERLAP in truth.notes


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    ("without", "note"),
    [
        ({"alone": False}, tracebraid.results.WhatIfNote.NO_COMPARISON),
        ({"beside": False}, tracebraid.results.WhatIfNote.SAME_OVERLAP),
    ],
)
def test_the_answer_says_why_interference_is_not_modelled(
    without: dict[str, Any], note: tracebraid.results.WhatIfNote
) -> None:
    found = tracebraid.what_if(job(**without), "scale 0 kind=communication")
    assert note in found.notes
    assert found.interference.is_empty()


def test_an_unchanged_graph_keeps_its_times() -> None:
    graph = job()
    assert (replayed_ns(with_interference(graph, interference_of(graph))) == replayed_ns(graph)).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("without", "data"),
    [
        ({"beside": False}, InterferenceData.NO_OVERLAP),
        ({"alone": False}, InterferenceData.NO_COMPARISON),
        ({"shapes": False}, InterferenceData.NO_COMPARISON),
        ({"steps": 1}, InterferenceData.NO_COMPARISON),
        ({"steps": 6}, InterferenceData.NO_COMPARISON),
    ],
)
def test_where_there_is_nothing_to_compare_nothing_is_modelled(
    without: dict[str, Any], data: InterferenceData
) -> None:
    graph = job(**without)
    found = interference_of(graph)
    assert found.data is data
    assert found.table.equals(INTERFERENCE.empty())
    changed = without_communication(graph)
    assert (replayed_ns(with_interference(changed, found)) == replayed_ns(changed)).all()


def test_an_empty_graph_has_no_interference() -> None:
    graph = dependency_graph(Scene().linked())
    found = interference_of(graph)
    assert found.data is InterferenceData.NO_OVERLAP
    assert len(replayed_ns(with_interference(graph, found))) == 0


TimesOf = Callable[[NDArray[np.int64], StepMoments], StepTimes]
Row = tuple[str | None, int, int, int | None, int | None]


def step_rows(*rows: Row) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=GRAPH_STEPS.polars_schema(), orient="row")


TWO_RANKS: Sequence[Row] = (
    ("one", 0, 0, 1, 2),
    ("one", 3, 3, 4, None),
    ("two", 0, 5, 6, 7),
    ("two", 3, 8, 9, None),
)

TIMES = np.array([0, 10, 14, 2, 12, 10, 20, 30, 12, 31])


def test_a_step_takes_from_the_end_of_the_step_before_to_its_own() -> None:
    found = rank_step_times(TIMES, step_moments(step_rows(*TWO_RANKS)))
    # The first begins on no rank before it has begun on both.
    assert found.start_ns.tolist() == [2, 2, 10, 12]
    assert found.end_ns.tolist() == [14, 12, 30, 31]
    assert found.span_ns.tolist() == [12, 10, 20, 19]
    assert found.time_ns.tolist() == [12, 10, 16, 19]


def test_a_step_of_the_job_ends_with_its_last_rank() -> None:
    found = job_step_times(TIMES, step_moments(step_rows(*TWO_RANKS)))
    # The first begins when it has begun on both ranks.
    assert found.start_ns.tolist() == [2, 10]
    assert found.end_ns.tolist() == [14, 31]
    assert found.time_ns.tolist() == [12, 17]


@pytest.mark.parametrize("times_of", [rank_step_times, job_step_times])
def test_many_scenarios_at_once_with_the_chosen_moments_alone(times_of: TimesOf) -> None:
    whole = step_moments(step_rows(*TWO_RANKS, ("one", 5, 11, 12, 13)))
    times = np.stack([np.arange(14), np.arange(14) ** 2, np.arange(14)[::-1] * 3])
    chosen = whole.chosen
    assert 10 not in chosen
    together = times_of(times[:, chosen], whole.of_chosen())
    for row, scenario in enumerate(times):
        alone = times_of(scenario, whole)
        assert together.time_ns[row].tolist() == alone.time_ns.tolist()
        assert together.start_ns[row].tolist() == alone.start_ns.tolist()


def test_a_rank_that_lacks_a_step() -> None:
    rows: list[Row] = [("a", 0, 0, 1, None), ("a", 1, 2, 3, None), ("b", 1, 4, 5, None), ("c", 0, 6, 7, None)]
    found = rank_step_times(np.array([0, 5, 0, 6, 7, 9, 10, 15]), step_moments(step_rows(*rows)))
    assert found.time_ns.tolist() == [5, 6, 3, 10]


def test_no_time_is_negative_where_a_step_ends_before_an_earlier_step() -> None:
    rows: list[Row] = [("a", 0, 0, 1, 4), ("b", 0, 2, 3, None), ("c", 0, 5, 6, None)]
    found = rank_step_times(np.array([0, 5, 6, 8, 10, 11, 12]), step_moments(step_rows(*rows)))
    assert found.time_ns.tolist() == [10, 0, 2]
    assert found.time_ns.sum() == 12


def test_a_trace_without_steps_is_one_span() -> None:
    found = job_step_times(np.array([3, 9]), step_moments(step_rows((None, 0, 0, 1, None))))
    assert found.time_ns.tolist() == [6]


def test_no_steps_at_all() -> None:
    empty = step_moments(GRAPH_STEPS.empty())
    assert job_step_times(np.empty(0, dtype=np.int64), empty).time_ns.tolist() == []
    assert rank_step_times(np.empty(0, dtype=np.int64), empty).time_ns.tolist() == []


OVERLAP = {WhatIfNote.INTERFERENCE, WhatIfNote.SAME_OVERLAP, WhatIfNote.NO_OVERLAP, WhatIfNote.NO_COMPARISON}


@pytest.mark.slow
def test_without_kernels_nothing_is_said_about_what_runs_beside_communication() -> None:
    host = Scene(devices=())
    host.thread().run("aten::mm", 1000)
    device = Scene()
    thread, stream = device.thread(), device.stream()
    with thread.op("aten::mm"):
        thread.launch(stream, "gemm", 1000)
    notes = [tracebraid.what_if(scene.linked(), "scale 0.5 name=aten::mm").notes for scene in (host, device)]
    assert [bool(OVERLAP & set(of_one)) for of_one in notes] == [False, True]
