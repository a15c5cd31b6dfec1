"""Many matrix products of the same shapes, one after another, each too small for its device."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
from tracebraid.analysis.antipatterns.matmuls.products import products
from tracebraid.analysis.efficiency.costs_by_shape import LATENCY_NS
from tracebraid.analysis.efficiency.counted_ops import counted_ops
from tracebraid.analysis.event_columns import event_columns
from tracebraid.analysis.time.intervals import cover_of
from tracebraid.analysis.time.work_events import work_events
from tracebraid.model.answers.efficiency import OpFamily
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector
from tracebraid.model.units import NS_PER_MS

__all__ = [
    "DETECTOR",
    "HOST_STALL_NS",
    "LEAST_PRODUCTS",
    "MOST_BETWEEN",
    "STALL_NS",
    "TINY_FLOPS",
    "TINY_HOST_FLOPS",
    "tiny_products",
]

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

HOST_STALL_NS = 10 * NS_PER_MS
"""The same on a host: where other programs compute, too, one waits for its turn for some milliseconds."""

_NO_COMPUTE = [OpFamily.VIEW.value, OpFamily.UNKNOWN.value]
"""Families of ops that compute nothing, or only call others."""


def tiny_products(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Runs of tiny products of the same op, shapes and types.

    A product is tiny where the device needs less than `LATENCY_NS` for it at its peaks. Batched, a run takes at least
    the least time of all its products, and no less than the shortest of them took. So it saves at most the idle time
    in it and the time of its products, less that.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    on_device = linked.timeline.has_device
    found = products(linked, annotation)
    found = _with_runs(found if on_device else _in_order_of_ops(linked, found), on_device)
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
        annotation,
        runs.with_columns(
            saving.floor().cast(pl.Int64).alias("saving_ns"),
            pl.col("op_event").alias("host_event"),
            pl.col("kernel").alias("subject"),
        ),
    )


def _in_order_of_ops(linked: LinkedTrace, found: pl.DataFrame) -> pl.DataFrame:
    """With `first` and `last`: the number of the product among the computing ops of its thread."""
    ops = counted_ops(linked).filter(pl.col("is_op") & ~pl.col("family").is_in(_NO_COMPUTE))
    lane = event_columns(linked.timeline, ops.get_column("event_id"), thread="lane")[0]
    numbers = (
        ops.select(lane, "ts_ns", pl.col("event_id").alias("op_event"))
        .sort("thread", "ts_ns", "op_event")
        .select("op_event", pl.int_range(pl.len(), dtype=pl.Int64).alias("first"))
    )
    found = found.drop("first").join(numbers, on="op_event", how="left", maintain_order="left")
    return found.with_columns(pl.col("first").alias("last"))


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


def _idle(linked: LinkedTrace, runs: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    starts, ends = (runs.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    work = work_events(linked)
    begins, lasts = (work.get_column(name).to_numpy() for name in ("ts_ns", "dur_ns"))
    found: np.ndarray[tuple[int], np.dtype[np.int64]] = (
        ends - starts - cover_of(begins, begins + lasts).within(starts, ends)
    )
    return found


DETECTOR = Detector(
    "tiny-products",
    "many small matrix products, one after another",
    "batch them: torch.bmm, a grouped or stacked product, or a larger batch; else torch.compile or a CUDA graph",
    tiny_products,
    (Need.SHAPES_OF_EITHER,),
)
