"""Which op, annotation, module and Python line keeps the device waiting for the host?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.time.idle.cause_parts import CAUSES
from tracebraid.analysis.time.idle.codes import in_codes
from tracebraid.analysis.time.idle.idle_parts import CONTEXT, contexts_of_parts, idle_parts
from tracebraid.analysis.time.idle.launches import next_ops
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.errors import ArgumentError
from tracebraid.model.answers import IDLE_BLAME, IdleCause
from tracebraid.model.expressions import as_text, by_number
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["idle_blame"]

_WHAT = ("host_activity", *CONTEXT, "next_op")
"""What the host did and was in."""

_LATE = CAUSES.index(IdleCause.HOST_LATE.value)


def idle_blame(
    linked: LinkedTrace, per_step: bool = False, by: str | None = None, annotation: str = PROFILER_STEP
) -> pl.DataFrame:
    """The time in which the host was late by what it did, the most first: `model.answers.IDLE_BLAME`.

    Args:
        linked: one rank.
        per_step: rows for each step, instead of over all.
        by: a single column to sum by, the others that say what the host did are null then: `host_activity`, `op`,
            `top_op`, `annotation`, `module`, `frame` or `next_op`; None: a row for each combination of them.
        annotation: what marks a step, see `steps`.

    Raises:
        ArgumentError: there is no such column to sum by.
    """
    if by is not None and by not in _WHAT:
        raise ArgumentError(f"idle_blame does not sum by {by!r}; it sums by {', '.join(_WHAT)}")
    late = linked.derived(_late, annotation, per_step)
    if late.is_empty():
        return IDLE_BLAME.empty()
    what = [by] if by is not None else [*_WHAT]
    key = ["step", "device", *what]
    # Of one gap and step one part at most has this cause: parts count gaps.
    duration, others = pl.col("dur_ns"), [name for name in _WHAT if name not in what]
    by_part = late.group_by(*key, "index").agg(duration.sum(), pl.col("all_ns").first())
    return (
        by_part.group_by(key)
        .agg(
            duration.sum().alias("idle_ns"),
            pl.len().alias("count"),
            duration.max().alias("longest_ns"),
            (duration.sum() / pl.col("all_ns").first()).alias("share"),
        )
        .with_columns(as_text(*what), *(pl.lit(None, dtype=pl.String).alias(name) for name in others))
        .sort("idle_ns", *key, descending=[True, *(False for _ in key)])
        .sort(*by_number("device"), maintain_order=True)
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(IDLE_BLAME, frame, linked, annotation))
    )


def _late(linked: LinkedTrace, annotation: str, per_step: bool) -> pl.DataFrame:
    """What the host did while it was late: `index` of the part, `_WHAT`, `dur_ns`, and `all_ns`, all idle time."""
    parts = idle_parts(linked, annotation, per_step)
    contexts = contexts_of_parts(linked, annotation, per_step)
    of_part = parts.select(
        "step",
        "device",
        "cause",
        next_ops(linked, annotation).gather(parts.get_column("row")),
        pl.col("dur_ns").sum().over("step", "device").alias("all_ns"),
    )[contexts.get_column("index").to_numpy()]
    return (
        pl.concat([contexts, of_part], how="horizontal")
        .filter(pl.col("cause") == _LATE)
        .with_columns(pl.when(pl.col("op").is_null()).then("next_op").alias("next_op"), in_codes()[1])
    )
