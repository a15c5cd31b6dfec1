"""Many matrix products of the same shapes, one after another, each too small for its device."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
from tracebraid.analysis.antipatterns.matmuls.products import products
from tracebraid.analysis.efficiency.costs_by_shape import LATENCY_NS
from tracebraid.analysis.time.intervals import cover_of
from tracebraid.analysis.time.work_events import work_events
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector
from tracebraid.model.units import NS_PER_MS

__all__ = [
    "DETECTOR",
    "HOST_GAP_NS",
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
"""Events of the stream between two products of a run at most: such as the activation behind each."""

STALL_NS = NS_PER_MS
"""From such a gap between two products on, something else holds the program up: the run ends."""

TINY_FLOPS = 20_000_000
"""FLOPs of a product below which it is tiny on a device whose peaks are unknown: `LATENCY_NS` at 10 TFLOP/s."""

TINY_HOST_FLOPS = 100_000
"""The same on a host: 2 µs, the least that an op of PyTorch takes, at 50 GFLOP/s of a core."""

HOST_GAP_NS = 20_000
"""Time between two products of a run on the host at most: about as long as one op in Python between them takes."""


def tiny_products(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Runs of tiny products of the same op, shapes and types.

    A product is tiny where the device needs less than `LATENCY_NS` for it at its peaks. Batched, a run takes at least
    the least time of all its products, and no less than the shortest of them took. So it saves at most the idle time
    in it and the time of its products, less that.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    found = _with_runs(products(linked, annotation), linked.timeline.has_device)
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


def _with_runs(found: pl.DataFrame, on_device: bool) -> pl.DataFrame:
    """Products with `is_tiny`, and `run`: the number of the run of like products to which each belongs."""
    limit = TINY_FLOPS if on_device else TINY_HOST_FLOPS
    by_flops = pl.col("flops").is_between(1, limit - 1)
    is_tiny = (pl.col("least_ns") < LATENCY_NS).fill_null(by_flops) & (pl.col("flops") > 0)
    found = found.with_columns(is_tiny.fill_null(value=False).alias("is_tiny"))
    gap = pl.col("start_ns") - pl.col("end_ns").shift(1)
    near = (
        (gap < STALL_NS) & (pl.col("first") - pl.col("last").shift(1) - 1 <= MOST_BETWEEN)
        if on_device
        else gap <= HOST_GAP_NS
    )
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
