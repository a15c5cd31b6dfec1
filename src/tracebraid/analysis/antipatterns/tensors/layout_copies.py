"""Copies that only lay a tensor out anew: `contiguous`, copying `reshape`s, kernels that change NCHW into NHWC."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.antipatterns.evidence.device_work import device_work
from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
from tracebraid.analysis.antipatterns.evidence.work_of_ops import work_of_ops
from tracebraid.analysis.antipatterns.tensors.casts import copies_between_tensors
from tracebraid.analysis.host.host_trees import host_names, host_ops
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import flags_by_name
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector

__all__ = ["DETECTOR", "layout_copies"]

_LAYING_OUT = ["aten::contiguous", "aten::reshape"]
"""Ops that copy only where the layout of their input does not fit."""
_CLONE = "aten::clone"
_COPY = "aten::copy_"
_KERNEL = r"(?i)nchw_?to_?nhwc|nhwc_?to_?nchw|tensorTransformGeneric|batched_transpose"
"""Names of kernels of cuDNN and MIOpen that lay tensors out anew for a convolution."""
_COLUMNS = ["start_ns", "end_ns", "saving_ns", "event_id", "host_event", "subject"]


def layout_copies(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Copies on the device, or on the host where it has none, between different layouts of the same type and shape.

    Those in `contiguous`, `reshape` and `clone` are known by strides; where these were not recorded, all copies in
    `contiguous` and `reshape`; and kernels that convolutions launch by their names. A copy into a part of another
    tensor, such as a cache, is none. Each saves at most its own time.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    known = copies_between_tensors(linked, annotation)
    may_be = _copies_inside(linked, [*_LAYING_OUT, _CLONE])
    by_strides = known.filter((pl.col("target") == pl.col("source")) & ~pl.col("same_layout")).join(
        may_be, on="op_event", how="semi", maintain_order="left"
    )
    certain = _copies_inside(linked, _LAYING_OUT).get_column("op_event")
    inside = work_of_ops(linked, annotation, certain).filter(~pl.col("leaves"))
    with_layout = known.filter(pl.col("same_layout").is_not_null() | (pl.col("target") != pl.col("source")))
    inside = inside.join(with_layout, on="op_event", how="anti", maintain_order="left")
    inside = inside.join(by_strides, on="op_event", how="anti", maintain_order="left")
    columns = ["start_ns", "end_ns", "alone_ns", "event_id", "op_event", "kernel"]
    both = pl.concat([by_strides.select(columns), inside.select(columns)])
    copies = both.join(may_be, on="op_event", how="left", maintain_order="left").select(
        "start_ns",
        "end_ns",
        pl.col("alone_ns").alias("saving_ns"),
        "event_id",
        pl.col("enclosing").alias("host_event"),
        pl.col("kernel").alias("subject"),
    )
    work = device_work(linked, annotation)
    is_kernel = flags_by_name(work.get_column("name"), lambda name: name.str.contains(_KERNEL))
    kernels = (
        work.filter(pl.Series(is_kernel, dtype=pl.Boolean))
        .join(copies, on="event_id", how="anti")
        .select(
            pl.col("ts_ns").alias("start_ns"),
            "end_ns",
            pl.col("alone_ns").alias("saving_ns"),
            "event_id",
            pl.col("op_event").alias("host_event"),
            pl.col("name").alias("subject"),
        )
    )
    return evidence_of(linked, annotation, pl.concat([copies, kernels]).select(_COLUMNS))


def _copies_inside(linked: LinkedTrace, ops: list[str]) -> pl.DataFrame:
    """The copies inside these ops: `op_event`, and `enclosing`, the innermost of the ops."""
    names = host_names(linked)
    name = names.get_column("name")
    lays_out = flags_by_name(name, lambda text: text.is_in(ops))
    copies = flags_by_name(name, lambda text: text == _COPY)
    rows = np.flatnonzero(copies)
    tree = host_ops(linked)
    enclosing = tree.nearest(lays_out)[rows] if lays_out.any() else np.full(len(rows), -1)
    inside = enclosing >= 0
    return pl.DataFrame(
        {"op_event": tree.event_id[rows[inside]], "enclosing": tree.event_id[enclosing[inside]]},
        schema={"op_event": pl.Int64, "enclosing": pl.Int64},
    )


DETECTOR = Detector(
    "layout-copies",
    "copies that only change a tensor's layout",
    "produce the layout that the next op takes: channels_last for convolutions; let ops take strided tensors",
    layout_copies,
    (Need.HOST_OPS,),
)
