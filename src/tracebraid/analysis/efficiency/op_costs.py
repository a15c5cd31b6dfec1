"""How much do ops compute and move, at what rate, and what limits them?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.efficiency.calls import has_shapes
from tracebraid.analysis.efficiency.costs_by_shape import Peaks, costs_by_shape
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import OP_COSTS
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["op_costs"]

_NS = 1e9
_ORDER = ["name", "input_dims", "input_types", "is_recompute", "precision", "family"]


def op_costs(
    linked: LinkedTrace,
    per_step: bool = False,
    annotation: str = PROFILER_STEP,
    peak_flops: float | None = None,
    peak_bandwidth: float | None = None,
) -> pl.DataFrame:
    """FLOPs, bytes, time and rates of ops by name, shapes and types: `model.answers.OP_COSTS`.

    No FLOP, launch or ns counts twice: see `counted_ops`. The rows' device time adds up to that of all work that an op
    or annotation launched; without device work in the trace, to the host self time of all ops. Rates are per second
    and not rounded; a GB is 10**9 bytes. Empty where neither trace has shapes: no cost of an op is known then.

    Args:
        linked: one rank.
        per_step: rows for each step in which the ops started, instead of over all.
        annotation: what marks a step, see `steps`.
        peak_flops: of the device, for each precision, in FLOP/s; None: as `model.device_peaks` has them.
        peak_bandwidth: of the device's memory, in bytes/s; None: as `model.device_peaks` has it.
    """
    if not has_shapes(linked):
        return OP_COSTS.empty()
    found = costs_by_shape(linked, per_step, annotation, Peaks(peak_flops, peak_bandwidth))
    time, flops, size = pl.col("device_ns"), pl.col("flops"), pl.col("bytes")
    rates = found.with_columns(
        pl.when(time > 0).then(flops / time * _NS).alias("achieved_flops_per_s"),
        pl.when(time > 0).then(size / time * _NS).alias("achieved_bytes_per_s"),
        pl.when(size > 0).then(flops / size).alias("flops_per_byte"),
    )
    return (
        rates.sort("device_ns", *_ORDER, descending=[True, *[False] * len(_ORDER)])
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(OP_COSTS, frame, linked, annotation))
    )
