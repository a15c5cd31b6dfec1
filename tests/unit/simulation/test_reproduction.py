"""Errors of a replay against the measured steps."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.planted import PlannedJob, Scene
from tests.unit.simulation.test_residual_choice import measured, replayed, steps
from tracebraid.api.graphing import dependency_graph
from tracebraid.model.answers import REPLAY_ERRORS
from tracebraid.model.graph.replay_error import ReplayError
from tracebraid.simulation.reproduction import replay_error, replay_errors
from tracebraid.simulation.residual_choice import Residuals, with_residuals


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


def test_the_share_that_is_modelled_is_that_of_residuals() -> None:
    graph = with_residuals(steps(late=3), Residuals.MODELLED)
    errors = replay_errors(steps(late=3)).filter(pl.col("rank").is_null())
    shares = errors.get_column("modelled_share").to_list()
    assert all(0 <= share < 1 for share in shares)
    assert (max(shares) > 0) == bool(graph.moments.residual_ns.sum() > 0)


def test_each_rank_has_its_errors(tmp_path: Path) -> None:
    job = PlannedJob(2)
    for number in (1, 2, 3):
        with job.step(number):
            job.compute(100_000, ranks=[1])
            job.collective("allreduce", transfer=50_000)
    errors = replay_errors(dependency_graph(tracebraid.open(job.write(tmp_path))))
    assert errors.get_column("rank").to_list() == [None, None, None, 0, 1, 0, 1, 0, 1]
    for rank in (None, 0, 1):
        found = replay_error(errors, rank)
        assert (found.steps, found.median, found.p95) == (3, 0, 0)


def test_a_trace_without_steps_is_one_row() -> None:
    scene = Scene()
    host = scene.thread()
    with host.op("aten::mm"):
        host.spend(1_000)
    errors = replay_errors(dependency_graph(scene.linked()))
    assert errors.filter(pl.col("rank").is_null()).select("step", "error").rows() == [(None, 0.0)]
    assert replay_error(errors).next_step_median is None


def test_nothing_was_recorded() -> None:
    errors = replay_errors(dependency_graph(Scene().linked()))
    assert errors.equals(REPLAY_ERRORS.empty())
    assert replay_error(errors) == ReplayError()


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


def test_the_demo_is_reproduced(demo: Path) -> None:
    found = replay_error(replay_errors(dependency_graph(tracebraid.open(demo))))
    assert found.median is not None
    assert found.median <= 0.02
