"""Which ops take the most time, on the device and on the host, and with which shapes, from which line or module?"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.host.host_trees import host_ops
from tracebraid.analysis.ops.op_keys import KEY_COLUMNS, op_keys, with_keys
from tracebraid.analysis.ops.op_times import op_times
from tracebraid.analysis.statistics import extremes, spread
from tracebraid.analysis.step_rows import StepOptions, by_start
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import OPS, OpKey
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["ops"]


def ops(
    linked: LinkedTrace,
    per_step: bool = False,
    annotation: str = PROFILER_STEP,
    by: str | Iterable[str] = (OpKey.NAME.value, OpKey.SHAPES.value),
    with_doubtful: bool = False,
) -> pl.DataFrame:
    """Host ops by name and input shapes, or by other keys, the most device time first: `model.answers.OPS`.

    Host self time is the op's time less that of the ops directly inside it; runtime calls inside it are its
    own. Device self time is the duration of what the op launched itself; the total adds what ops inside it
    launched. Durations are summed: work on two streams at once counts twice. An op inside another of its row (by
    name and shapes: recursion) counts in no total again, and not in the means and percentiles of totals.

    Args:
        linked: one rank.
        per_step: a row for each step in which the ops started, instead of one over all.
        annotation: what marks a step, see `steps`.
        by: what makes two ops one row: names of `OpKey`, as a sequence or joined by commas. Columns of what is not
            grouped by are null.
        with_doubtful: what lies in doubtful steps counts in means and percentiles, too.

    Raises:
        ArgumentError: there is no key of that name.
    """
    keys = op_keys(by)
    found, columns = with_keys(linked, op_times(linked), keys, annotation)
    if found.is_empty():
        return OPS.empty()
    found = by_start(found, linked, StepOptions(annotation, per_step, with_doubtful))
    found = found.with_columns(_totals(linked, found, columns))
    return (
        found.group_by("step", *KEY_COLUMNS)
        .agg(
            pl.len().alias("count"),
            pl.col("op_exclusive_ns").sum().alias("host_self_ns"),
            pl.col("host_ns").sum().alias("host_total_ns"),
            *spread("host_ns", "host"),
            *extremes("host_ns", "host"),
            pl.col("kernels").sum(),
            pl.col("device_self_ns").sum(),
            pl.col("device_ns").sum().alias("device_total_ns"),
            *spread("device_ns", "device"),
            *extremes("device_ns", "device"),
        )
        .sort("device_self_ns", "host_self_ns", *KEY_COLUMNS, descending=[True, True] + [False] * 9)
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(OPS, frame, linked, annotation))
    )


def _totals(linked: LinkedTrace, found: pl.DataFrame, columns: list[str]) -> list[pl.Expr]:
    """Total times on the host and the device, null where an op is inside another that makes one row with it."""
    if columns:
        number = found.select(pl.struct(columns).rank("dense").cast(pl.Int64)).to_series().to_numpy()
    else:
        number = np.zeros(found.height, dtype=np.int64)
    outermost = pl.Series(host_ops(linked).outermost(found.get_column("row").to_numpy(), number))
    return [
        pl.when(outermost).then("inclusive_ns").alias("host_ns"),
        pl.when(outermost).then("device_total_ns").alias("device_ns"),
    ]
