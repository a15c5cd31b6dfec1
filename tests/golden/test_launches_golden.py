"""Launches of real Kineto traces: each device event has an op, or a reason."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import polars as pl
import pytest

from tests.golden.linked import intervals, names_of
from tracebraid.api import link
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.reason import OrphanReason

KINETO_FILES = [
    "kineto/a100_alexnet_cuda_sync",
    "kineto/a100_cupti_counters",
    "kineto/a100_ddp_nccl_rank0of2",
    "kineto/a100_event_sync",
    "kineto/a100_event_sync_multi_stream",
    "kineto/cpu_only_rank34",
    "kineto/h100_qwen_stack_memory",
    "kineto/mi250_minitoy_train",
    "kineto/mi300x_compile_triton",
    "kineto/mi300x_decode_graph_launch",
    "kineto/mi300x_qwen_stack_memory",
    "kineto/mtia_inference",
    "kineto/no_distributed_info",
    "kineto/sampled_2_of_128/sampled_rank-0",
    "kineto/sampled_2_of_128/sampled_rank-1",
    "kineto/triton_example",
    "kineto/v100_rank1of2_54MB",
]


DEVICE_CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset", "mtia_ccp_events"}


ATTRIBUTED = {
    "kineto/a100_alexnet_cuda_sync": (98, 98),
    "kineto/a100_ddp_nccl_rank0of2": (3774, 3774),
    "kineto/mi250_minitoy_train": (16, 16),
    "kineto/mi300x_compile_triton": (12, 12),
    "kineto/mi300x_decode_graph_launch": (558, 558),
    "kineto/triton_example": (1, 1),
    "kineto/v100_rank1of2_54MB": (22_290, 22_290),
}


@cache
def alone(path: Path) -> LinkedTrace:
    return link(None, path)


def test_no_file_of_the_folder_is_left_out(real_traces: Path) -> None:
    there = real_traces.glob("kineto/**/*.json.gz")
    assert {str(path.relative_to(real_traces)).removesuffix(".json.gz") for path in there} == set(
        KINETO_FILES
    )


@pytest.mark.parametrize("name", KINETO_FILES)
def test_every_device_event_has_an_op_or_a_reason(real_traces: Path, name: str) -> None:
    linked = alone(real_traces / f"{name}.json.gz")
    links = linked.device_links
    assert (links.get_column("op_event").is_null() == links.get_column("reason").is_not_null()).all()
    assert (links.get_column("op_event").is_null() == links.get_column("method").is_null()).all()
    categories = linked.timeline.events.get_column("category").cast(pl.String)
    assert links.height == categories.is_in(DEVICE_CATEGORIES).sum()


@pytest.mark.parametrize("name", KINETO_FILES)
def test_every_attributed_device_event_hangs_under_an_op_that_was_running_at_the_launch(
    real_traces: Path, name: str
) -> None:
    found = intervals(alone(real_traces / f"{name}.json.gz"))
    late = found.filter(
        (pl.col("call_ts") < pl.col("op_ts"))
        | (pl.col("call_ts") >= pl.col("op_end"))
        | (pl.col("op_lane") != pl.col("call_lane"))
    )
    assert late.height == 0


@pytest.mark.parametrize(("name", "figures"), ATTRIBUTED.items())
def test_how_many_device_events_are_attributed(
    real_traces: Path, name: str, figures: tuple[int, int]
) -> None:
    gpu = alone(real_traces / f"{name}.json.gz").coverage.gpu_events
    assert (gpu.total, gpu.linked) == figures


def test_all_kernels_of_a_graph_launch_hang_under_one_op(real_traces: Path) -> None:
    linked = alone(real_traces / "kineto/mi300x_decode_graph_launch.json.gz")
    names = names_of(linked)
    graph = [event for event, name in names.items() if name == "hipGraphLaunch"]
    found = linked.device_links.filter(pl.col("call_event").is_in(graph))
    assert (found.height, found.get_column("op_event").n_unique()) == (544, 1)


@pytest.mark.parametrize("name", ["h100_qwen_stack_memory", "mi300x_qwen_stack_memory"])
def test_kernels_that_were_launched_before_the_profiler_started_say_so(real_traces: Path, name: str) -> None:
    linked = alone(real_traces / f"kineto/{name}.json.gz")
    lost = linked.device_links.filter(pl.col("op_event").is_null())
    calls = linked.timeline.host_calls.get_column("correlation")
    correlations = linked.timeline.device_work.join(lost, on="event_id", how="semi").get_column("correlation")
    assert lost.height > 400
    assert not correlations.is_in(calls.implode()).any()
    assert set(lost.get_column("reason").cast(pl.String)) == {OrphanReason.NO_CALL}


def test_mtia_work_without_a_correlation_says_so(real_traces: Path) -> None:
    linked = alone(real_traces / "kineto/mtia_inference.json.gz")
    work = linked.timeline.device_work.join(linked.device_links, on="event_id")
    none = work.filter(pl.col("correlation").is_null())
    assert none.height == 322
    assert set(none.get_column("reason").cast(pl.String)) == {OrphanReason.NO_CORRELATION}
