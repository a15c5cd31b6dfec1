"""Attention that writes its scores to memory: a product, a softmax and a product, instead of a fused kernel."""

from __future__ import annotations

import json
from math import prod

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.antipatterns.evidence.device_work import device_work
from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
from tracebraid.analysis.antipatterns.evidence.work_of_ops import work_of_ops
from tracebraid.analysis.antipatterns.matmuls.products import products
from tracebraid.analysis.efficiency.calls import calls_of
from tracebraid.analysis.efficiency.peaks import peak_flops_of
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector

__all__ = ["DETECTOR", "LEAST_KEYS", "LEAST_QUERIES", "MOST_EVENTS", "eager_attention", "scores_of"]

LEAST_KEYS = 128
"""Keys, and so columns of the scores, at least: a tile of a fused kernel, below which it gains little."""

LEAST_QUERIES = 16
"""Queries at least: the decoding of a single token writes next to no scores."""

MOST_EVENTS = 24
"""Events of the stream between the two products at most: scale, mask, casts, softmax, dropout, copies."""

_SOFTMAX = ["aten::_softmax", "aten::_softmax_backward_data", "aten::_safe_softmax"]
_FACTORS = {"aten::bmm": 0, "aten::baddbmm": 1, "aten::matmul": 0}
"""Position of the first factor."""

_NS = 1e9
_KEY = ["device", "lane", "batch", "queries", "keys"]
_SIZES = {"batch": pl.Int64, "queries": pl.Int64, "keys": pl.Int64}

_Ints = NDArray[np.int64]


def eager_attention(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Softmaxes, and their backward ops, between a product that makes their input and one that takes their output.

    That is known by shapes, batches and heads multiplied, and by the order on the stream. A fused kernel computes the
    products, too, at best at the device's peak. So an occurrence, from the first product to the second, saves at most
    its work less FLOPs / peak of the products; where the peak is unknown, less their time.

    Args:
        linked: one rank, with device work.
        annotation: what marks a step.
    """
    makes, takes = _makes_and_takes(linked, annotation)
    found = (
        _softmaxes(linked, annotation)
        .sort("order")
        .join_asof(makes.sort("order"), on="order", by=_KEY, strategy="backward", check_sortedness=False)
        .join_asof(takes.sort("order"), on="order", by=_KEY, strategy="forward", check_sortedness=False)
        .filter(pl.col("last_of_all") - pl.col("first_of_all") <= MOST_EVENTS + 1)
    )
    alone = device_work(linked, annotation).get_column("alone_ns").to_numpy()
    before = np.r_[0, np.cumsum(alone)]
    first, last = (found.get_column(name).to_numpy() for name in ("first_of_all", "last_of_all"))
    work = pl.Series("work_ns", before[last + 1] - before[first], dtype=pl.Int64)
    saving = work - (pl.col("needed_before_ns") + pl.col("needed_after_ns"))
    return evidence_of(
        linked,
        annotation,
        found.with_columns(
            saving.floor().cast(pl.Int64).alias("saving_ns"),
            pl.col("op_event").alias("host_event"),
            pl.format("{} x {} scores", "queries", "keys").alias("subject"),
        ),
    )


def _makes_and_takes(linked: LinkedTrace, annotation: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Products by the scores that they make, and by those that they take; `order` is the end that is near them."""
    factors = _products(linked, annotation)
    makes = factors.filter(pl.col("makes_queries").is_not_null()).select(
        "device",
        "lane",
        "batch",
        pl.col("makes_queries").alias("queries"),
        pl.col("makes_keys").alias("keys"),
        pl.col("last").alias("order"),
        pl.col("start_ns"),
        pl.col("first").alias("first_of_all"),
        pl.col("needed_ns").alias("needed_before_ns"),
    )
    takes = factors.select(
        *_KEY,
        pl.col("first").alias("order"),
        pl.col("end_ns"),
        pl.col("last").alias("last_of_all"),
        pl.col("needed_ns").alias("needed_after_ns"),
    )
    return makes, takes


def _softmaxes(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Softmaxes of enough scores with their place on the stream, `order`."""
    calls = calls_of(linked).filter(pl.col("name").is_in(_SOFTMAX) & pl.col("input_dims").is_not_null())
    sizes = _with_sizes(calls.select("input_dims").unique(maintain_order=True), None)
    calls = calls.join(sizes, on="input_dims", how="left", maintain_order="left").filter(
        (pl.col("keys") >= LEAST_KEYS) & (pl.col("queries") >= LEAST_QUERIES)
    )
    work = work_of_ops(linked, annotation, calls.get_column("event_id"))
    return work.join(
        calls.select(pl.col("event_id").alias("op_event"), *_SIZES), on="op_event", how="inner"
    ).select("op_event", "event_id", *_KEY, pl.col("first").alias("order"))


def _products(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Batched products with the sizes of the first factor, as scores, and of what they make; needed_ns."""
    found = products(linked, annotation).filter(
        pl.col("name").is_in(list(_FACTORS)) & pl.col("first").is_not_null()
    )
    calls = found.select("name", "input_dims").unique(maintain_order=True)
    sizes = [_with_sizes(calls.filter(pl.col("name") == name), first) for name, first in _FACTORS.items()]
    found = found.join(pl.concat(sizes), on=["name", "input_dims"], how="inner", maintain_order="left")
    peaks = peak_flops_of(linked, None)
    peak = (
        pl.col("precision").replace_strict(peaks, default=None, return_dtype=pl.Float64)
        if peaks
        else pl.lit(None, dtype=pl.Float64)
    )
    at_best = pl.min_horizontal(pl.col("flops") / peak * _NS, "dur_ns")
    return found.with_columns(pl.coalesce(at_best, "dur_ns").alias("needed_ns"))


def _with_sizes(calls: pl.DataFrame, first: int | None) -> pl.DataFrame:
    rows = [scores_of(dims, first) for dims in calls.get_column("input_dims").to_list()]
    made = {"makes_queries": pl.Int64, "makes_keys": pl.Int64}
    return calls.hstack(pl.DataFrame(rows, schema={**_SIZES, **made}, orient="row"))


def scores_of(dims: str | None, first: int | None) -> tuple[int | None, ...]:
    """Batch, rows and columns of an op's input, and of a product's result rows and columns; null where unknown.

    Args:
        dims: the shapes of its inputs, as JSON.
        first: the position of the first factor; None: it is no product.
    """
    unknown = (None, None, None, None, None)
    try:
        shapes = json.loads(dims or "[]")
    except (ValueError, RecursionError):
        return unknown
    at = first or 0
    if not isinstance(shapes, list) or len(shapes) <= at + (first is not None):
        return unknown
    if not all(_is_batch(shape) for shape in shapes[at : at + (1 if first is None else 2)]):
        return unknown
    a = shapes[at]
    made = (None, None) if first is None else (a[-2], shapes[at + 1][-1])
    return (prod(a[:-2]), a[-2], a[-1], *made)


def _is_batch(shape: object) -> bool:
    return isinstance(shape, list) and len(shape) > 2 and all(isinstance(n, int) and n > 0 for n in shape)


DETECTOR = Detector(
    "eager-attention",
    "attention that writes its scores to memory",
    "torch.nn.functional.scaled_dot_product_attention, or another fused attention (FlexAttention, flash-attn)",
    eager_attention,
    (Need.DEVICE_WORK,),
)
