"""A tensor that is cast to another type of floats, and straight back."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
from tracebraid.analysis.antipatterns.tensors.casts import copies_between_tensors
from tracebraid.analysis.event_columns import event_columns
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector
from tracebraid.model.units import NS_PER_MS

__all__ = ["DETECTOR", "HOST_GAP_NS", "MOST_BETWEEN", "STALL_NS", "dtype_bounces"]

MOST_BETWEEN = 1
"""Events of the stream between the two casts at most: one op whose type did not fit. Norms and softmax, which compute
in FP32 with reason, have more."""

STALL_NS = NS_PER_MS
"""Time between the two casts at most: from here on they belong to different parts of the program."""

HOST_GAP_NS = 20_000
"""The same on the host, where no stream tells what lies between: about as long as one small op takes."""


def dtype_bounces(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Pairs of casts of equal shape, the second of which undoes the type of the first, with one op between at most.

    Without the pair the step saves at most the time of both casts. That both are of the same data follows from their
    order and shapes: ids of tensors are not asked for.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    casts = copies_between_tensors(linked, annotation).filter("is_cast")
    threads = event_columns(linked.timeline, casts.get_column("op_event"), thread="lane")
    casts = casts.with_columns(threads).sort("device", "lane", "start_ns", "op_event")
    before = {name: pl.col(name).shift(1) for name in casts.columns}
    gap = pl.col("start_ns") - before["end_ns"]
    on_device = linked.timeline.has_device
    near = (
        (gap < STALL_NS) & (pl.col("first") - before["last"] - 1 <= MOST_BETWEEN)
        if on_device
        else gap <= HOST_GAP_NS
    )
    undoes = (pl.col("target") == before["source"]) & (pl.col("source") == before["target"])
    same = [pl.col(name).eq_missing(before[name]) for name in ("device", "lane", "thread", "shape")]
    pairs = casts.with_columns(
        pl.all_horizontal(near, undoes, *same).fill_null(value=False).alias("second"),
        before["start_ns"].alias("pair_start"),
        (pl.col("alone_ns") + before["alone_ns"]).alias("saving_ns"),
        pl.format("{} > {} > {}", before["source"], pl.col("source"), "target").alias("subject"),
    )
    # Of three casts in a row the first two are the pair.
    run = (~pl.col("second")).cum_sum()
    number = pl.col("second").cast(pl.Int64).cum_sum().over(run)
    pairs = pairs.with_columns(number.alias("number")).filter(pl.col("second") & (pl.col("number") % 2 == 1))
    return evidence_of(
        linked,
        annotation,
        pairs.with_columns(pl.col("pair_start").alias("start_ns"), pl.col("op_event").alias("host_event")),
    )


DETECTOR = Detector(
    "dtype-bounces",
    "tensors cast to another type and straight back",
    "keep one type: run the op between in it, or set the dtype of the module or buffer; torch.compile fuses casts",
    dtype_bounces,
    (Need.SHAPES_OF_EITHER,),
)
