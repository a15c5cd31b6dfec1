"""Anti-patterns of matrix products."""

from __future__ import annotations

import json
from collections.abc import Collection
from math import prod

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.antipatterns.evidence import (
    HOST_STALL_NS,
    device_work,
    evidence_of,
    in_order_of_ops,
    owners_of,
    work_of_ops,
)
from tracebraid.analysis.efficiency.calls import calls_of
from tracebraid.analysis.efficiency.counted_ops import counted_ops
from tracebraid.analysis.efficiency.roofline import LATENCY_NS, peak_bandwidth_of, peak_flops_of
from tracebraid.analysis.time.breakdown import cover_of, work_events
from tracebraid.model.analysis import Need
from tracebraid.model.answers.efficiency import OpFamily
from tracebraid.model.device_peaks import Precision
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import flags_by_name
from tracebraid.model.quantities import NS_PER_MS
from tracebraid.model.questions import Detector, Removal

_NS = 1e9


def products(linked: LinkedTrace) -> pl.DataFrame:
    """One row per matrix product that counts, in the order of `work_of_ops`.

    Columns: those of `work_of_ops`; name, input_dims, input_types, input_strides, precision, flops and bytes of
    `counted_ops`; least_ns = max(FLOPs / peak FLOP/s, bytes / peak bandwidth), null where the peaks or the FLOPs are
    unknown.
    """
    return linked.derived(_products)


def _products(linked: LinkedTrace) -> pl.DataFrame:
    ops = counted_ops(linked).filter(pl.col("is_op") & (pl.col("family") == OpFamily.MATMUL.value))
    work = work_of_ops(linked, ops.get_column("event_id"))
    columns = ["name", "input_dims", "input_types", "input_strides", "precision", "flops", "bytes"]
    found = work.join(
        ops.select(pl.col("event_id").alias("op_event"), *columns),
        on="op_event",
        how="inner",
        maintain_order="left",
    )
    peaks, bandwidth = peak_flops_of(linked, None), peak_bandwidth_of(linked, None)
    if not peaks or bandwidth is None:
        return found.with_columns(pl.lit(None, dtype=pl.Float64).alias("least_ns"))
    peak = pl.col("precision").replace_strict(peaks, default=None, return_dtype=pl.Float64)
    compute, memory = pl.col("flops") / peak * _NS, pl.col("bytes") / bandwidth * _NS
    known = compute.is_not_null() & memory.is_not_null()
    return found.with_columns(pl.when(known).then(pl.max_horizontal(compute, memory)).alias("least_ns"))


LEAST_KEYS = 128
"""Keys, and so columns of the scores, at least: a tile of a fused kernel, below which it gains little."""

LEAST_QUERIES = 16
"""Queries at least: the decoding of a single token writes next to no scores."""

MOST_EVENTS = 24
"""Events of the stream between the two products at most: scale, mask, casts, softmax, dropout, copies."""

_SOFTMAX = ["aten::_softmax", "aten::_softmax_backward_data", "aten::_safe_softmax"]
_FACTORS = {"aten::bmm": 0, "aten::baddbmm": 1, "aten::matmul": 0}
"""Position of the first factor."""

_KEY = ["device", "lane", "batch", "queries", "keys"]
_SIZES = {"batch": pl.Int64, "queries": pl.Int64, "keys": pl.Int64}

_Ints = NDArray[np.int64]


def eager_attention(linked: LinkedTrace) -> pl.DataFrame:
    """Softmaxes, and their backward ops, between a product that makes their input and one that takes their output.

    That is known by shapes, batches and heads multiplied, and by the order on the stream. A fused kernel computes the
    products, too, at best at the device's peak. So an occurrence, from the first product to the second, saves at most
    its work less FLOPs / peak of the products; where the peak is unknown, less their time.
    """
    makes, takes = _makes_and_takes(linked)
    found = (
        _softmaxes(linked)
        .sort("order")
        .join_asof(makes.sort("order"), on="order", by=_KEY, strategy="backward", check_sortedness=False)
        .join_asof(takes.sort("order"), on="order", by=_KEY, strategy="forward", check_sortedness=False)
        .filter(pl.col("last_of_all") - pl.col("first_of_all") <= MOST_EVENTS + 1)
    )
    alone = device_work(linked).get_column("alone_ns").to_numpy()
    before = np.r_[0, np.cumsum(alone)]
    first, last = (found.get_column(name).to_numpy() for name in ("first_of_all", "last_of_all"))
    work = pl.Series("work_ns", before[last + 1] - before[first], dtype=pl.Int64)
    saving = work - (pl.col("needed_before_ns") + pl.col("needed_after_ns"))
    return evidence_of(
        linked,
        found.with_columns(
            saving.floor().cast(pl.Int64).alias("saving_ns"),
            pl.col("op_event").alias("host_event"),
            pl.format("{} x {} scores", "queries", "keys").alias("subject"),
        ),
    )


def _makes_and_takes(linked: LinkedTrace) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Products by the scores that they make, and by those that they take; `order` is the end that is near them."""
    factors = _attention_products(linked)
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


def _softmaxes(linked: LinkedTrace) -> pl.DataFrame:
    """Softmaxes of enough scores with their place on the stream, `order`."""
    calls = calls_of(linked).filter(pl.col("name").is_in(_SOFTMAX) & pl.col("input_dims").is_not_null())
    sizes = _with_sizes(calls.select("input_dims").unique(maintain_order=True), None)
    calls = calls.join(sizes, on="input_dims", how="left", maintain_order="left").filter(
        (pl.col("keys") >= LEAST_KEYS) & (pl.col("queries") >= LEAST_QUERIES)
    )
    work = work_of_ops(linked, calls.get_column("event_id"))
    return work.join(
        calls.select(pl.col("event_id").alias("op_event"), *_SIZES), on="op_event", how="inner"
    ).select("op_event", "event_id", *_KEY, pl.col("first").alias("order"))


def _attention_products(linked: LinkedTrace) -> pl.DataFrame:
    """Batched products with the sizes of the first factor, as scores, and of what they make; needed_ns."""
    found = products(linked).filter(pl.col("name").is_in(list(_FACTORS)) & pl.col("first").is_not_null())
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
    """Batch, rows and columns of an op's input, and of a product's result rows and columns; null where unknown."""
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


EAGER_ATTENTION_DETECTOR = Detector(
    "eager-attention",
    "attention writes its scores to memory",
    "Use torch.nn.functional.scaled_dot_product_attention or another fused attention "
    "(FlexAttention, flash-attn)",
    eager_attention,
    (Need.DEVICE_WORK, Need.KNOWN_OPS),
    removes=Removal.RUN,
)


FP32_KERNEL = (
    r"(?i)sgemm|_simt_s|scudnn|convolve_sgemm|_f32f32_f32f32_f32_|"
    r"winograd\w*_fp32_fp32|gemmsn_\w+<float"
)
"""Names of kernels of cuBLAS, CUTLASS and cuDNN that multiply FP32 outside of tensor cores."""

_TENSOR_CORES = r"(?i)tf32|tensorop|s1688|s884|h884|s16816|hmma|half|bf16|f16f16"
"""Names of kernels that multiply on tensor cores, or nothing in FP32."""

_FASTER = (Precision.TF32.value, Precision.FP16.value, Precision.BF16.value)
_REACHED = 0.5
"""Of its peak a device reaches so much in large products and convolutions; a chosen value."""


def full_precision_products(linked: LinkedTrace) -> pl.DataFrame:
    """Kernels that multiply FP32 outside of tensor cores, by their names.

    In lower precision the kernels of an op take FLOPs / (`_REACHED` of the fastest peak of TF32, FP16 and BF16), and at
    least `LATENCY_NS`. So the op saves the time of these kernels less that, at most the time of them that no other
    compute hides; its kernels share that out. Convolutions become faster by `_REACHED` of the peaks' ratio: Winograd's
    and Fourier's methods need fewer FLOPs than are counted, and one op has several kinds of kernels. Nothing is found
    on devices without such peaks, or with unknown ones.
    """
    peaks = peak_flops_of(linked, None)
    own = peaks.get(Precision.FP32.value, 0.0)
    best = max((peaks.get(name, 0.0) for name in _FASTER), default=0.0)
    work = device_work(linked)
    if own <= 0 or best <= own:
        work = work.clear()
    full = flags_by_name(
        work.get_column("name"),
        lambda name: name.str.contains(FP32_KERNEL) & ~name.str.contains(_TENSOR_CORES),
    )
    found = work.filter(pl.Series(full, dtype=pl.Boolean))
    ops = products(linked).select(pl.col("op_event").alias("owner"), "flops")
    owner = pl.Series("owner", owners_of(linked, found.get_column("op_event"), ops.get_column("owner")))
    # Outside of products, as in a convolution, the kernels of an op belong together.
    launcher = found.select(pl.coalesce("op_event", "event_id")).to_series()
    owner = owner.zip_with(owner >= 0, -2 - launcher)
    found = found.with_columns(owner).join(ops, on="owner", how="left", maintain_order="left")
    ratio = own / best / _REACHED if best > 0 else 1.0
    needed = (pl.col("flops") / (best * _REACHED) * _NS) if best > 0 else pl.col("flops")
    by_ratio = pl.col("dur_ns").sum().over("owner") * min(ratio, 1.0)
    least = pl.max_horizontal(needed.fill_null(by_ratio), float(LATENCY_NS))
    alone = pl.col("alone_ns").sum().over("owner")
    saved = pl.min_horizontal(alone, pl.col("dur_ns").sum().over("owner") - least)
    share = pl.when(alone > 0).then(pl.col("alone_ns") / alone).otherwise(0.0)
    return evidence_of(
        linked,
        found.select(
            pl.col("ts_ns").alias("start_ns"),
            "end_ns",
            (saved * share).ceil().cast(pl.Int64).alias("saving_ns"),
            "event_id",
            pl.col("op_event").alias("host_event"),
            pl.col("name").alias("subject"),
        ),
    )


_IN_BF16 = "torch.autocast in bfloat16"
_IN_FP16 = "torch.autocast in float16, with torch.amp.GradScaler in training"
_IN_TF32 = 'torch.set_float32_matmul_precision("high"), which is TF32'


def _change_on(precisions: Collection[str]) -> str:
    """The changes that the device can carry out."""
    in_half = _IN_BF16 if Precision.BF16.value in precisions else _IN_FP16
    return f"Use {in_half}; or {_IN_TF32}" if Precision.TF32.value in precisions else f"Use {in_half}"


FULL_PRECISION_PRODUCTS_DETECTOR = Detector(
    "full-precision-products",
    "FP32 matrix products run outside the tensor cores",
    f"Use {_IN_BF16} where the device has it (NVIDIA from Ampere on, AMD from MI100 on), otherwise {_IN_FP16}. From "
    f"Ampere on also {_IN_TF32}",
    full_precision_products,
    (Need.DEVICE_WORK, Need.KNOWN_OPS, Need.KNOWN_KERNELS),
    change_on=_change_on,
    removes=Removal.WORK,
)


LEAST_PRODUCTS = 8
"""Products of a run at least."""

MOST_BETWEEN = 1
"""Events of the stream, or on a host computing ops of the thread, between two products of a run at most: such as the
activation behind each."""

STALL_NS = NS_PER_MS
"""From such a gap between two products on, something else holds the program up: the run ends."""

TINY_FLOPS = 20_000_000
"""FLOPs of a product below which it is tiny on a device whose peaks are unknown: `LATENCY_NS` at 10 TFLOP/s."""

TINY_HOST_FLOPS = 100_000
"""The same on a host: 2 µs, the least that an op of PyTorch takes, at 50 GFLOP/s of a core."""

MOSTLY = 0.5
"""Share of the products of a run that need the one before them, above which it is a chain."""


def tiny_products(linked: LinkedTrace) -> pl.DataFrame:
    """Runs of tiny products of the same op, shapes and types.

    A product is tiny where the device needs less than `LATENCY_NS` for it at its peaks. Batched, a run takes at least
    the least time of all its products, and no less than the shortest of them took. So it saves at most the idle time
    in it and the time of its products, less that. Where the Execution Trace says that each takes what the one before
    made, they are no run on a device: such layers cannot be batched.
    """
    on_device = linked.timeline.has_device
    found = products(linked)
    found = _with_runs(found if on_device else in_order_of_ops(linked, found), on_device)
    if on_device:
        found = found.join(
            _chains(linked, found.filter("is_tiny")), on="run", how="anti", maintain_order="left"
        )
    runs = (
        found.filter("is_tiny")
        .group_by("run", maintain_order=True)
        .agg(
            pl.len().alias("count"),
            pl.col("start_ns", "op_event", "event_id", "kernel").first(),
            pl.col("end_ns").max(),
            pl.col("alone_ns").sum(),
            pl.max_horizontal(pl.col("least_ns").sum(), pl.col("dur_ns").min()).alias("least_ns"),
        )
        .filter(pl.col("count") >= LEAST_PRODUCTS)
    )
    saving = pl.col("alone_ns") + pl.Series("idle_ns", _idle(linked, runs)) - pl.col("least_ns")
    return evidence_of(
        linked,
        runs.with_columns(
            saving.floor().cast(pl.Int64).alias("saving_ns"),
            pl.col("op_event").alias("host_event"),
            pl.col("kernel").alias("subject"),
        ),
    )


def _with_runs(found: pl.DataFrame, on_device: bool) -> pl.DataFrame:
    """Products with `is_tiny`, and `run`: the number of the run of like products to which each belongs."""
    limit = TINY_FLOPS if on_device else TINY_HOST_FLOPS
    by_flops = pl.col("flops").is_between(1, limit - 1)
    is_tiny = (pl.col("least_ns") < LATENCY_NS).fill_null(by_flops) & (pl.col("flops") > 0)
    found = found.with_columns(is_tiny.fill_null(value=False).alias("is_tiny"))
    gap = pl.col("start_ns") - pl.col("end_ns").shift(1)
    stall = STALL_NS if on_device else HOST_STALL_NS
    near = (gap < stall) & (pl.col("first") - pl.col("last").shift(1) - 1 <= MOST_BETWEEN)
    same = [
        pl.col(name).eq_missing(pl.col(name).shift(1))
        for name in ("device", "lane", "name", "input_dims", "input_types", "is_tiny")
    ]
    goes_on = pl.all_horizontal(near, *same).fill_null(value=False)
    return found.with_columns((~goes_on).cum_sum().alias("run"))


def _chains(linked: LinkedTrace, found: pl.DataFrame) -> pl.DataFrame:
    """The runs (`run`) in which most products take what the one before made, as it is or behind another op."""
    if linked.et is None or found.is_empty():
        return found.select("run").clear()
    flows = linked.et.tensor_edges.select("producer", "consumer").unique()
    nodes = linked.node_links.select("node_id", op_event="event_id").drop_nulls().unique("op_event")
    pairs = found.join(nodes, on="op_event", how="left", maintain_order="left").select(
        "run", "node_id", before=pl.col("node_id").shift(1).over("run")
    )
    pairs = pairs.with_row_index("pair").filter(pl.col("before").is_not_null())
    made = pairs.join(flows, left_on="before", right_on="producer").select("pair", "node_id", "consumer")
    behind = made.join(flows, left_on="consumer", right_on="producer", suffix="_behind")
    takes = pl.concat(
        [
            made.select("pair", "node_id", "consumer"),
            behind.select("pair", "node_id", consumer="consumer_behind"),
        ]
    )
    chained = takes.filter(pl.col("consumer") == pl.col("node_id")).select("pair").unique()
    chained = chained.with_columns(pl.lit(value=True).alias("chained"))
    judged = pairs.join(chained, on="pair", how="left").group_by("run")
    return (
        judged.agg(pl.col("chained").fill_null(value=False).mean())
        .filter(pl.col("chained") > MOSTLY)
        .select("run")
    )


def _idle(linked: LinkedTrace, runs: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    starts, ends = (runs.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    work = work_events(linked)
    begins, lasts = (work.get_column(name).to_numpy() for name in ("ts_ns", "dur_ns"))
    found: np.ndarray[tuple[int], np.dtype[np.int64]] = (
        ends - starts - cover_of(begins, begins + lasts).within(starts, ends)
    )
    return found


TINY_PRODUCTS_DETECTOR = Detector(
    "tiny-products",
    "many small matrix products run one after another",
    "Batch them with torch.bmm, a grouped or stacked product, or a larger batch; otherwise use "
    "torch.compile or a CUDA graph",
    tiny_products,
    (Need.SHAPES_OF_EITHER, Need.KNOWN_OPS),
    removes=Removal.RUN,
)


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


def unaligned_products(linked: LinkedTrace) -> pl.DataFrame:
    """Products in a type of the tensor cores in which a row of a factor, or of the result, is no multiple of 16 bytes.

    With padded shapes a product takes at least its least time at the device's peaks: it saves at most what it took
    beyond that. Products that the device does in less than `LATENCY_NS` at best, and those within `LEAST_LOST` of
    their least time, are left out.
    """
    found = products(linked).filter(
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
        found.with_columns(saving, pl.col("op_event").alias("host_event"), pl.col("kernel").alias("subject")),
    )


def is_unaligned(name: str, dims: str | None, strides: str | None, precision: str) -> bool:
    """Return whether a row of a factor or of the result is not a multiple of 16 bytes; false if shapes are unknown.

    A row is what lies behind another in memory: the largest stride of the last two dimensions; without strides, the
    last size. A factor with a size of 1 has no rows.
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


UNALIGNED_PRODUCTS_DETECTOR = Detector(
    "unaligned-products",
    "matrix products have sizes that do not suit the tensor cores",
    "Pad the sizes (vocabulary, classes, features) to multiples of 8 elements of 16 bits, 16 of 8"
    " bits, or 4 of TF32",
    unaligned_products,
    (Need.DEVICE_WORK, Need.KNOWN_OPS),
    removes=Removal.WORK,
)
