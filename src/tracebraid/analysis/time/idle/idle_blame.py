"""Which op, annotation, module and Python line keeps the device waiting for the host?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.time.idle.cause_parts import CAUSES
from tracebraid.analysis.time.idle.codes import in_codes
from tracebraid.analysis.time.idle.idle_parts import CONTEXT, contexts_of_parts, idle_parts
from tracebraid.analysis.time.idle.launches import next_ops
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import IDLE_BLAME, IdleCause
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["idle_blame"]

_KEY = ["step", "device", "activity", *CONTEXT, "next_op"]
_LATE = CAUSES.index(IdleCause.HOST_LATE.value)


def idle_blame(linked: LinkedTrace, per_step: bool = False, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """The time in which the host was late by what it did, the most first: `model.answers.IDLE_BLAME`.

    Args:
        linked: one rank.
        per_step: rows for each step, instead of over all.
        annotation: what marks a step, see `steps`.
    """
    parts = idle_parts(linked, annotation, per_step)
    idle = parts.group_by("step", "device").agg(pl.col("dur_ns").sum().alias("all_ns"))
    contexts = contexts_of_parts(linked, annotation, per_step)
    next_op = next_ops(linked, annotation).gather(parts.get_column("row"))
    of_part = parts.select("step", "device", "cause", next_op)[contexts.get_column("index").to_numpy()]
    late = (
        pl.concat([contexts, of_part], how="horizontal")
        .filter(pl.col("cause") == _LATE)
        .with_columns(pl.when(pl.col("op").is_null()).then("next_op").alias("next_op"))
    )
    if late.is_empty():
        return IDLE_BLAME.empty()
    # Of one gap and step one part at most has this cause: parts count gaps.
    duration = pl.col("dur_ns")
    return (
        late.group_by(_KEY)
        .agg(duration.sum().alias("idle_ns"), pl.len().alias("count"), duration.max().alias("longest_ns"))
        .join(idle, on=["step", "device"], how="left", nulls_equal=True)
        .with_columns((pl.col("idle_ns") / pl.col("all_ns")).alias("share"), as_text(*CONTEXT, "next_op"))
        .sort("idle_ns", *_KEY, descending=[True, *(False for _ in _KEY)])
        .sort(pl.col("device").str.len_bytes(), "device", maintain_order=True)
        .with_columns(in_codes()[1])
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(IDLE_BLAME, frame, linked, annotation))
    )
