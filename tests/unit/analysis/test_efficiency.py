"""Efficiency: which ops count, arguments from either trace, least times against peaks, and utilisation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Json, call, kernel, node, op
from tests.builders import tensor as et_tensor
from tests.cases import cases
from tests.planted.costs import BF16, FLOAT, called, tensor
from tests.unit.linking.made import et_of, linked_of, row_of
from tracebraid.analyses import mfu, op_costs, roofline
from tracebraid.analysis.catalog import all_analyses
from tracebraid.analysis.efficiency.counted_ops import counted_ops
from tracebraid.analysis.efficiency.roofline import known_peaks
from tracebraid.analysis.needs import HAS, lacking
from tracebraid.model.analysis import Family, Need
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


@cases(
    "inside, flops",
    {
        "the op inside it": (
            [called("aten::addmm", BIAS, A, B, ts=10)],
            {"aten::linear": None, "aten::addmm": PRODUCT},
        ),
        # What no rule counts is part of it.
        "itself where nothing inside is known to compute": (
            [called("aten::t", tensor(FLOAT, 16, 8), ts=1, dur=2), op("mkldnn::linear", 10, 5)],
            {"aten::linear": PRODUCT, "aten::t": 0},
        ),
        "the inner of nested ones": (
            [called("aten::matmul", A, B, ts=10, dur=20)],
            {"aten::linear": None, "aten::matmul": PRODUCT},
        ),
    },
)
def test_of_composites_one_counts(inside: list[Json], flops: dict[str, int | None]) -> None:
    assert flops_of(linear(*inside)) == flops


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


@cases(
    "events, recomputed",
    {
        # cos is of the backward op, and inner is part of sin.
        "a numbered op in a backward op": (
            [
                with_numbers("aten::relu", 0, 5, 3),
                with_numbers("autograd::engine::evaluate_function: SinBackward0", 10, 90, 3, 1),
                with_numbers("SinBackward0", 11, 88, 3, 1),
                with_numbers("aten::sin", 12, 20, 7),
                op("aten::inner", 15, 5),
                op("aten::cos", 50, 5),
            ],
            ["aten::sin"],
        ),
        "a backward pass that is recorded": (
            [
                with_numbers("SinBackward0", 11, 88, 3, 1),
                with_numbers("aten::cos", 12, 20, 7),
                with_numbers("aten::mul", 50, 20, 8),
            ],
            [],
        ),
        "a backward op in a reentrant checkpoint": (
            [
                with_numbers("CheckpointFunctionBackward", 0, 100, 3, 1),
                with_numbers("aten::sin", 10, 10, 7),
                with_numbers("SinBackward0", 30, 20, 7, 1),
                op("aten::cos", 35, 5),
            ],
            ["aten::sin"],
        ),
    },
)
def test_ops_that_run_again_in_the_backward_pass(events: list[Json], recomputed: list[str]) -> None:
    assert counted_ops(linked_of(events)).filter("is_recompute").get_column("name").to_list() == recomputed


ANALYSES = [found for found in all_analyses() if found.family is Family.EFFICIENCY]
FLOATS = "GenericList[Tensor(float),Tensor(float)]"


def pair_of(event: Json, et_node: Json) -> LinkedTrace:
    event["args"]["Record function id"] = et_node["attrs"][0]["value"]
    return linked_of([event], et_of(et_node))


def test_shapes_that_kineto_lacks_are_those_of_the_execution_trace() -> None:
    inputs = [et_tensor(5, 6, [2, 3]), et_tensor(7, 8, [3, 4])]
    row = row_of(op_costs(pair_of(op("aten::mm", 0, 5), node(10, "aten::mm", 1001, inputs))), name="aten::mm")
    assert (row["flops"], row["bytes"]) == (48, 4 * (6 + 12 + 8))


def test_shapes_of_either_trace_are_enough() -> None:
    inputs = [et_tensor(5, 6, [2, 3]), et_tensor(7, 8, [3, 4])]
    bare = op("aten::mm", 0, 5)
    by_et = pair_of(op("aten::mm", 0, 5), node(10, "aten::mm", 1001, inputs))
    by_kineto = linked_of([op("aten::mm", 0, 5, Input_Dims=[[2, 3], [3, 4]])])
    neither = linked_of([bare])
    for linked, known in ((by_et, True), (by_kineto, True), (neither, False)):
        assert HAS[Need.SHAPES_OF_EITHER](linked) is known
        assert op_costs(linked).is_empty() is not known
        assert mfu(linked).is_empty() is not known
    wanting = [a.name for a in ANALYSES if a.needs and Need.SHAPES_OF_EITHER in lacking(a, neither)]
    assert {"op_costs", "mfu"} <= set(wanting)


def test_the_types_of_a_list_are_those_of_the_execution_trace() -> None:
    event = op("aten::cat", 0, 5, Input_Dims=[[], []], Input_type=["TensorList", "Scalar"])
    listed = (FLOATS, [[5, 6, 0, 6, 4, "cpu"], [7, 8, 0, 2, 4, "cpu"]], [[2, 3], [2, 1]])
    row = row_of(
        op_costs(pair_of(event, node(10, "aten::cat", 1001, [listed, ("Int", 1, [])]))), name="aten::cat"
    )
    assert row["bytes"] == 2 * 4 * 8


def test_an_output_that_no_argument_tells_is_that_of_the_execution_trace() -> None:
    event = op("aten::index", 0, 5, Input_Dims=[[9, 4], []], Input_type=["float", ""])
    et_node = node(10, "aten::index", 1001, [et_tensor(5, 6, [9, 4])], [et_tensor(7, 8, [3, 4])])
    assert row_of(op_costs(pair_of(event, et_node)), name="aten::index")["bytes"] == 2 * 4 * 12
    assert row_of(op_costs(linked_of([event])), name="aten::index")["bytes"] is None


def test_a_convolution_whose_stride_was_not_recorded_has_the_output_of_the_execution_trace() -> None:
    dims = [[2, 4, 9, 9], [8, 4, 3, 3], [8], [], [], [], [], [], []]
    event = op("aten::convolution", 0, 5, Input_Dims=dims, Input_type=["float"] * 3 + ["Scalar"] * 6)
    inputs = [et_tensor(5, 6, [2, 4, 9, 9]), et_tensor(7, 8, [8, 4, 3, 3]), et_tensor(9, 10, [8])]
    values = ["[2,2]", "[1,1]", "[1,1]"]
    more: list[Any] = [("GenericList[Int,Int]", value, [[], []]) for value in values]
    et_node = node(
        10, "aten::convolution", 1001, [*inputs, *more, ("Bool", False, [])], [et_tensor(3, 4, [2, 8, 5, 5])]
    )
    assert (
        row_of(op_costs(pair_of(event, et_node)), name="aten::convolution")["flops"] == 2 * 2 * 25 * 8 * 4 * 9
    )
    assert row_of(op_costs(linked_of([event])), name="aten::convolution")["flops"] is None


def test_an_execution_trace_without_arguments_adds_nothing() -> None:
    linked = pair_of(op("aten::mm", 0, 5), node(10, "aten::mm", 1001))
    assert op_costs(linked).is_empty()
    assert HAS[Need.SHAPES_OF_EITHER](linked) is False


AT = "at::native::(anonymous namespace)::"
APPLY = f"void {AT}multi_tensor_apply_kernel<{AT}TensorListMetadata<2>, {AT}"
LIST = ("TensorList", [[4, 8], [2]], [[8, 1], [1]])


def bytes_of(name: str, kernels: list[str]) -> int | None:
    op_event = called(name, LIST, LIST) if "foreach" in name else called(name, LIST, "0")
    events: list[Json] = [op_event]
    for number, kernel_name in enumerate(kernels):
        events += launched(op_event, kernel_name, number + 1)[1:]
    costs = op_costs(linked_of(events))
    assert costs.height == 1
    found: int | None = costs.get_column("bytes").to_list()[0]
    return found


@pytest.mark.slow
@cases(
    "kernels, size",
    {
        "float": ([f"{APPLY}BinaryOpListAlphaFunctor<float, 2, 2, 0>, std::plus<float>, float>(int)"], 4),
        "bf16": (
            [f"{APPLY}BinaryOpListAlphaFunctor<c10::BFloat16, 2, 2, 0>, std::plus<float>, float>(int)"],
            2,
        ),
        "two of double": ([f"{APPLY}UnaryOpFunctor<double, 1, 1, 0>, std::plus<double> >(int)"] * 2, 8),
        "two in one name": ([f"{APPLY}CopyFunctor<int, long, 2, 1, 1>, {AT}Copy<int, long> >(int)"], None),
        "two types": ([f"{APPLY}UnaryOpFunctor<{kind}, 1, 1, 0>, x>(int)" for kind in ("long", "int")], None),
        "another kernel": ([f"{APPLY}UnaryOpFunctor<long, 1, 1, 0>, x>(int)", "elementwise"], None),
        "no kernel": ([], None),
    },
)
def test_a_list_has_the_type_that_all_kernels_name(kernels: list[str], size: int | None) -> None:
    assert bytes_of("aten::_foreach_add_", kernels) == (None if size is None else 3 * 34 * size)


@pytest.mark.parametrize(
    ("element", "size"),
    [(f"{AT}OpaqueType<2u>", 2), (f"{AT}OpaqueType<8u>", 8), ("float", 4), ("c10::Half", 2)],
)
@pytest.mark.parametrize("kernel_name", ["CatArrayBatchedCopy", "CatArrayBatchedCopy_aligned16_contig"])
def test_kernels_of_a_concatenation_name_the_size_of_an_element(
    kernel_name: str, element: str, size: int
) -> None:
    assert (
        bytes_of("aten::cat", [f"void {AT}{kernel_name}<{element}, unsigned int, 1, 128, 1>(int)"])
        == 2 * 34 * size
    )


N = 1024
A100 = [{"id": 0, "name": "NVIDIA A100-SXM4-40GB", "totalGlobalMem": 42_505_273_344}]
CUBE, MATRIX = 2 * N**3, 2 * N * N
"""FLOPs of a product of squares, and bytes of each in bf16."""


def trace(**header: Any) -> LinkedTrace:
    """Two steps: a product that takes 10 us in the first, 20 in the second, where a sum of two takes 30 as well."""
    square = tensor(BF16, N, N)
    steps = [op(f"ProfilerStep#{i}", 100 * i, 90, cat="user_annotation") for i in (1, 2)]
    return linked_of(
        [
            *steps,
            *launched(called("aten::mm", square, square, ts=110), "gemm", 1, 10),
            *launched(called("aten::mm", square, square, ts=210), "gemm", 2, 20),
            *launched(called("aten::add", square, square, "1", ts=230), "add", 4, 30),
        ],
        header=header,
    )


def test_time_is_lost_against_the_longer_of_compute_and_memory() -> None:
    rows = roofline(trace(deviceProperties=A100))
    product = row_of(rows, name="aten::mm")
    least = 2 * CUBE / 312e12 * 1e9
    assert product["roofline_ns"] == round(least)
    assert product["lost_ns"] == 30_000 - round(least)
    assert product["roofline_share"] == pytest.approx(round(least) / 30_000)
    assert (product["bound"], product["precision"]) == ("compute", "bf16")
    added = row_of(rows, name="aten::add")
    assert added["roofline_ns"] == round(3 * MATRIX / 1555e9 * 1e9)
    assert added["bound"] == "memory"
    assert rows.get_column("name").to_list() == ["aten::add", "aten::mm"], "the most lost first"
    assert rows.get_column("lost_share").sum() == pytest.approx(1)


def test_peaks_that_are_given_count_on_any_device() -> None:
    unknown = trace(deviceProperties=[{"id": 0, "name": "Machine 9"}])
    assert roofline(unknown).is_empty()
    assert op_costs(unknown).get_column("bound").null_count() == 2
    given = roofline(unknown, peak_flops=1e15, peak_bandwidth=1e11)
    assert row_of(given, name="aten::mm")["roofline_ns"] == round(2 * 3 * MATRIX / 1e11 * 1e9)
    assert set(given.get_column("bound")) == {"memory"}


def test_a_peak_that_is_no_number_above_zero_is_none() -> None:
    assert roofline(trace(), peak_flops=0.0, peak_bandwidth=-1.0).is_empty()
    assert mfu(trace(), peak_flops=0.0).get_column("mfu").null_count() == 3


def test_a_run_that_needs_less_than_a_launch_is_bound_by_latency() -> None:
    small = tensor(FLOAT, 4)
    linked = linked_of(launched(called("aten::add", small, small, "1"), "add", 1))
    row = row_of(roofline(linked, peak_flops=1e12, peak_bandwidth=1e12), name="aten::add")
    assert row["bound"] == "latency"


def test_rates_are_per_second_of_device_time() -> None:
    row = row_of(op_costs(trace(), per_step=True), name="aten::mm", step="ProfilerStep#1")
    assert row["achieved_flops_per_s"] == pytest.approx(CUBE / 10e-6)
    assert row["achieved_bytes_per_s"] == pytest.approx(3 * MATRIX / 10e-6)
    assert row["flops_per_byte"] == pytest.approx(CUBE / (3 * MATRIX))


def test_utilisation_is_of_products_over_the_step() -> None:
    rows = mfu(trace(deviceProperties=A100))
    whole, first, second = rows.to_dicts()
    assert [row["model_flops"] for row in (whole, first, second)] == [2 * CUBE, CUBE, CUBE]
    assert first["span_ns"] == 90_000
    assert first["mfu"] == first["hfu"] == pytest.approx(CUBE / (90e-6 * 312e12))
    assert (first["precision"], first["known_share"]) == ("bf16", 1.0)


def test_a_step_without_products_has_no_precision_and_no_utilisation() -> None:
    steps: list[Json] = [op("ProfilerStep#1", 0, 90, cat="user_annotation")]
    rows = mfu(linked_of([*steps, called("aten::neg", tensor(FLOAT, 3), ts=200)]), peak_flops=1e12)
    assert rows.select("step", "model_flops", "mfu").rows() == [
        (None, 0, None),
        ("ProfilerStep#1", None, None),
    ]


def test_products_without_shapes_have_no_flops_instead_of_none_at_all() -> None:
    add = called("aten::add", tensor(FLOAT, 4), tensor(FLOAT, 4), "1")
    rows = mfu(
        linked_of([*launched(add, "add", 1), *launched(op("aten::mm", 50, 9), "gemm", 2)]), peak_flops=1e12
    )
    assert rows.select("model_flops", "hardware_flops", "mfu", "known_share").rows() == [
        (None, None, None, 0.5)
    ]


Q, KV = tensor(BF16, 2, 4, 8, 16), tensor(BF16, 2, 4, 6, 16)
PAIRS = 2 * 4 * 8 * 6
SDPA = "aten::_scaled_dot_product_flash_attention"


def attention_events() -> list[Json]:
    return launched(called(f"{SDPA}_backward", Q, Q, KV, KV), "flash_bwd", 1, 10)


def known(names: list[str], **more: Any) -> str | None:
    devices = [{"id": i, "name": name, **more} for i, name in enumerate(names)]
    peaks = known_peaks(linked_of(attention_events(), header={"deviceProperties": devices}))
    return None if peaks is None else peaks.device


def test_scores_that_attention_computes_again_are_in_hardware_flops_alone() -> None:
    """Five products of equal size backward, of which the model needs four: twice those of the forward pass."""
    row = mfu(linked_of(attention_events()), peak_flops=1e12).row(0, named=True)
    assert row["hardware_flops"] == 2 * PAIRS * 5 * 16
    assert row["model_flops"] == 2 * (2 * PAIRS * (16 + 16))


def test_a_part_of_a_device_has_no_peaks() -> None:
    assert known(["NVIDIA A100-SXM4-40GB"]) == "A100 SXM 40GB"
    assert known(["NVIDIA A100-SXM4-40GB MIG 1g.5gb"]) is None
    assert known(["AMD Instinct MI300X"], numSms=304) == "MI300X"
    assert known(["AMD Instinct MI300X"], numSms=38) is None


@pytest.mark.parametrize(
    ("kernel", "dtype", "precision"),
    [
        ("nvjet_sss_128x128_32x6_2x1_v_bz_TNT", FLOAT, "tf32"),
        ("cutlass3x_sm90_tensorop_s64x128x8gemm_f32_f32_f32_f32_f32_128x128x32", FLOAT, "tf32"),
        ("ampere_sgemm_128x64_tn", FLOAT, "fp32"),
        ("nvjet_tst_128x128_64x6_2x1_v_bz_TNT", BF16, "bf16"),
    ],
)
def test_a_product_of_fp32_on_tensor_cores_is_tf32(kernel: str, dtype: str, precision: str) -> None:
    square = tensor(dtype, 64, 64)
    row = op_costs(linked_of(launched(called("aten::mm", square, square), kernel, 1, 10))).row(0, named=True)
    assert row["precision"] == precision


QUERIES, CACHE = tensor(BF16, 3, 32, 128), tensor(BF16, 100, 16, 8, 128)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("vllm::unified_attention", [QUERIES, QUERIES, QUERIES, "model.layers.0"]),
        ("vllm::unified_attention_with_output", [*[QUERIES] * 4, "model.layers.0", None]),
        ("sglang::unified_attention_with_output", [*[QUERIES] * 4, "True", "0"]),
        ("sgl_kernel::cutlass_mla_decode", [QUERIES, QUERIES, QUERIES, CACHE, tensor("int", 3)]),
        ("aiter::paged_attention_rocm", [QUERIES, QUERIES, CACHE, CACHE]),
        ("_C::paged_attention_v1", [QUERIES, QUERIES, CACHE, CACHE]),
    ],
)
def test_attention_over_a_cache_says_that_shapes_do_not_tell_the_keys(
    name: str, arguments: list[Any]
) -> None:
    linked = linked_of(launched(called(name, *arguments), "attention", 1))
    row = row_of(op_costs(linked), name=name)
    assert (row["flops"], row["bytes"], row["unknown_flops"]) == (None, None, "cached-keys")
    assert row["family"] == "attention"


def test_attention_over_a_cache_gives_way_to_an_op_inside_it_that_is_counted() -> None:
    inner = called("aiter::mha_fwd", *[tensor(BF16, 2, 8, 4, 16)] * 3, "0.", "0.25", "False", ts=3)
    outer = called("vllm::unified_attention_with_output", *[QUERIES] * 4, "model.layers.0", ts=1)
    outer["dur"] = 1_000
    rows = op_costs(linked_of([outer, *launched(inner, "fmha", 1)]))
    row = row_of(rows, name="aiter::mha_fwd")
    assert (row["flops"], row["unknown_flops"]) == (2 * 2 * 4 * 8 * 8 * 32, None)


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("my::op", [tensor(FLOAT, 4)], "no-formula"),
        ("aten::mm", [tensor(FLOAT, 4, 4), tensor(FLOAT, 5, 4)], "operands"),
        ("aten::mm", [tensor(FLOAT, 4, 4), tensor(FLOAT, 4, 4)], None),
    ],
)
def test_why_flops_are_unknown(name: str, arguments: list[Any], why: str | None) -> None:
    rows = op_costs(linked_of(launched(called(name, *arguments), "kernel", 1)))
    assert row_of(rows, name=name)["unknown_flops"] == why
