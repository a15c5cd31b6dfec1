"""The table of devices: names as traces have them, and figures that can be."""

from __future__ import annotations

import pytest

from tests.conftest import ROOT
from tracebraid.model.device_peaks import DEVICE_PEAKS, DevicePeaks, Precision, device_peaks

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


def test_the_document_lists_each_device_with_its_bandwidth_and_source() -> None:
    text = (ROOT / "docs" / "analyses" / "efficiency.md").read_text(encoding="utf-8")
    missing = [
        peaks.device
        for peaks in DEVICE_PEAKS
        if f"| {peaks.device} | {peaks.bytes_per_s / 1e12:g} |" not in text or peaks.source not in text
    ]
    assert missing == []
