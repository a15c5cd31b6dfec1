"""Which ops lose the most time against what the device could do?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.efficiency.costs_by_shape import Peaks, costs_by_shape
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import ROOFLINE
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["roofline"]

_ORDER = ["name", "input_dims", "input_types", "is_recompute", "precision", "family"]


def roofline(
    linked: LinkedTrace,
    per_step: bool = False,
    annotation: str = PROFILER_STEP,
    peak_flops: float | None = None,
    peak_bandwidth: float | None = None,
) -> pl.DataFrame:
    """Time of ops beyond the least that the device needs for them, the most first: `model.answers.ROOFLINE`.

    The least time is max(FLOPs / peak FLOP/s, bytes / peak bandwidth) (Williams, Waterman, Patterson: "Roofline", CACM
    2009). Only rows whose least time is known are there: not collectives, copies from and to the host, and ops that no
    rule counts. Empty where the device is not in `model.device_peaks` and no bandwidth is given.

    Args:
        linked: one rank.
        per_step: rows for each step in which the ops started, instead of over all.
        annotation: what marks a step, see `steps`.
        peak_flops: of the device, for each precision, in FLOP/s; None: as `model.device_peaks` has them.
        peak_bandwidth: of the device's memory, in bytes/s; None: as `model.device_peaks` has it.
    """
    costs = costs_by_shape(linked, per_step, annotation, Peaks(peak_flops, peak_bandwidth))
    time, least, lost = pl.col("device_ns"), pl.col("least_ns"), pl.col("lost_ns")
    found = costs.filter(least.is_not_null() & (time > 0)).with_columns(
        least.alias("roofline_ns"),
        (least / time).alias("roofline_share"),
        (time - least).alias("lost_ns"),
    )
    all_lost = lost.clip(lower_bound=0).sum().over("step")
    share = pl.when(all_lost > 0).then(lost.clip(lower_bound=0) / all_lost)
    return (
        found.with_columns(share.alias("lost_share"))
        .sort("lost_ns", *_ORDER, descending=[True, *[False] * len(_ORDER)])
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(ROOFLINE, frame, linked, annotation))
    )
