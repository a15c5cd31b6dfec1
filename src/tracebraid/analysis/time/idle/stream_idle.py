"""The gaps between consecutive work of each stream, by what it waited for."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import NO_STEP, answer
from tracebraid.analysis.device import device_events_by_step, gaps_of, stream_names
from tracebraid.analysis.statistics import max_of, mean_of, min_of, quartiles_of, std_of
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.analysis import Family, Need, OnPage, Stored, analysis
from tracebraid.model.answers import DOUBTFUL, RANK, STEP
from tracebraid.model.answers.time import StreamGap
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.expressions import by_number
from tracebraid.model.linked_trace import LinkedTrace

KERNEL_WAIT_NS = 30_000
"""A shorter gap before work that was queued in time is what a stream takes from one kernel to the next: HTA's
`consecutive_kernel_delay`, 30 µs."""

_KEY = ["step", "device", "stream", "category"]


STREAM_IDLE = Table(
    "stream_idle",
    "One row per stream and kind of gap between consecutive work on it.",
    (
        RANK,
        STEP,
        Column("device", Kind.TEXT, "device number"),
        Column("stream", Kind.TEXT, "the stream"),
        Column("category", Kind.TEXT, "a code of `StreamGap`"),
        Column("idle_ns", Kind.INT, "sum of the gaps"),
        Column("share", Kind.FLOAT, "of all gaps of the stream, 0 to 1; null: they have no length"),
        Column("count", Kind.INT, "gaps, those without length too"),
        Column("mean_ns", Kind.FLOAT, "their mean"),
        Column("std_ns", Kind.FLOAT, "their standard deviation (n - 1); null for a single gap"),
        Column("min_ns", Kind.INT, "the shortest"),
        Column("p25_ns", Kind.FLOAT, "a quarter are no longer, interpolated"),
        Column("p50_ns", Kind.FLOAT, "half are no longer, interpolated"),
        Column("p75_ns", Kind.FLOAT, "three quarters are no longer, interpolated"),
        Column("max_ns", Kind.INT, "the longest"),
        DOUBTFUL,
    ),
)


@analysis(
    STREAM_IDLE,
    Family.TIME,
    needs=(Need.DEVICE_WORK,),
    uses=(Need.LAUNCHES, Need.STEPS),
    shown="stream category idle_ns share count mean_ns p50_ns max_ns std_ns",
    when_empty="no stream has two pieces of work, and so none has a gap",
    formula=(
        "The gap before each work of a stream: the host is waited for where the launching call began "
        "after all earlier work had ended; else the next kernel where the gap is below 30 µs (HTA's "
        "threshold)."
    ),
    on_page=OnPage(),
    stored=Stored.ALWAYS,
)
def stream_idle(linked: LinkedTrace, per_step: bool = False) -> pl.DataFrame:
    """How long does each stream wait between its kernels?

    The gaps between consecutive work of each stream, by what it waited for.

    A gap is `host_wait` if the call that launched the next work began after all earlier work of the stream had ended;
    else `kernel_wait` if it is shorter than `KERNEL_WAIT_NS`; else `other`. It is what HTA's
    `get_idle_time_breakdown` answers. A stream may be idle while others are busy: `idle_causes` is about the device.

    Args:
        linked: one rank.
        per_step: rows for each step in which the next work was launched, instead of over all.
    """
    events = device_events_by_step(linked)
    gaps = gaps_by_category(linked, events if per_step else events.with_columns(NO_STEP))
    if gaps.is_empty():
        return STREAM_IDLE.empty()
    length, total = pl.col("gap_ns"), pl.col("idle_ns").sum().over("step", "device", "stream")
    return (
        gaps.group_by(_KEY)
        .agg(
            length.sum().alias("idle_ns"),
            pl.len().alias("count"),
            mean_of(length),
            std_of(length),
            min_of(length),
            *quartiles_of(length),
            max_of(length),
        )
        .with_columns(pl.when(total > 0).then(pl.col("idle_ns") / total).alias("share"))
        .sort(
            *by_number("device", "stream"),
            pl.col("category").cast(pl.Enum([gap.value for gap in StreamGap])),
        )
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(STREAM_IDLE, frame, linked))
    )


def gaps_by_category(linked: LinkedTrace, events: pl.DataFrame) -> pl.DataFrame:
    """The gap before each event but the first of a stream, with `stream`, `gap_ns` and `category` (`StreamGap`)."""
    calls = linked.timeline.events.get_column("ts_ns")
    gaps = gaps_of(events).filter(pl.col("gap_before_ns").is_not_null())
    category = (
        pl.when(calls.gather(gaps.get_column("call_event")) > pl.col("busy_until_ns"))
        .then(pl.lit(StreamGap.HOST_WAIT.value))
        .when(pl.col("gap_before_ns") < KERNEL_WAIT_NS)
        .then(pl.lit(StreamGap.KERNEL_WAIT.value))
        .otherwise(pl.lit(StreamGap.OTHER.value))
    )
    return gaps.with_columns(
        stream_names(linked).gather(gaps.get_column("lane")), category.alias("category")
    ).rename({"gap_before_ns": "gap_ns"})
