"""Which ops count, so that none counts twice, and whose the launched work is."""

from __future__ import annotations

from typing import Any

import polars as pl

from tests.builders import Json, call, complete, kernel, op
from tests.unit.analysis.efficiency.made import FLOAT, called, tensor
from tests.unit.linking.made import linked_of, row_of
from tracebraid.analysis.efficiency.counted_ops import counted_ops
from tracebraid.analysis.efficiency.op_costs import op_costs
from tracebraid.model.linked_trace import LinkedTrace

A, B, BIAS = tensor(FLOAT, 4, 8), tensor(FLOAT, 8, 16), tensor(FLOAT, 16)
PRODUCT = 2 * 4 * 8 * 16


def flops_of(events: list[Json]) -> dict[str, int | None]:
    return dict(op_costs(linked_of(events)).select("name", "flops").iter_rows())


def linear(*inside: Json) -> list[Json]:
    return [called("aten::linear", A, tensor(FLOAT, 16, 8), BIAS, ts=0, dur=100), *inside]


def launched(op_event: Json, name: str, correlation: int, dur: float = 5, **more: Any) -> list[Json]:
    """A launch in the first µs of an op."""
    start = op_event["ts"]
    return [
        op_event,
        call("cudaLaunchKernel", start, 1, correlation),
        kernel(name, 1000 + 10 * correlation, dur, correlation, **more),
    ]


def test_a_composite_counts_by_the_op_inside_it() -> None:
    found = flops_of(linear(called("aten::addmm", BIAS, A, B, ts=10)))
    assert found == {"aten::linear": None, "aten::addmm": PRODUCT}


def test_a_composite_counts_itself_where_nothing_inside_is_known_to_compute() -> None:
    inside = [called("aten::t", tensor(FLOAT, 16, 8), ts=1, dur=2), op("mkldnn::linear", 10, 5)]
    found = flops_of(linear(*inside))
    assert found == {"aten::linear": PRODUCT, "aten::t": 0}, "what no rule counts is part of it"


def test_of_nested_composites_the_inner_counts() -> None:
    matmul = called("aten::matmul", A, B, ts=10, dur=20)
    assert flops_of(linear(matmul)) == {"aten::linear": None, "aten::matmul": PRODUCT}


def test_what_lies_in_an_op_that_counts_is_its_own() -> None:
    picture, gradient = tensor(FLOAT, 1, 2, 5, 5), tensor(FLOAT, 1, 3, 5, 5)
    outer = called("aten::convolution_backward", gradient, picture, tensor(FLOAT, 3, 2, 1, 1), dur=50)
    inner = called("aten::sum", gradient, "[0, 2, 3]", "False", None, ts=10, dur=20)
    events = [*launched(outer, "dgrad", 1, 7), *launched(inner, "reduce", 2, 4)]
    row = row_of(op_costs(linked_of(events)), name="aten::convolution_backward")
    assert (row["flops"], row["kernels"], row["device_ns"]) == (2 * 2 * 25 * 6, 2, 11_000)
    assert op_costs(linked_of(events)).height == 1


def test_ops_that_launched_nothing_are_left_out_where_there_is_a_device() -> None:
    events = [*launched(called("aten::mm", A, B), "gemm", 1), called("aten::mm", A, B, ts=50)]
    assert op_costs(linked_of(events)).get_column("count").to_list() == [1]


def test_a_copy_to_the_host_and_a_collective_are_bound_by_the_interconnect() -> None:
    copy = called("aten::copy_", A, A)
    reduce = called("nccl:all_reduce", A, ts=50)
    events = [
        *launched(copy, "Memcpy DtoH (Device -> Pageable)", 1, cat="gpu_memcpy"),
        *launched(reduce, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 2),
    ]
    linked = linked_of(events, header={"distributedInfo": {"rank": 0, "world_size": 4}})
    costs = op_costs(linked, peak_flops=1e12, peak_bandwidth=1e12)
    assert costs.get_column("bound").to_list() == ["interconnect"] * 2
    row = row_of(costs, name="nccl:all_reduce")
    assert (row["flops"], row["bytes"]) == (32 * 3 // 4, 2 * 128)


def test_a_collective_counts_by_its_arguments_and_what_lies_in_it_not_again() -> None:
    sizes: dict[str, Any] = {
        "In_msg_nelems": 100,
        "Out_msg_nelems": 400,
        "Group_size": 4,
        "dtype": "BFloat16",
    }
    outer = op("record_param_comms", 0, 50, Collective_name="_allgather_base", **sizes)
    inner = called("nccl:_all_gather_base", tensor("c10::BFloat16", 100), ts=10, dur=30)
    found = op_costs(linked_of([outer, inner]))
    assert found.select("name", "flops", "bytes").rows() == [("record_param_comms", 0, 200 + 800)]


def test_a_kernel_of_tensor_cores_shows_that_fp32_is_multiplied_in_tf32() -> None:
    events = [
        *launched(called("aten::mm", A, B), "ampere_sgemm_32x32_sliced1x4_tn", 1),
        *launched(called("aten::mm", A, B, ts=50), "cutlass_80_tensorop_s1688gemm_256x64_16x4_nt_align4", 2),
    ]
    found = op_costs(linked_of(events)).sort("precision").get_column("precision").to_list()
    assert found == ["fp32", "tf32"]


def with_numbers(name: str, ts: float, dur: float, sequence: int, forward_thread: int = 0) -> Json:
    return op(name, ts, dur, Sequence_number=sequence, Fwd_thread_id=forward_thread)


def again(linked: LinkedTrace) -> list[str]:
    return counted_ops(linked).filter("is_recompute").get_column("name").to_list()


def test_a_numbered_op_in_a_backward_op_runs_again() -> None:
    events = [
        with_numbers("aten::relu", 0, 5, 3),
        with_numbers("autograd::engine::evaluate_function: SinBackward0", 10, 90, 3, 1),
        with_numbers("SinBackward0", 11, 88, 3, 1),
        with_numbers("aten::sin", 12, 20, 7),
        op("aten::inner", 15, 5),
        op("aten::cos", 50, 5),
    ]
    assert again(linked_of(events)) == ["aten::sin"], "cos is of the backward op, and inner is part of sin"


def test_in_a_backward_pass_that_is_recorded_nothing_runs_again() -> None:
    events = [
        with_numbers("SinBackward0", 11, 88, 3, 1),
        with_numbers("aten::cos", 12, 20, 7),
        with_numbers("aten::mul", 50, 20, 8),
    ]
    assert again(linked_of(events)) == []


def test_a_backward_op_inside_a_reentrant_checkpoint_does_not_run_again() -> None:
    events = [
        with_numbers("CheckpointFunctionBackward", 0, 100, 3, 1),
        with_numbers("aten::sin", 10, 10, 7),
        with_numbers("SinBackward0", 30, 20, 7, 1),
        op("aten::cos", 35, 5),
    ]
    assert again(linked_of(events)) == ["aten::sin"]


def test_numbers_of_a_trace_without_anything_are_no_error() -> None:
    linked = linked_of([complete("f", "python_function", 0, 5, 1, 1)])
    assert counted_ops(linked).is_empty()
    assert op_costs(linked).schema == pl.Schema(op_costs(linked_of([])).schema)
