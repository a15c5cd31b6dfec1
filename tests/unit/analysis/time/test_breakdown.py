"""Where the time goes."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tests.builders import Json, call, complete, kernel, op
from tests.unit.linking.made import linked_of
from tracebraid.analysis.time.breakdown import breakdown
from tracebraid.model.answers import BREAKDOWN

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def over_all(*events: Json, **options: Any) -> dict[str, Any]:
    """The row over all, times in µs."""
    rows = breakdown(linked_of(events), **options).filter(pl.col("step").is_null()).to_dicts()
    assert len(rows) == 1
    return {key.removesuffix("_ns"): v / 1000 if key.endswith("_ns") else v for key, v in rows[0].items()}


def test_the_span_reaches_from_the_first_device_event_to_the_last() -> None:
    row = over_all(op("op", 0, 9), kernel("k", 100, 10, 1), kernel("k", 200, 30, 2))
    assert (row["start"], row["span"], row["compute"], row["idle"]) == (100, 130, 40, 90)


def test_the_longest_event_may_end_last_though_it_starts_first() -> None:
    row = over_all(kernel("long", 100, 500, 1), kernel("short", 200, 30, 2, stream=8))
    assert (row["span"], row["compute"]) == (500, 500)


def test_work_on_two_streams_at_once_counts_once() -> None:
    row = over_all(kernel("k", 0, 10, 1), kernel("k", 5, 10, 2, stream=8))
    assert (row["span"], row["compute"], row["idle"]) == (15, 15, 0)


def test_communication_behind_compute_is_overlap_and_the_rest_is_exposed() -> None:
    row = over_all(kernel("k", 0, 10, 1), kernel(NCCL, 6, 10, 2, stream=8))
    assert (row["communication"], row["overlap"], row["exposed_communication"]) == (10, 4, 6)
    assert (row["compute"], row["idle"]) == (10, 0)


def test_copies_count_only_where_nothing_else_runs() -> None:
    row = over_all(
        kernel("k", 0, 10, 1),
        kernel(NCCL, 10, 10, 2, stream=8),
        kernel("Memcpy", 5, 25, 3, stream=9, cat="gpu_memcpy"),
    )
    assert (row["memory"], row["exposed_memory"], row["span"]) == (25, 10, 30)


@pytest.mark.parametrize("category", ["gpu_memcpy", "gpu_memset"])
def test_copies_and_fills_are_memory(category: str) -> None:
    assert over_all(kernel("x", 0, 5, 1, cat=category))["memory"] == 5


@pytest.mark.parametrize(
    "name",
    [
        NCCL,
        "ncclKernel_SendRecv(ncclWorkElem)",
        "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
        "void vllm::cross_device_reduce_2stage<half, 8>(...)",
        "nvshmemi_barrier",
    ],
)
def test_kernels_of_communication_libraries_communicate(name: str) -> None:
    assert over_all(kernel(name, 0, 5, 1))["communication"] == 5


def test_a_kernel_with_collective_arguments_communicates_whatever_its_name() -> None:
    work = kernel("my_own_kernel", 0, 5, 1, **Json({"Collective name": "allreduce", "Group size": 2}))
    assert over_all(work)["communication"] == 5


def test_mtia_waits_are_not_busy() -> None:
    row = over_all(
        kernel("pe_exe", 0, 10, 1, cat="mtia_ccp_events"),
        kernel("event_wait", 10, 50, 2, cat="mtia_ccp_events"),
        kernel("event_record", 60, 5, 3, cat="mtia_ccp_events"),
        kernel("dma_request", 70, 10, 4, cat="mtia_ccp_events"),
    )
    assert (row["span"], row["compute"], row["memory"], row["idle"]) == (80, 10, 10, 60)


def test_synchronisation_is_no_work() -> None:
    row = over_all(kernel("k", 0, 5, 1), complete("Stream Sync", "cuda_sync", 5, 90, 0, 7, {"stream": 7}))
    assert (row["span"], row["compute"]) == (5, 5)


def test_a_device_side_annotation_is_no_work() -> None:
    row = over_all(kernel("k", 0, 5, 1), complete("step", "gpu_user_annotation", 0, 90, 0, 7))
    assert (row["span"], row["compute"]) == (5, 5)


def test_each_device_has_rows_of_its_own() -> None:
    events = [kernel("k", 0, 5, 1), complete("k", "kernel", 100, 7, 1, 7, {"device": 1, "correlation": 2})]
    rows = breakdown(linked_of(events)).select("device", "start_ns", "compute_ns").rows()
    assert rows == [("0", 0, 5000), ("1", 100_000, 7000)]


def test_devices_are_in_the_order_of_their_numbers() -> None:
    events = [complete("k", "kernel", 0, 7, device, 7) for device in (10, 9, 2)]
    assert breakdown(linked_of(events)).get_column("device").to_list() == ["2", "9", "10"]


def test_a_step_is_the_time_of_its_annotation_on_the_host() -> None:
    events = [
        op("ProfilerStep#1", 0, 100, cat="user_annotation"),
        op("ProfilerStep#2", 100, 100, cat="user_annotation"),
        call("launch", 90, 2, 1),
        kernel("k", 95, 30, 1),
    ]
    rows = breakdown(linked_of(events)).select("step", "start_ns", "span_ns", "compute_ns", "idle_ns").rows()
    assert rows == [
        (None, 95_000, 30_000, 30_000, 0),
        ("ProfilerStep#1", 0, 100_000, 5_000, 95_000),
        ("ProfilerStep#2", 100_000, 100_000, 25_000, 75_000),
    ]


def test_another_annotation_can_mark_the_steps() -> None:
    events = [op("train", 0, 100, cat="user_annotation"), kernel("k", 95, 30, 1)]
    steps = breakdown(linked_of(events), annotation="train").get_column("step").to_list()
    assert steps == [None, "train"]


def test_steps_in_which_the_device_does_nothing_are_idle() -> None:
    events = [op("ProfilerStep#1", 0, 50, cat="user_annotation"), kernel("k", 95, 30, 1)]
    row = breakdown(linked_of(events)).filter(step="ProfilerStep#1").to_dicts()[0]
    assert (row["span_ns"], row["idle_ns"]) == (50_000, 50_000)


def test_a_trace_without_device_is_broken_down_by_its_host_ops() -> None:
    row = over_all(
        op("aten::mul", 0, 10),
        op("gloo:all_reduce", 5, 10, tid=2, cat="user_annotation"),
        op("aten::add", 30, 10),
        op("ProfilerStep#1", 0, 100, cat="user_annotation"),
    )
    assert row["device"] == "cpu"
    assert (row["span"], row["compute"], row["communication"], row["overlap"]) == (40, 20, 10, 5)
    assert (row["exposed_communication"], row["idle"]) == (5, 15)


@pytest.mark.parametrize(
    "name", ["c10d::allreduce_", "record_param_comms", "nccl:all_reduce", "_c10d_functional::all_reduce"]
)
def test_host_ops_of_collectives_communicate(name: str) -> None:
    assert over_all(op(name, 0, 10))["communication"] == 10


@pytest.mark.parametrize("name", ["glooming::op", "torch.distributed.ddp.reducer::copy_bucket_to_grad"])
def test_host_ops_with_similar_names_compute(name: str) -> None:
    assert over_all(op(name, 0, 10))["compute"] == 10


def test_nested_host_ops_count_once() -> None:
    assert over_all(op("a", 0, 10), op("b", 2, 5))["compute"] == 10


def test_nothing_makes_an_empty_table_of_the_schema() -> None:
    table = breakdown(linked_of([complete("x", "overhead", 0, 5, 1, 1)]))
    assert table.is_empty()
    assert dict(table.schema) == BREAKDOWN.polars_schema()


def test_the_table_has_its_declared_schema() -> None:
    table = breakdown(linked_of([kernel("k", 0, 5, 1), op("ProfilerStep#1", 0, 5, cat="user_annotation")]))
    assert dict(table.schema) == BREAKDOWN.polars_schema()


def test_the_rank_is_the_traces() -> None:
    table = breakdown(linked_of([kernel("k", 0, 5, 1)], header={"distributedInfo": {"rank": 7}}))
    assert table.get_column("rank").to_list() == [7]
