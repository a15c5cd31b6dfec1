"""Each launch: its host time, its delay, its work."""

from __future__ import annotations

import pytest

from tests.builders import call, kernel, op
from tests.unit.linking.made import linked_of
from tracebraid.analysis.launches.launch_events import launch_events
from tracebraid.model.answers import LAUNCH_EVENTS

STEP = [op("ProfilerStep#2", 0, 100, cat="user_annotation")]


def test_a_launch_has_its_op_its_step_and_its_times() -> None:
    linked = linked_of(
        [*STEP, op("aten::mm", 10, 30), call("cudaLaunchKernel", 20, 5, 1), kernel("gemm", 28, 7, 1)]
    )
    (row,) = launch_events(linked).to_dicts()
    assert row["step"] == "ProfilerStep#2"
    assert (row["api"], row["op"], row["correlation"]) == ("cudaLaunchKernel", "aten::mm", 1)
    assert (row["host_ns"], row["device_ns"], row["device_span_ns"]) == (5_000, 7_000, 7_000)
    assert (row["after_start_ns"], row["after_end_ns"], row["delay_ns"]) == (8_000, 3_000, 3_000)
    assert (row["device"], row["stream"], row["streams"], row["kernels"]) == ("0", "7", 1, 1)


def test_work_that_starts_during_the_call_has_a_delay_of_zero() -> None:
    linked = linked_of([call("cudaLaunchKernel", 20, 50, 1), kernel("gemm", 28, 7, 1)])
    (row,) = launch_events(linked).to_dicts()
    assert (row["after_start_ns"], row["after_end_ns"], row["delay_ns"]) == (8_000, -42_000, 0)


def test_a_graph_is_one_launch_of_all_its_kernels() -> None:
    graph = [kernel(f"k{i}", 30 + 10 * i, 4, 1, stream=7 + i % 2) for i in range(5)]
    linked = linked_of([call("cudaGraphLaunch", 20, 5, 1), *graph])
    (row,) = launch_events(linked).to_dicts()
    assert (row["kernels"], row["streams"], row["stream"]) == (5, 2, "7")
    assert (row["device_ns"], row["device_span_ns"], row["delay_ns"]) == (20_000, 44_000, 5_000)


@pytest.mark.parametrize("api", ["cuLaunchKernel", "hipExtModuleLaunchKernel", "enqueueCommand", "any thing"])
def test_a_launch_is_known_by_its_effect_and_not_by_its_name(api: str) -> None:
    linked = linked_of([call(api, 20, 5, 1), kernel("gemm", 28, 7, 1)])
    assert launch_events(linked).get_column("api").to_list() == [api]


def test_a_call_without_work_and_work_without_a_call_are_no_launches() -> None:
    linked = linked_of([call("cudaLaunchKernel", 20, 5, 1), kernel("gemm", 28, 7, 2)])
    assert launch_events(linked).is_empty()


def test_the_stream_idles_until_work_of_a_late_launch() -> None:
    events = [
        call("launch", 0, 2, 1),
        kernel("a", 10, 10, 1),
        call("launch", 30, 2, 2),
        kernel("b", 35, 10, 2),
    ]
    queued = [call("launch", 40, 2, 3), kernel("c", 45, 10, 3)]
    idle = launch_events(linked_of([*events, *queued])).get_column("stream_idle_ns").to_list()
    assert idle == [None, 15_000, 0]


def test_streams_do_not_count_for_each_other() -> None:
    events = [call("launch", 0, 2, 1), kernel("a", 10, 30, 1), call("launch", 20, 2, 2)]
    linked = linked_of([*events, kernel("b", 25, 10, 2, stream=20)])
    assert launch_events(linked).get_column("stream_idle_ns").to_list() == [None, None]


def test_launches_stand_in_the_order_of_their_starts() -> None:
    events = [call("late", 50, 2, 1), call("early", 10, 2, 2), kernel("a", 60, 1, 1), kernel("b", 70, 1, 2)]
    assert launch_events(linked_of(events)).get_column("api").to_list() == ["early", "late"]


def test_a_trace_without_launches_has_an_empty_table_of_the_schema() -> None:
    table = launch_events(linked_of([op("a", 0, 5)]))
    assert table.is_empty()
    assert dict(table.schema) == LAUNCH_EVENTS.polars_schema()


@pytest.mark.parametrize("category", ["xpu_runtime", "privateuse1_driver", "mtia_runtime", "glow_runtime"])
def test_calls_of_every_backend_launch(category: str) -> None:
    linked = linked_of([call("submit", 20, 5, 1, cat=category), kernel("gemm", 28, 7, 1)])
    assert launch_events(linked).select("api", "host_ns", "device_ns").rows() == [("submit", 5_000, 7_000)]
