"""Which call, op and node launched each device event, and why the others are orphans."""

from __future__ import annotations

import pytest

from tests.builders import Json, call, kernel, node, op
from tests.unit.linking.made import et_of, event_ids, launch_of, linked_of
from tracebraid.model.reason import OrphanReason
from tracebraid.model.schema import DEVICE_LINKS


def test_a_kernel_belongs_to_the_op_around_the_call_with_its_correlation() -> None:
    linked = linked_of(
        [op("outer", 0, 100), op("inner", 10, 50), call("launch", 20, 5, 7), kernel("k", 500, 9, 7)]
    )
    assert launch_of(linked, "k") == {
        "call": "launch",
        "op": "inner",
        "node": None,
        "method": "correlation",
        "reason": None,
    }


@pytest.mark.parametrize(
    "name", ["fooLaunchBar", "cudaLaunchKernelExC", "hipExtModuleLaunchKernel", "cuLaunchKernelEx", "x"]
)
def test_any_call_launches_whatever_its_name(name: str) -> None:
    linked = linked_of([op("op", 0, 100), call(name, 20, 5, 7), kernel("k", 500, 9, 7)])
    assert launch_of(linked, "k")["op"] == "op"


@pytest.mark.parametrize(
    "category",
    [
        "cuda_runtime",
        "cuda_driver",
        "mtia_runtime",
        "glow_runtime",
        "xpu_runtime",
        "xpu_driver",
        "privateuse1_runtime",
        "privateuse1_driver",
    ],
)
def test_calls_of_every_runtime_launch(category: str) -> None:
    linked = linked_of([op("op", 0, 100), call("c", 20, 5, 7, cat=category), kernel("k", 500, 9, 7)])
    assert launch_of(linked, "k")["call"] == "c"


@pytest.mark.parametrize(
    "category", ["kernel", "gpu_memcpy", "gpu_memset", "mtia_ccp_events", "hpu_op", "collective_comm"]
)
def test_all_work_on_a_device_is_launched(category: str) -> None:
    linked = linked_of([op("op", 0, 100), call("c", 20, 5, 7), kernel("k", 500, 9, 7, cat=category)])
    assert launch_of(linked, "k")["op"] == "op"


def test_rocm_launches_like_cuda() -> None:
    launch = call("hipLaunchKernel", 20, 5, 7)
    launch["args"] = {"cid": 3, "kernel": "k", "correlation": 7, "ptr": "0x0"}
    linked = linked_of([op("op", 0, 100), launch, kernel("k", 500, 9, 7)])
    assert launch_of(linked, "k")["op"] == "op"


def test_of_a_driver_call_inside_a_runtime_call_the_inner_one_counts() -> None:
    linked = linked_of(
        [
            op("op", 0, 100),
            call("cudaLaunchKernel", 20, 50, 7),
            call("cuLaunchKernel", 30, 10, 7, cat="cuda_driver"),
            kernel("k", 500, 9, 7),
        ]
    )
    assert (launch_of(linked, "k")["call"], launch_of(linked, "k")["op"]) == ("cuLaunchKernel", "op")


def test_a_kernel_with_two_calls_is_one_row() -> None:
    linked = linked_of(
        [
            op("op", 0, 100),
            call("a", 20, 5, 7),
            call("b", 21, 2, 7, cat="cuda_driver"),
            kernel("k", 500, 9, 7),
        ]
    )
    assert linked.device_links.height == 1
    assert linked.coverage.gpu_events.total == 1


def test_all_kernels_of_a_graph_belong_to_the_op_that_launched_the_graph() -> None:
    kernels = [kernel(f"k{i}", 500 + 10 * i, 9, 7) for i in range(50)]
    linked = linked_of([op("replay", 0, 100), call("cudaGraphLaunch", 20, 5, 7), *kernels])
    assert {launch_of(linked, f"k{i}")["op"] for i in range(50)} == {"replay"}


def test_a_call_on_another_thread_than_the_op_is_outside_of_it() -> None:
    linked = linked_of([op("op", 0, 100, tid=1), call("launch", 20, 5, 7, tid=2), kernel("k", 500, 9, 7)])
    assert launch_of(linked, "k")["op"] is None
    assert launch_of(linked, "k")["reason"] == OrphanReason.OUTSIDE_OF_OPS


def test_a_call_that_overlaps_ops_on_two_threads_belongs_to_its_own() -> None:
    linked = linked_of(
        [
            op("one", 0, 100, tid=1),
            op("two", 0, 100, tid=2),
            call("c", 20, 5, 7, tid=2),
            kernel("k", 500, 9, 7),
        ]
    )
    assert launch_of(linked, "k")["op"] == "two"


def test_a_launch_after_the_op_has_ended_is_outside_of_it() -> None:
    linked = linked_of([op("op", 0, 10), call("launch", 20, 5, 7), kernel("k", 500, 9, 7)])
    assert launch_of(linked, "k")["call"] == "launch"
    assert launch_of(linked, "k")["op"] is None


def test_an_annotation_is_an_op_where_there_is_none_nearer() -> None:
    linked = linked_of(
        [op("step", 0, 100, cat="user_annotation"), call("launch", 20, 5, 7), kernel("k", 500, 9, 7)]
    )
    assert launch_of(linked, "k")["op"] == "step"


def test_without_the_call_the_launch_is_missing_from_the_trace() -> None:
    linked = linked_of([op("op", 0, 100), call("other", 20, 5, 8), kernel("k", 500, 9, 7)])
    assert launch_of(linked, "k")["call"] is None
    assert launch_of(linked, "k")["reason"] == OrphanReason.NO_CALL


def test_without_a_correlation_that_is_the_reason() -> None:
    orphan = kernel("k", 500, 9, 7)
    del orphan["args"]["correlation"]
    linked = linked_of([op("op", 0, 100), call("other", 20, 5, 8), orphan])
    assert launch_of(linked, "k")["reason"] == OrphanReason.NO_CORRELATION


def test_correlation_zero_is_none() -> None:
    linked = linked_of([op("op", 0, 100), call("other", 20, 5, 0), kernel("k", 500, 9, 0)])
    assert launch_of(linked, "k")["reason"] == OrphanReason.NO_CORRELATION


def test_without_the_call_an_external_id_names_the_op() -> None:
    work = kernel("k", 500, 9, 7, **Json({"External id": 3}))
    linked = linked_of([op("op", 0, 100, External_id=3), work])
    assert launch_of(linked, "k") == {
        "call": None,
        "op": "op",
        "node": None,
        "method": "external_id",
        "reason": None,
    }


def test_an_external_id_that_is_just_the_correlation_names_nothing() -> None:
    work = kernel("k", 500, 9, 7, **Json({"External id": 7}))
    linked = linked_of([op("op", 0, 100, External_id=7), work])
    assert launch_of(linked, "k")["op"] is None
    assert launch_of(linked, "k")["reason"] == OrphanReason.NO_CALL


def test_an_external_id_of_an_op_that_started_later_names_nothing() -> None:
    work = kernel("k", 500, 9, 7, **Json({"External id": 3}))
    linked = linked_of([op("op", 600, 100, External_id=3), work])
    assert launch_of(linked, "k")["op"] is None


def test_an_external_id_that_two_ops_have_names_neither() -> None:
    work = kernel("k", 500, 9, 7, **Json({"External id": 3}))
    linked = linked_of([op("one", 0, 10, External_id=3), op("two", 20, 10, External_id=3), work])
    assert launch_of(linked, "k")["op"] is None


def test_the_call_in_the_trace_counts_more_than_an_external_id() -> None:
    work = kernel("k", 500, 9, 7, **Json({"External id": 3}))
    linked = linked_of(
        [op("named", 0, 10, External_id=3), op("around", 20, 50, External_id=4), call("c", 30, 5, 7), work]
    )
    assert (launch_of(linked, "k")["op"], launch_of(linked, "k")["method"]) == ("around", "correlation")


def test_the_node_is_that_of_the_op() -> None:
    linked = linked_of(
        [op("op", 0, 100, Record_function_id=51), call("launch", 20, 5, 7), kernel("k", 500, 9, 7)],
        et_of(node(20, "op", 1001, rf_id=51)),
    )
    assert launch_of(linked, "k")["node"] == 20


def test_the_node_is_that_of_the_nearest_op_around_that_has_one() -> None:
    linked = linked_of(
        [
            op("far", 0, 100, Record_function_id=50),
            op("near", 5, 90, Record_function_id=51),
            op("without", 10, 50, Record_function_id=52),
            op("without too", 12, 40, Record_function_id=53),
            call("launch", 20, 5, 7),
            kernel("k", 500, 9, 7),
        ],
        et_of(node(20, "far", 1001, rf_id=50), node(21, "near", 20, rf_id=51)),
    )
    assert launch_of(linked, "k")["node"] == 21
    assert launch_of(linked, "k")["op"] == "without too"


def test_without_a_node_around_there_is_none() -> None:
    linked = linked_of(
        [
            op("a", 0, 9, Record_function_id=50),
            op("without", 10, 50, Record_function_id=52),
            call("launch", 20, 5, 7),
            kernel("k", 500, 9, 7),
        ],
        et_of(node(20, "a", 1001, rf_id=50)),
    )
    assert (launch_of(linked, "k")["op"], launch_of(linked, "k")["node"]) == ("without", None)


def test_the_table_has_a_row_per_device_event_in_order_and_its_declared_schema() -> None:
    linked = linked_of(
        [kernel("k1", 500, 9, 7), op("op", 0, 100), kernel("k0", 400, 9, 6), call("launch", 20, 5, 7)]
    )
    ids = event_ids(linked)
    assert linked.device_links.get_column("event_id").to_list() == [ids["k1"], ids["k0"]]
    assert dict(linked.device_links.schema) == DEVICE_LINKS.polars_schema()


def test_no_device_events_make_an_empty_table_of_the_schema() -> None:
    linked = linked_of([op("op", 0, 100), call("launch", 20, 5, 7)])
    assert linked.device_links.is_empty()
    assert dict(linked.device_links.schema) == DEVICE_LINKS.polars_schema()
