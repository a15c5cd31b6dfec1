"""Launches by op and API, the most host time first."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import StepOptions, answer, by_step
from tracebraid.analysis.launches.launched_work import STREAM, launched_work
from tracebraid.analysis.statistics import max_of, spread
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.analysis import Family, Need, OnPage, Rows, Stored, analysis
from tracebraid.model.answers import DOUBTFUL, RANK, STEP_OF_LAUNCH
from tracebraid.model.answers.launches import STEP_OF_EVENT
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.linked_trace import LinkedTrace

_API = Column("api", Kind.TEXT, "the call's name; any that has device work, by its effect")

LAUNCH_EVENTS = Table(
    "launch_events",
    "One row per launch, in the order of their starts: a call of any API that has device work.",
    (
        RANK,
        STEP_OF_EVENT,
        Column("call_event", Kind.INT, "the call: its row in `events`"),
        Column("correlation", Kind.INT, "joins the call to its device events; null: none in the trace"),
        _API,
        Column("op_event", Kind.INT, "innermost op or annotation that encloses the call; null: none"),
        Column("op", Kind.TEXT, "its name"),
        Column("start_ns", Kind.INT, "start of the call"),
        Column("host_ns", Kind.INT, "duration of the call"),
        Column("after_start_ns", Kind.INT, "from the call's start to the start of its first device event"),
        Column(
            "after_end_ns",
            Kind.INT,
            "from the call's end to the start of its first device event; below 0: it started during the call",
        ),
        Column("delay_ns", Kind.INT, "`after_end_ns`, but not below 0"),
        Column(
            "stream_idle_ns",
            Kind.INT,
            "how long the stream of the first device event had stood idle then; null: nothing ran on it before",
        ),
        Column("kernels", Kind.INT, "device events that it launched"),
        Column("device_ns", Kind.INT, "sum of their durations"),
        Column("device_span_ns", Kind.INT, "from the start of the first to the end of the last of them"),
        Column("device", Kind.TEXT, "device of the first of them"),
        Column("stream", Kind.TEXT, "stream of the first of them"),
        Column("streams", Kind.INT, "number of streams that they ran on"),
        DOUBTFUL,
    ),
)


@analysis(
    LAUNCH_EVENTS,
    Family.LAUNCHES,
    needs=(Need.DEVICE_WORK, Need.LAUNCHES),
    uses=(Need.HOST_OPS,),
    shown="start_ns op api host_ns delay_ns device_ns kernels stream stream_idle_ns",
    picked_by=("host_ns",),
    when_empty="no call in the trace is known to launch work",
)
def launch_events(linked: LinkedTrace) -> pl.DataFrame:
    """What did each launch cost, and when did its work start?

    Every call that has device work, of any API, in the order of their starts.

    Delay is max(0, start of the first device event - end of the call), as HTA's `launch_delay`; the same without the
    clipping, and from the start of the call, stand beside it. Delay holds the time that the work waits in the queue
    of its stream: where `stream_idle_ns` is 0, the stream was busy until the work started.

    Args:
        linked: one rank.
    """
    return linked.derived(_launch_events)


def _launch_events(linked: LinkedTrace) -> pl.DataFrame:
    work = launched_work(linked).filter(pl.col("call_event").is_not_null())
    if work.is_empty():
        return LAUNCH_EVENTS.empty()
    calls = linked.timeline.host_calls.select(pl.col("event_id").alias("call_event"), "correlation")
    first = pl.col("ts_ns").first()
    after_end = first - pl.col("returned_ns").first()
    found = (
        work.sort("called_ns", "call_event", "ts_ns", "event_id")
        .group_by("call_event", maintain_order=True)
        .agg(
            pl.col("step", "api", "op_event", "op", *STREAM).first(),
            pl.col("called_ns").first().alias("start_ns"),
            (pl.col("returned_ns") - pl.col("called_ns")).first().alias("host_ns"),
            (first - pl.col("called_ns").first()).alias("after_start_ns"),
            after_end.alias("after_end_ns"),
            pl.max_horizontal(after_end, 0).alias("delay_ns"),
            pl.max_horizontal(first - pl.col("busy_until_ns").first(), 0).alias("stream_idle_ns"),
            pl.col("busy_until_ns").first(),
            pl.len().alias("kernels"),
            pl.col("dur_ns").sum().alias("device_ns"),
            (pl.col("end_ns").max() - first).alias("device_span_ns"),
            pl.struct(STREAM).n_unique().alias("streams"),
        )
        .with_columns(pl.when(pl.col("busy_until_ns").is_not_null()).then("stream_idle_ns"))
        .join(calls.unique("call_event"), on="call_event", how="left", maintain_order="left")
    )
    return answer(LAUNCH_EVENTS, found, linked)


_OP = Column("op", Kind.TEXT, "innermost op or annotation that encloses the call; null: none")


def _spread(prefix: str, what: str) -> tuple[Column, ...]:
    """Columns of a distribution of times."""
    left_out = "; null: only launches of doubtful steps"
    return (
        Column(f"{prefix}_ns", Kind.INT, f"{what}, sum of all"),
        Column(f"{prefix}_mean_ns", Kind.FLOAT, f"{what}, mean{left_out}"),
        Column(f"{prefix}_median_ns", Kind.FLOAT, f"{what}, median{left_out}"),
        Column(f"{prefix}_p95_ns", Kind.FLOAT, f"{what}, 95th percentile{left_out}"),
        Column(f"{prefix}_max_ns", Kind.INT, f"{what}, longest of all"),
    )


LAUNCHES = Table(
    "launches",
    "One row per op and API, most host time first: host time of its launches, and their device work.",
    (
        RANK,
        STEP_OF_LAUNCH,
        _OP,
        _API,
        Column("count", Kind.INT, "launches"),
        Column("kernels", Kind.INT, "device events of these"),
        *_spread("host", "duration of the call"),
        *_spread("delay", "from the call's end to its first device event, at least 0"),
        *_spread("device", "duration of the launch's device events"),
        Column("short", Kind.INT, "launches whose device events last less than their call"),
        DOUBTFUL,
    ),
)


@analysis(
    LAUNCHES,
    Family.LAUNCHES,
    needs=(Need.DEVICE_WORK, Need.LAUNCHES),
    uses=(Need.HOST_OPS,),
    shown=(
        "op api count host_ns host_mean_ns delay_mean_ns device_mean_ns device_ns short kernels host_max_ns"
    ),
    when_empty="no call in the trace is known to launch work",
    formula=(
        "host: duration of the launching call. delay: from its end to the start of its first work, 0 "
        "where that starts earlier (HTA's launch delay); it holds the time in the queue. short: launches "
        "whose work takes less time than the call."
    ),
    on_page=OnPage(Rows.TABLE_ROWS, by=("host_ns",)),
    stored=Stored.OF_FEW_EVENTS,
)
def launches(linked: LinkedTrace, per_step: bool = False, with_doubtful: bool = False) -> pl.DataFrame:
    """Which launches cost the host the most time?

    Launches by op and API, the most host time first.

    Args:
        linked: one rank.
        per_step: a row for each step in which the calls were made, instead of one over all.
        with_doubtful: whether means over all steps include doubtful steps.
    """
    events = launch_events(linked)
    if events.is_empty():
        return LAUNCHES.empty()
    return (
        by_step(events, linked, StepOptions(per_step, with_doubtful))
        .group_by("step", "op", "api")
        .agg(
            pl.len().alias("count"),
            pl.col("kernels").sum(),
            *(expression for prefix in ("host", "delay", "device") for expression in _times(prefix)),
            (pl.col("device_ns") < pl.col("host_ns")).sum().alias("short"),
        )
        .sort("host_ns", "op", "api", descending=[True, False, False])
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(LAUNCHES, frame, linked))
    )


def _times(prefix: str) -> list[pl.Expr]:
    """Sum, spread and greatest of a column of times."""
    time = pl.col(f"{prefix}_ns")
    return [time.sum(), *spread(f"{prefix}_ns", prefix), max_of(time, f"{prefix}_max_ns")]
