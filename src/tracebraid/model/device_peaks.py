"""Peak rates of devices: dense FLOP/s by precision, and memory bandwidth.

`docs/analyses/efficiency.md` says which rows were compared with other tables, and which were not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from enum import Enum

import polars as pl
from msgspec import Struct

from tracebraid.errors import ArgumentError
from tracebraid.model.category import Role, Work, categories_of
from tracebraid.model.collectives import Says, Subject, rule_of
from tracebraid.model.name_rules import by_name

_TERA = 10**12
_GIGA = 10**9
_PART_OF_A_DEVICE = r"\bMIG\b|\bGRID\b|-\d+[ABCQ]$|Laptop|Max-Q"
"""Names of parts of a device (MIG, vGPU), and of slower ones that are named alike."""


class Precision(Enum):
    """Precision in which a device computes; `VECTOR` is fp32 outside matrix units."""

    FP64 = "fp64"
    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"
    INT8 = "int8"
    FP4 = "fp4"
    VECTOR = "vector"


class DevicePeaks(Struct, frozen=True):
    """The peaks of a device, without structured sparsity.

    Args:
        device: its name here.
        pattern: regular expression that its name in a trace matches.
        bytes_per_s: memory bandwidth.
        flops_per_s: dense peak by precision; a precision that the hardware lacks is absent.
        source: the vendor's document that states the figures.
        min_memory_bytes: memory that the trace must state, where the name alone does not tell variants apart.
        units: compute units; a trace that states others shows a part of the device. None: not checked.
    """

    device: str
    pattern: str
    bytes_per_s: float
    flops_per_s: Mapping[Precision, float]
    source: str
    min_memory_bytes: int = 0
    units: int | None = None


def device_peaks(name: str, memory_bytes: int | None = None, units: int | None = None) -> DevicePeaks | None:
    """The peaks of the device that a trace names.

    None if the table does not have it, or has only the whole of it.
    """
    if re.search(_PART_OF_A_DEVICE, name, re.IGNORECASE):
        return None
    for peaks in DEVICE_PEAKS:
        fits = re.search(peaks.pattern, name, re.IGNORECASE) and (memory_bytes or 0) >= peaks.min_memory_bytes
        if fits and _has_units(peaks, name, units):
            return peaks
    return None


def peaks_named(name: str) -> DevicePeaks:
    """The peaks of a device by its name in the table, or by the name that a trace or `nvidia-smi` has for it.

    Raises:
        ArgumentError: the table does not have it, or has several variants of it.
    """
    text = name.strip().lower()
    found = next((peaks for peaks in DEVICE_PEAKS if peaks.device.lower() == text), None) or device_peaks(
        name
    )
    if found is not None:
        return found
    names = {peaks.device.lower(): peaks.device for peaks in DEVICE_PEAKS}
    variants = [key for key in names if text and re.search(rf"\b{re.escape(text)}\b", key)]
    near = [names[key] for key in variants or get_close_matches(text, names, n=1)]
    meant = f"; did you mean {' or '.join(near)}?" if near else "."
    raise ArgumentError(
        f"there is no device {name!r} in the table of peaks{meant} There are: {', '.join(names.values())}"
    )


def _has_units(peaks: DevicePeaks, name: str, units: int | None) -> bool:
    """Return whether the compute units match the table; if two devices share a name, they must be known."""
    if units is None or peaks.units is None:
        return "/" not in name
    return units == peaks.units


def _tera(
    tensor: str, vector: float, fp64: float | None = None, fp32: float | None = None
) -> dict[Precision, float]:
    """FLOP/s by precision."""
    words = tensor.replace("half", "fp16 bf16").split()
    found: dict[Precision, float] = {Precision.VECTOR: vector * _TERA}
    found[Precision.FP32] = (vector if fp32 is None else fp32) * _TERA
    if fp64 is not None:
        found[Precision.FP64] = fp64 * _TERA
    names: list[str] = []
    for word in words:
        if word[0].isdigit():
            found |= {Precision(name): float(word) * _TERA for name in names}
            names = []
        else:
            names.append(word)
    return found


_V100 = "NVIDIA V100 Tensor Core GPU Datasheet"
_A100 = "NVIDIA A100 Tensor Core GPU Datasheet"
_GH200 = "NVIDIA GH200 Grace Hopper Superchip Datasheet"
_H100 = "NVIDIA H100 Tensor Core GPU Datasheet"
_HOPPER = _tera("tf32 494.7 half 989.4 fp8 int8 1978.9", 66.9, fp64=66.9)
_AMPERE = _tera("tf32 156 half 312 int8 624", 19.5, fp64=19.5)
_BLACKWELL = "NVIDIA Blackwell Datasheet (the Architecture Technical Brief has fp32 {} and fp64 {})"
_MI300 = _tera("tf32 653.7 half 1307.4 fp8 int8 2614.9", 163.4, fp64=163.4)
_80_GB = 60 * _GIGA
"""Between 40 GB and 80 GB."""

DEVICE_PEAKS: tuple[DevicePeaks, ...] = (
    DevicePeaks("V100 PCIe", r"V100-PCIE", 900e9, _tera("fp16 112", 14, fp64=7), _V100),
    DevicePeaks("V100S PCIe", r"V100S", 1134e9, _tera("fp16 130", 16.4, fp64=8.2), _V100),
    DevicePeaks("V100 SXM", r"V100-SXM2", 900e9, _tera("fp16 125", 15.7, fp64=7.8), _V100),
    DevicePeaks("T4", r"\bT4\b", 320e9, _tera("fp16 65 int8 130", 8.1), "NVIDIA Turing GPU Architecture, T4"),
    DevicePeaks("A100 PCIe 80GB", r"\bA[18]00\b.*80GB.*PCIe|\bA[18]00-PCIE-80GB", 1935e9, _AMPERE, _A100),
    DevicePeaks(
        "A100 PCIe 40GB", r"\bA[18]00-PCIE-40GB|\bA100-PCIE$|\bA800 40GB Active", 1555e9, _AMPERE, _A100
    ),
    DevicePeaks("A100 SXM 80GB", r"\bA[18]00-SXM.*80GB", 2039e9, _AMPERE, _A100),
    DevicePeaks("A100 SXM 40GB", r"\bA[18]00-SXM.*40GB", 1555e9, _AMPERE, _A100),
    DevicePeaks("A100 SXM 80GB", r"\bA100-PG\d+", 2039e9, _AMPERE, _A100, min_memory_bytes=_80_GB),
    DevicePeaks("A100 SXM 40GB", r"\bA100-PG\d+", 1555e9, _AMPERE, _A100),
    DevicePeaks(
        "A10",
        r"\bA10\b",
        600e9,
        _tera("tf32 62.5 half 125 int8 250", 31.2),
        "NVIDIA A10 Tensor Core GPU Datasheet",
    ),
    DevicePeaks(
        "A40", r"\bA40\b", 696e9, _tera("tf32 74.8 half 149.7 int8 299.3", 37.4), "NVIDIA A40 Datasheet"
    ),
    DevicePeaks(
        "L40S",
        r"\bL40S\b",
        864e9,
        _tera("tf32 183 half 362 fp8 int8 733", 91.6),
        "NVIDIA L40S Datasheet",
    ),
    DevicePeaks(
        "L4",
        r"\bL4\b",
        300e9,
        _tera("tf32 60 half 121 fp8 int8 242.5", 30.3),
        "NVIDIA L4 Tensor Core GPU Datasheet",
    ),
    DevicePeaks(
        "H100 NVL",
        r"H100 NVL",
        3938e9,
        _tera("tf32 417.5 half 835.5 fp8 int8 1670.5", 60, fp64=60),
        "NVIDIA H100 NVL GPU Product Brief",
    ),
    DevicePeaks(
        "H100 PCIe",
        r"H100.*PCIe",
        2039e9,
        _tera("tf32 378 half 756 fp8 int8 1513", 51, fp64=51),
        "NVIDIA H100 PCIe GPU Product Brief",
    ),
    DevicePeaks("H100 SXM", r"\bH100 (SXM|\d+GB HBM3)", 3350e9, _HOPPER, _H100),
    DevicePeaks(
        "H800 SXM",
        r"\bH800$",
        3350e9,
        _tera("tf32 494.7 half 989.4 fp8 int8 1978.9", 66.9, fp64=1),
        "NVIDIA H800 Tensor Core GPU Datasheet",
    ),
    DevicePeaks("GH200 144GB", r"\bGH200 144G", 4900e9, _HOPPER, _GH200),
    DevicePeaks("GH200 144GB", r"\bGH200\b", 4900e9, _HOPPER, _GH200, min_memory_bytes=120 * _GIGA),
    DevicePeaks("GH200", r"\bGH200\b", 4000e9, _HOPPER, _GH200),
    DevicePeaks(
        "H200 NVL",
        r"H200 NVL",
        4800e9,
        _tera("tf32 417.5 half 835.5 fp8 int8 1670.5", 60, fp64=60),
        "NVIDIA H200 Tensor Core GPU Datasheet",
    ),
    DevicePeaks("H200", r"\bH200\b", 4800e9, _HOPPER, "NVIDIA H200 Tensor Core GPU Datasheet"),
    DevicePeaks(
        "H20", r"\bH20$", 4000e9, _tera("tf32 74 half 148 fp8 int8 296", 44, fp64=1), "NVIDIA H20 Datasheet"
    ),
    DevicePeaks(
        "GB200",
        r"\bGB200\b",
        8000e9,
        _tera("tf32 1250 half 2500 fp8 int8 5000 fp4 10000", 80, fp64=40),
        _BLACKWELL.format(90, 45),
    ),
    DevicePeaks(
        "B200",
        r"\bB200\b",
        8000e9,
        _tera("tf32 1100 half 2250 fp8 int8 4500 fp4 9000", 75, fp64=37),
        _BLACKWELL.format(80, 40),
    ),
    DevicePeaks(
        "B100",
        r"\bB100\b",
        8000e9,
        _tera("tf32 900 half 1750 fp8 int8 3500 fp4 7000", 60, fp64=30),
        "NVIDIA Blackwell Architecture Technical Brief",
    ),
    DevicePeaks(
        "RTX 4090",
        r"RTX 4090$",
        1008e9,
        _tera("tf32 82.6 half 165.2 fp8 330.3 int8 660.6", 82.6),
        "NVIDIA Ada GPU Architecture",
    ),
    DevicePeaks(
        "RTX 3090",
        r"RTX 3090$",
        936e9,
        _tera("tf32 35.6 half 71 int8 284", 35.6),
        "NVIDIA Ampere GA102 GPU Architecture",
    ),
    DevicePeaks(
        "RTX 2080 Ti",
        r"RTX 2080 Ti$",
        616e9,
        _tera("fp16 53.8 int8 215.2", 13.4),
        "NVIDIA Turing GPU Architecture",
    ),
    DevicePeaks(
        "MI100",
        r"\bMI100\b",
        1228.8e9,
        _tera("fp16 int8 184.6 bf16 92.3", 23.1, fp64=11.5, fp32=46.1),
        "AMD Instinct MI100 Accelerator Brochure",
        units=120,
    ),
    DevicePeaks(
        "MI210",
        r"\bMI210\b",
        1638.4e9,
        _tera("half int8 181", 22.6, fp64=45.3, fp32=45.3),
        "AMD Instinct MI210 Accelerator Data Sheet",
        units=104,
    ),
    DevicePeaks(
        "MI250X (one GCD of two)",
        r"\bMI250X\b",
        1638.4e9,
        _tera("half int8 191.5", 23.95, fp64=47.85, fp32=47.85),
        "AMD Instinct MI200 Series Accelerator Data Sheet",
        units=110,
    ),
    DevicePeaks(
        "MI250 (one GCD of two)",
        r"\bMI250\b",
        1638.4e9,
        _tera("half int8 181.05", 22.65, fp64=45.25, fp32=45.25),
        "AMD Instinct MI200 Series Accelerator Data Sheet",
        units=104,
    ),
    DevicePeaks(
        "MI300A",
        r"\bMI300A\b",
        5300e9,
        _tera("tf32 490.3 half 980.6 fp8 int8 1961.2", 122.6, fp64=122.6),
        "AMD Instinct MI300A APU Data Sheet",
        units=228,
    ),
    DevicePeaks(
        "MI300X", r"\bMI300X\b", 5300e9, _MI300, "AMD Instinct MI300X Accelerator Data Sheet", units=304
    ),
    DevicePeaks(
        "MI325X", r"\bMI325X\b", 6000e9, _MI300, "AMD Instinct MI325X Accelerator Data Sheet", units=304
    ),
    DevicePeaks(
        "MI350X",
        r"\bMI350X\b",
        8000e9,
        _tera("half 2306.9 fp8 int8 4613.7 fp4 9227.5", 144.2, fp64=72.1),
        "AMD Instinct MI350X GPU Data Sheet",
        units=256,
    ),
    DevicePeaks(
        "MI355X",
        r"\bMI355X\b",
        8000e9,
        _tera("half 2516.6 fp8 int8 5033.2 fp4 10066.3", 157.3, fp64=78.6),
        "AMD Instinct MI355X GPU Data Sheet",
        units=256,
    ),
)
"""The devices known, the more special pattern first. The first match counts."""


COMPUTE = "compute"
COMMUNICATION = "communication"
MEMORY = "memory"
WAIT = "wait"

_COPY_NAMES = ["dma_request"]
WAIT_NAMES = ["event_wait", "event_record"]
"""Work of a device queue that only waits."""


def kind_of_device_event(work: pl.DataFrame) -> pl.Series:
    """The kind of each device event, by the first of these that decides:

    1. collective arguments of its own, or the category `collective_comm`: communication;
    2. a copy or fill by category or name: memory; a device queue's `event_wait` and `event_record`: waiting;
    3. its name is known for computing (`model.collectives.communication_rules`): compute;
    4. the op that launched it is a collective: communication;
    5. its name is of a communication library, or, unless an ATen op launched it, just of a collective:
       communication;
    6. compute.
    """
    rules = work.with_columns(_says_of_kernels(work), _says_of_ops(work))
    name, category = pl.col("name"), pl.col("category")
    by_kernel, by_op = pl.col("by_kernel"), pl.col("by_op")
    kind = (
        pl.when(pl.col("has_collective_args") | category.is_in(categories_of(Work.COLLECTIVE)))
        .then(pl.lit(COMMUNICATION))
        .when(category.is_in(categories_of(Work.COPY)) | name.is_in(_COPY_NAMES))
        .then(pl.lit(MEMORY))
        .when(name.is_in(WAIT_NAMES))
        .then(pl.lit(WAIT))
        .when(by_kernel == Says.COMPUTES.name)
        .then(pl.lit(COMPUTE))
        .when((by_op == Says.COMMUNICATES.name) | (by_kernel == Says.COMMUNICATES.name))
        .then(pl.lit(COMMUNICATION))
        .when((by_kernel == Says.MAY_COMMUNICATE.name) & by_op.ne_missing(Says.COMPUTES.name))
        .then(pl.lit(COMMUNICATION))
        .otherwise(pl.lit(COMPUTE))
    )
    return rules.select(kind.alias("kind")).to_series()


def host_op_communicates(ops: pl.DataFrame) -> pl.Series:
    """Return whether each host op or annotation is one of a communication library."""
    named = ops.select(pl.col("name").alias("op_name"), pl.col("category").alias("op_category"))
    communicates = (pl.col("by_op") == Says.COMMUNICATES.name).fill_null(value=False)
    return named.select(_says_of_ops(named)).select(communicates.alias("communicates")).to_series()


def _says_of_kernels(work: pl.DataFrame) -> pl.Series:
    return _says(work.get_column("name"), Subject.KERNEL).alias("by_kernel")


def _says_of_ops(work: pl.DataFrame) -> pl.Series:
    """An annotation may bear any name: only those that backends make count."""
    name = work.get_column("op_name")
    is_op = work.get_column("op_category").is_in(categories_of(Role.OP)).fill_null(value=False)
    as_op, as_range = _says(name, Subject.OP, Subject.RANGE), _says(name, Subject.RANGE)
    found: pl.Series = as_op.zip_with(is_op, as_range).alias("by_op")
    return found


def _says(names: pl.Series, *subjects: Subject) -> pl.Series:
    """Return the conclusion of the first matching rule for each name, computed once per name; null if none matches."""

    def said(distinct: pl.Series) -> pl.Series:
        rules = (None if name is None else rule_of(name, *subjects) for name in distinct.to_list())
        return pl.Series([None if rule is None else rule.says.name for rule in rules], dtype=pl.String)

    return by_name(names, said)
