"""Matrix products whose sizes are no multiples of what tensor cores take."""

from __future__ import annotations

import json

import polars as pl

from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
from tracebraid.analysis.antipatterns.matmuls.products import products
from tracebraid.analysis.efficiency.costs_by_shape import LATENCY_NS
from tracebraid.model.device_peaks import Precision
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector

__all__ = ["DETECTOR", "ELEMENTS", "FACTORS", "LEAST_LOST", "is_unaligned", "unaligned_products"]

ELEMENTS = {
    Precision.TF32.value: 4,
    Precision.FP16.value: 8,
    Precision.BF16.value: 8,
    Precision.INT8.value: 16,
    Precision.FP8.value: 16,
}
"""Elements in 16 bytes, of which rows of matrices are multiples for tensor cores (NVIDIA, "Matrix Multiplication
Background User's Guide", 2023, section 3.1)."""

FACTORS = {
    "aten::mm": (0, 1),
    "aten::bmm": (0, 1),
    "aten::matmul": (0, 1),
    "aten::addmm": (1, 2),
    "aten::baddbmm": (1, 2),
    "aten::linear": (0, 1),
    "aten::_scaled_mm": (0, 1),
    "aten::_int_mm": (0, 1),
}
"""Positions of the factors of ops that multiply two dense matrices."""

LEAST_LOST = 0.25
"""Share of the time beyond the least that the device needs: below, the shapes hold nothing up."""


def unaligned_products(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Products in a type of the tensor cores in which a row of a factor, or of the result, is no multiple of 16 bytes.

    With padded shapes a product takes at least its least time at the device's peaks: it saves at most what it took
    beyond that. Products that the device does in less than `LATENCY_NS` at best, and those within `LEAST_LOST` of
    their least time, are left out.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    found = products(linked, annotation).filter(
        (pl.col("least_ns") >= LATENCY_NS)
        & (pl.col("least_ns") < (1 - LEAST_LOST) * pl.col("dur_ns"))
        & pl.col("name").is_in(list(FACTORS))
        & pl.col("precision").is_in(list(ELEMENTS))
    )
    key = ["name", "input_dims", "input_strides", "precision"]
    calls = found.select(key).unique(maintain_order=True)
    judged = calls.with_columns(
        pl.Series("unaligned", [is_unaligned(*row) for row in calls.iter_rows()], dtype=pl.Boolean)
    ).filter("unaligned")
    found = found.join(judged, on=key, how="semi", nulls_equal=True, maintain_order="left")
    saving = (pl.col("alone_ns") - pl.col("least_ns")).floor().cast(pl.Int64).alias("saving_ns")
    return evidence_of(
        linked,
        annotation,
        found.with_columns(saving, pl.col("op_event").alias("host_event"), pl.col("kernel").alias("subject")),
    )


def is_unaligned(name: str, dims: str | None, strides: str | None, precision: str) -> bool:
    """Whether a row of a factor or of the result is no multiple of 16 bytes; false where the shapes are unknown.

    A row is what lies behind another in memory: the largest stride of the last two dimensions; without strides, the
    last size. A factor with a size of 1 has no rows.

    Args:
        name: the op, of `FACTORS`.
        dims: its shapes, as JSON.
        strides: its strides, as JSON; null: not recorded.
        precision: of `ELEMENTS`.
    """
    shapes, steps = _lists(dims), _lists(strides)
    positions = FACTORS[name]
    if any(position >= len(shapes) for position in positions):
        return False
    factors = [_ints(shapes[position]) for position in positions]
    if any(len(shape) < 2 or min(shape) < 1 for shape in factors):
        return False
    layouts = [_ints(steps[position]) if position < len(steps) else [] for position in positions]
    rows = [_row(shape, layout) for shape, layout in zip(factors, layouts, strict=True)]
    rows.append(factors[1][-2] if name == "aten::linear" else factors[1][-1])
    return any(row % ELEMENTS[precision] for row in rows if row > 1)


def _lists(text: str | None) -> list[object]:
    try:
        found = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _ints(value: object) -> list[int]:
    """A list of integers; empty where it is something else."""
    found = value if isinstance(value, list) else []
    return found if all(isinstance(number, int) for number in found) else []


def _row(shape: list[int], strides: list[int]) -> int:
    """Elements from a row of a matrix to the next; 1 where it has a single row or column."""
    if min(shape[-2:]) == 1:
        return 1
    return max(strides[-2:]) if len(strides) == len(shape) else shape[-1]


DETECTOR = Detector(
    "unaligned-products",
    "matrix products with shapes off the tensor cores' multiples",
    "pad the sizes (vocabulary, classes, features) to multiples of 8 elements of 16 bits, 16 of 8 bits, 4 of TF32",
    unaligned_products,
    (Need.DEVICE_WORK,),
)
