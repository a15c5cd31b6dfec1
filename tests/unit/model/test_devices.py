"""The kind of a device event: arguments and the launching op first, names second."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Json, call, kernel, op
from tests.unit.linking.made import linked_of
from tracebraid.analysis.device import device_events
from tracebraid.errors import ArgumentError
from tracebraid.model.device_peaks import DEVICE_PEAKS, DevicePeaks, Precision, device_peaks, peaks_named

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


# --- The table of devices: names as traces have them, and figures that can be ------------------------


GB = 10**9
NAMES = {
    "Tesla V100-SXM2-32GB": "V100 SXM",
    "Tesla V100-PCIE-16GB": "V100 PCIe",
    "Tesla T4": "T4",
    "NVIDIA A10": "A10",
    "NVIDIA A100-SXM4-40GB": "A100 SXM 40GB",
    "NVIDIA A100-SXM4-80GB": "A100 SXM 80GB",
    "NVIDIA A100-PG509-200": "A100 SXM 40GB",
    "NVIDIA A100-PCIE-40GB": "A100 PCIe 40GB",
    "NVIDIA A40": "A40",
    "NVIDIA L4": "L4",
    "NVIDIA L40S": "L40S",
    "NVIDIA H100 80GB HBM3": "H100 SXM",
    "NVIDIA H100 PCIe": "H100 PCIe",
    "NVIDIA H800": "H800 SXM",
    "NVIDIA A100 80GB PCIe": "A100 PCIe 80GB",
    "NVIDIA A800-SXM4-80GB": "A100 SXM 80GB",
    "NVIDIA A800 80GB PCIe": "A100 PCIe 80GB",
    "NVIDIA A800 40GB Active": "A100 PCIe 40GB",
    "NVIDIA H200 NVL": "H200 NVL",
    "NVIDIA GH200 144G HBM3e": "GH200 144GB",
    "Tesla V100S-PCIE-32GB": "V100S PCIe",
    "AMD Instinct MI300X": "MI300X",
    "NVIDIA H100 NVL": "H100 NVL",
    "NVIDIA H200": "H200",
    "NVIDIA H20": "H20",
    "NVIDIA GH200 480GB": "GH200",
    "NVIDIA B100": "B100",
    "NVIDIA B200": "B200",
    "NVIDIA GB200": "GB200",
    "NVIDIA GeForce RTX 2080 Ti": "RTX 2080 Ti",
    "NVIDIA GeForce RTX 3090": "RTX 3090",
    "NVIDIA GeForce RTX 4090": "RTX 4090",
    "AMD Instinct MI100": "MI100",
    "AMD Instinct MI210": "MI210",
    "AMD Instinct MI250": "MI250 (one GCD of two)",
    "AMD Instinct MI250X": "MI250X (one GCD of two)",
    "AMD Instinct MI300A": "MI300A",
    "AMD Instinct MI300X VF": "MI300X",
    "AMD Instinct MI325X": "MI325X",
    "AMD Instinct MI350X": "MI350X",
    "AMD Instinct MI355X": "MI355X",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_device_is_found_by_its_name_in_a_trace(name: str) -> None:
    found = device_peaks(name)
    assert found is not None
    assert found.device == NAMES[name]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "AMD Radeon Graphics",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "ARTEMIS",
        "AMD Instinct MI25",
        "AMD Instinct MI308X",
        "AMD Instinct MI250X/MI250",
        "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
        "NVIDIA H100 80GB HBM3 MIG 3g.40gb",
        "NVIDIA A100-SXM-64GB",
        "NVIDIA A100X",
        "NVIDIA A10G",
        "NVIDIA A40-48Q",
        "GRID V100S-16C",
        "Tesla V100-SXM3-32GB",
        "Tesla V100-FHHL-16GB",
        "NVIDIA H100 64GB HBM2",
        "NVIDIA H100 80GB HBM2e",
        "NVIDIA H100 CNX",
        "NVIDIA H800 PCIe",
        "NVIDIA H20-3e",
        "NVIDIA L40",
        "NVIDIA RTX A4000",
        "NVIDIA B300 SXM6 AC",
        "NVIDIA GB300",
    ],
)
def test_other_devices_are_unknown(name: str) -> None:
    assert device_peaks(name) is None


def test_memory_tells_devices_of_one_name_apart() -> None:
    found = [device_peaks("NVIDIA A100 80GB PCIe", 85 * GB), device_peaks("NVIDIA A100-PG509-200", 85 * GB)]
    assert [peaks and peaks.device for peaks in found] == ["A100 PCIe 80GB", "A100 SXM 80GB"]
    large = device_peaks("NVIDIA GH200 144G HBM3e", 150 * GB)
    assert large is not None
    assert large.bytes_per_s == 4.9e12


def test_compute_units_tell_a_part_from_the_whole_and_two_devices_of_one_name_apart() -> None:
    assert device_peaks("AMD Instinct MI300X", 206 * GB, 304) is not None
    assert device_peaks("AMD Instinct MI300X", 206 * GB, 38) is None, "a partition of one die of eight"
    both = [device_peaks("AMD Instinct MI250X / MI250", 68 * GB, units) for units in (110, 104)]
    assert [peaks and peaks.device for peaks in both] == ["MI250X (one GCD of two)", "MI250 (one GCD of two)"]


@pytest.mark.parametrize("peaks", DEVICE_PEAKS, ids=lambda peaks: peaks.device)
def test_figures_are_in_the_order_of_magnitude_that_they_must_have(peaks: DevicePeaks) -> None:
    flops = peaks.flops_per_s
    assert 2e11 < peaks.bytes_per_s < 1e13
    assert 5e12 < flops[Precision.VECTOR] <= flops[Precision.FP32] < 2e14
    narrow = [flops[name] for name in (Precision.FP16, Precision.FP8, Precision.FP4) if name in flops]
    assert narrow == sorted(narrow)
    assert 2 < narrow[0] / flops[Precision.FP32] < 40 or peaks.device.startswith("RTX")
    assert flops.get(Precision.TF32, narrow[0]) <= narrow[0]
    assert peaks.source


def test_figures_are_without_sparsity_and_for_a_single_device() -> None:
    """Figures that are often quoted at twice what they are."""
    dense = {"H100 SXM": 989.4e12, "L40S": 362e12, "B200": 2250e12, "MI250X (one GCD of two)": 191.5e12}
    found = {peaks.device: peaks.flops_per_s[Precision.FP16] for peaks in DEVICE_PEAKS}
    assert {name: found[name] for name in dense} == dense


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("h100 sxm", "H100 SXM"),
        (" MI300X ", "MI300X"),
        ("A100 SXM 40GB", "A100 SXM 40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM 80GB"),
        ("mi250", "MI250 (one GCD of two)"),
    ],
)
def test_a_user_names_a_device_as_the_table_or_a_trace_does(name: str, device: str) -> None:
    assert peaks_named(name).device == device


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("H100", "did you mean H100 NVL or H100 PCIe or H100 SXM? There are: V100 PCIe, "),
        ("V100", "did you mean V100 PCIe or V100 SXM? There are: V100 PCIe, "),
        ("MI300Y", "did you mean MI300X? There are: V100 PCIe, "),
        ("abacus", "in the table of peaks. There are: V100 PCIe, "),
        ("", "in the table of peaks. There are: V100 PCIe, "),
    ],
)
def test_a_name_that_is_not_in_the_table_gets_the_nearest_and_the_list(name: str, meant: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        peaks_named(name)
    assert meant in str(raised.value)
    assert str(raised.value).endswith("MI350X, MI355X")
