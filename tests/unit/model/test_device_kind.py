"""The kind of a device event: arguments and the launching op first, names second."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Json, call, kernel, op
from tests.unit.linking.made import linked_of
from tracebraid.analysis.device.device_events import device_events

MULTIMEM = "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)"
CAT = "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 1, 64, 64>(float*)"


def kinds(events: list[Json]) -> dict[str, str]:
    return dict(device_events(linked_of(events)).select("name", "kind").iter_rows())


def launched_by(op_name: str, kernel_name: str, cat: str = "cpu_op", **kernel_args: Any) -> str:
    work = kernel(kernel_name, 100, 5, 1, **kernel_args)
    return kinds([op(op_name, 0, 50, cat=cat), call("launch", 10, 5, 1), work])[kernel_name]


@pytest.mark.parametrize(
    "op_name",
    ["symm_mem::multimem_all_reduce_", "c10d::allreduce_", "_C_custom_ar::all_reduce", "nccl:all_reduce"],
)
@pytest.mark.parametrize("kernel_name", [MULTIMEM, "void some_kernel<8>(int)"])
def test_what_a_collective_op_launches_communicates_whatever_its_name(op_name: str, kernel_name: str) -> None:
    assert launched_by(op_name, kernel_name) == "communication"


def test_a_backends_annotation_counts_as_its_op() -> None:
    assert launched_by("nccl:all_reduce", "some_kernel", cat="user_annotation") == "communication"


def test_a_users_annotation_says_nothing() -> None:
    assert launched_by("all_reduce of the gradients", "some_kernel", cat="user_annotation") == "compute"
    assert launched_by("c10d::allreduce_", "some_kernel", cat="user_annotation") == "compute"


@pytest.mark.parametrize("op_name", ["c10d::_allgather_base_", "record_param_comms"])
def test_a_copy_of_pytorchs_below_a_collective_is_no_communication(op_name: str) -> None:
    assert launched_by(op_name, CAT) == "compute"
    inside = [
        op(op_name, 0, 50),
        op("aten::cat", 5, 40),
        call("launch", 10, 5, 1),
        kernel("copies", 100, 5, 1),
    ]
    assert kinds(inside) == {"copies": "compute"}


def test_a_memcpy_below_a_collective_is_memory() -> None:
    events = [op("c10d::allgather_", 0, 50), call("cudaMemcpyAsync", 10, 5, 1)]
    assert kinds([*events, kernel("Memcpy DtoD", 100, 5, 1, cat="gpu_memcpy")]) == {"Memcpy DtoD": "memory"}


def test_collective_arguments_say_more_than_names_and_categories() -> None:
    arguments: Json = {"Collective name": "allreduce"}
    assert launched_by("aten::mm", "some_kernel", **arguments) == "communication"
    events = [kernel("Memcpy DtoD", 100, 5, 1, cat="gpu_memcpy", **arguments)]
    assert kinds(events) == {"Memcpy DtoD": "communication"}


def test_without_an_op_the_name_decides() -> None:
    """A graph's kernels, and those launched from pybind11, have no op that tells."""
    events = [
        call("cudaGraphLaunch", 10, 5, 1),
        kernel(MULTIMEM, 100, 5, 1),
        kernel("void vllm::cross_device_reduce_1stage<float, 2>(float*)", 110, 5, 1),
        kernel("void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)", 120, 5, 1),
        kernel("gemm", 130, 5, 1),
    ]
    assert list(kinds(events).values()) == ["communication", "communication", "compute", "compute"]


def test_a_collectives_word_in_a_name_counts_unless_an_aten_op_launches_it() -> None:
    name = "my_all_reduce_kernel"
    assert launched_by("aten::sum", name) == "compute"
    assert launched_by("my::op", name) == "communication"
    assert kinds([kernel(name, 0, 5, 1)]) == {name: "communication"}


def test_a_kernel_that_fuses_a_gemm_and_a_collective_computes() -> None:
    assert launched_by("vllm::fused_gemm_allreduce", "gemm_all_reduce_kernel") == "compute"
    assert (
        launched_by("symm_mem::fused_matmul_reduce_scatter", "void cutlass::device_kernel<x>(y)") == "compute"
    )


def test_collectives_inside_a_fused_op_communicate_by_their_names() -> None:
    assert launched_by("symm_mem::fused_all_gather_matmul", "(anonymous namespace)::barrier_kernel(int)") == (
        "communication"
    )


def test_events_without_category_or_name_are_compute_at_most() -> None:
    assert kinds([kernel("", 0, 5, 1)]) == {"": "compute"}
