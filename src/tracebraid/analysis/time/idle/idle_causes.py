"""Why is the device idle?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.time.idle.codes import in_codes
from tracebraid.analysis.time.idle.idle_parts import contexts_of_parts, idle_parts
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import IDLE_CAUSES
from tracebraid.model.expressions import by_number
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["idle_causes"]

_KEY = ["step", "device", "cause", "activity", "size"]


def idle_causes(linked: LinkedTrace, per_step: bool = False, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """Idle time by cause and by what the host did meanwhile, the most first: `model.answers.IDLE_CAUSES`.

    Every nanosecond of the idle time of `breakdown` has one cause; the rules are those of `cause_parts`.

    Args:
        linked: one rank.
        per_step: rows for each step, instead of over all.
        annotation: what marks a step, see `steps`.
    """
    parts = idle_parts(linked, annotation, per_step)
    if parts.is_empty():
        return IDLE_CAUSES.empty()
    by_part = contexts_of_parts(linked, annotation, per_step).group_by(
        "index", "activity", maintain_order=True
    )
    found = by_part.agg(pl.col("dur_ns").sum())
    of_part = parts.select("step", "device", "cause", "size", "window", "row", "sync_call")
    duration = pl.col("dur_ns")
    return (
        pl.concat([found, of_part[found.get_column("index").to_numpy()]], how="horizontal")
        .group_by(_KEY, maintain_order=True)
        .agg(
            duration.sum().alias("idle_ns"),
            pl.struct("window", "row").n_unique().alias("count"),
            duration.filter(pl.col("sync_call").is_not_null()).sum().alias("after_sync_ns"),
        )
        .with_columns((pl.col("idle_ns") / pl.col("idle_ns").sum().over("step", "device")).alias("share"))
        .sort("idle_ns", "cause", "activity", "size", descending=[True, False, False, False])
        .sort(*by_number("device"), maintain_order=True)
        .with_columns(in_codes())
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(IDLE_CAUSES, frame, linked, annotation))
    )
