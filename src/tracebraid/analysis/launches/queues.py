"""The queues between host and device."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import NO_STEP, StepOptions, answer, by_step
from tracebraid.analysis.launches.launched_work import STREAM, launched_work
from tracebraid.analysis.statistics import max_of, mean_of, min_of, quartiles_of, std_of
from tracebraid.analysis.time.step_windows import in_order_of_steps, step_windows
from tracebraid.model.analysis import Family, Need, OnPage, Rows, Stored, analysis
from tracebraid.model.answers import DOUBTFUL, RANK, STEP_OF_LAUNCH
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.expressions import by_number
from tracebraid.model.linked_trace import LinkedTrace


def queue_changes_of(linked: LinkedTrace) -> pl.DataFrame:
    """`queue_changes` of a rank's device events."""
    return linked.derived(_queue_changes_of)


def _queue_changes_of(linked: LinkedTrace) -> pl.DataFrame:
    return queue_changes(launched_work(linked))


def queue_changes(work: pl.DataFrame) -> pl.DataFrame:
    """The changes of each stream's queue, by stream and time.

    Columns: device, stream, step, ts_ns, length, launches, call_event.

    A device event joins the queue of its stream when the call that launches it starts, and leaves it when it starts
    itself (HTA's definition); all events of a graph join at once. `length` counts device events, `launches` the
    calls of which some event on the stream has not started. At one moment, events join before others leave. An event
    that starts before its call, by an error of clocks, joins when it starts. `call_event` is null if an event
    leaves. Events without a call in the trace are left out.
    """
    known = work.filter(pl.col("call_event").is_not_null())
    of_call = [*STREAM, "call_event"]
    joins = known.select(
        *STREAM,
        "step",
        "event_id",
        "call_event",
        pl.min_horizontal("called_ns", "ts_ns").alias("ts_ns"),
        pl.lit(1, dtype=pl.Int64).alias("change"),
        pl.struct(of_call).is_first_distinct().cast(pl.Int64).alias("change_of_launches"),
    )
    # Rows of a stream stand in the order of their starts: the last of a call is the last to start.
    leaves = known.select(
        *STREAM,
        "step",
        "event_id",
        pl.lit(None, dtype=pl.Int64).alias("call_event"),
        "ts_ns",
        pl.lit(-1, dtype=pl.Int64).alias("change"),
        (-pl.struct(of_call).is_last_distinct().cast(pl.Int64)).alias("change_of_launches"),
    )
    return (
        pl.concat([joins, leaves])
        .sort(*STREAM, "ts_ns", "change", "event_id", descending=[False, False, False, True, False])
        .with_columns(
            pl.col("change").cum_sum().over(STREAM).alias("length"),
            pl.col("change_of_launches").cum_sum().over(STREAM).alias("launches"),
        )
        .select(*STREAM, "step", "ts_ns", "length", "launches", "call_event")
    )


MAX_QUEUE_LENGTH = 1024
"""Launches that a CUDA stream takes before the next launch blocks; HTA's default too."""

NEARLY_FULL = 0.95
"""Share of the maximum from which a queue is nearly full: drivers keep some entries for themselves."""

SLOW = 4.0
"""Minimum multiple of its API's median duration for a launch to count as blocked."""


_DEVICE = Column("device", Kind.TEXT, "device")

_STREAM = Column("stream", Kind.TEXT, "stream")

FULL_QUEUE = Table(
    "full_queue",
    "One row per stream with launches: the time that its queue was full, and the time that calls lost.",
    (
        RANK,
        STEP_OF_LAUNCH,
        _DEVICE,
        _STREAM,
        Column("longest", Kind.INT, "most launches that waited at a time"),
        Column("full_ns", Kind.INT, "time in which at least `max_queue_length` launches waited"),
        Column(
            "share",
            Kind.FLOAT,
            "of the span of the trace or step, null if that has no length; above 1: launches waited beyond the step",
        ),
        Column("launches", Kind.INT, "launches that began while the queue was nearly full"),
        Column(
            "blocked", Kind.INT, "those of them that were slow, and returned after other work had started"
        ),
        Column("blocked_ns", Kind.INT, "time that these took beyond the usual duration of their API"),
        DOUBTFUL,
    ),
)


@analysis(
    FULL_QUEUE,
    Family.LAUNCHES,
    needs=(Need.DEVICE_WORK, Need.LAUNCHES),
    shown="stream longest full_ns! share launches blocked blocked_ns!",
    when_empty="no call in the trace is known to launch work",
    formula=(
        "full: the time in which at least 1,024 launches wait (CUDA's limit). blocked: what launches took"
        " beyond the median of their call while the queue was full."
    ),
    on_page=OnPage(),
    stored=Stored.OF_FEW_EVENTS,
)
def full_queue(
    linked: LinkedTrace, per_step: bool = False, max_queue_length: int = MAX_QUEUE_LENGTH
) -> pl.DataFrame:
    """How long did a full queue block launches?

    Time at which each stream's queue was full, by device and stream.

    `full_ns` is HTA's `duration_at_max_queue_length`, with launches of graphs counted once. A launch is blocked if
    the
    queue was nearly full (95 % of that) when it began, it took four times the median of its API elsewhere, and work
    of the stream started before it returned: that made room for it.

    Args:
        linked: one rank.
        per_step: a row for each step in which the work was launched, instead of one over all.
        max_queue_length: launches that wait on a full stream.
    """
    changes = queue_changes_of(linked)
    if changes.is_empty():
        return FULL_QUEUE.empty()
    began = _began_nearly_full(linked, changes, max_queue_length)
    if not per_step:
        changes, began = changes.with_columns(NO_STEP), began.with_columns(NO_STEP)
    found = _summed(changes, began, max_queue_length).join(
        _spans(linked), on="step", how="left", nulls_equal=True, maintain_order="left"
    )
    share = pl.when(pl.col("span_ns") > 0).then(pl.col("full_ns") / pl.col("span_ns"))
    found = found.with_columns(share.alias("share"))
    return answer(FULL_QUEUE, in_order_of_steps(found, linked), linked)


def _summed(changes: pl.DataFrame, began: pl.DataFrame, max_queue_length: int) -> pl.DataFrame:
    """A row for each step and stream: longest, full_ns, launches, blocked, blocked_ns."""
    key = ["step", *STREAM]
    lasted = (pl.col("ts_ns").shift(-1).over(STREAM) - pl.col("ts_ns")).fill_null(0)
    full = pl.col("launches") >= max_queue_length
    blocked = began.group_by(key).agg(
        pl.len().alias("launches"), pl.col("is_blocked").sum().alias("blocked"), pl.col("blocked_ns").sum()
    )
    return (
        changes.with_columns(pl.when(full).then(lasted).otherwise(0).alias("full_ns"))
        .group_by(key)
        .agg(pl.col("launches").max().alias("longest"), pl.col("full_ns").sum())
        .join(blocked, on=key, how="left", nulls_equal=True)
        .with_columns(pl.col("launches", "blocked", "blocked_ns").fill_null(0))
        .sort(*by_number(*STREAM))
    )


def _began_nearly_full(linked: LinkedTrace, changes: pl.DataFrame, max_queue_length: int) -> pl.DataFrame:
    """The launches that began while the queue was nearly full: step, device, stream, is_blocked, blocked_ns."""
    work = launched_work(linked)
    nearly_full = pl.col("launches") - 1 >= NEARLY_FULL * max_queue_length
    calls = (
        work.filter(pl.col("call_event").is_not_null())
        .select(
            "call_event",
            "api",
            "called_ns",
            "returned_ns",
            (pl.col("returned_ns") - pl.col("called_ns")).alias("host_ns"),
        )
        .unique("call_event", maintain_order=True)
    )
    began = changes.filter(pl.col("call_event").is_not_null() & nearly_full)
    began = began.select("step", *STREAM, "call_event").unique([*STREAM, "call_event"], maintain_order=True)
    usual = (
        calls.join(began, on="call_event", how="anti")
        .group_by("api")
        .agg(pl.col("host_ns").median().alias("usual_ns"))
    )
    starts = work.select(*STREAM, pl.col("ts_ns").alias("started_ns")).sort("started_ns")
    slow = (pl.col("host_ns") >= SLOW * pl.col("usual_ns")) & (pl.col("started_ns") > pl.col("called_ns"))
    return (
        began.join(calls, on="call_event")
        .join(usual, on="api", how="left")
        .sort("returned_ns", "call_event")
        .join_asof(
            starts,
            left_on="returned_ns",
            right_on="started_ns",
            by=STREAM,
            check_sortedness=False,
            coalesce=False,
        )
        .with_columns(slow.fill_null(False).alias("is_blocked"))
        .with_columns(
            pl.when("is_blocked")
            .then(pl.col("host_ns") - pl.col("usual_ns").cast(pl.Int64))
            .otherwise(0)
            .alias("blocked_ns")
        )
    )


def _spans(linked: LinkedTrace) -> pl.DataFrame:
    """Return the length of each step, and of the trace with a null step."""
    spans = (
        step_windows(linked)
        .group_by("step", maintain_order=True)
        .agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("span_ns"))
    )
    start, end = linked.timeline.span_ns or (0, 0)
    whole = pl.DataFrame(
        {"step": [None], "span_ns": [end - start]}, schema={"step": pl.String, "span_ns": pl.Int64}
    )
    return pl.concat([whole, spans])


_AT_CHANGES = "over the moments at which the length changes"

QUEUE_LENGTHS = Table(
    "queue_lengths",
    "One row per stream: how many device events were launched and had not started.",
    (
        RANK,
        STEP_OF_LAUNCH,
        _DEVICE,
        _STREAM,
        Column("count", Kind.INT, "changes of the length: two for each device event whose call is known"),
        Column("mean", Kind.FLOAT, f"mean length {_AT_CHANGES}"),
        Column("std", Kind.FLOAT, "standard deviation of these, of a sample; null for a single change"),
        Column("min", Kind.INT, "shortest of all"),
        Column("p25", Kind.FLOAT, f"lower quartile {_AT_CHANGES}"),
        Column("p50", Kind.FLOAT, f"median {_AT_CHANGES}"),
        Column("p75", Kind.FLOAT, f"upper quartile {_AT_CHANGES}"),
        Column("max", Kind.INT, "longest of all"),
        Column(
            "mean_over_time",
            Kind.FLOAT,
            "mean weighted by how long each length lasted; null: all changes at one moment",
        ),
        DOUBTFUL,
    ),
)


@analysis(
    QUEUE_LENGTHS,
    Family.LAUNCHES,
    needs=(Need.DEVICE_WORK, Need.LAUNCHES),
    shown="stream count mean mean_over_time p50 max p25 p75 min std",
    when_empty="no call in the trace is known to launch work",
    formula=(
        "A device event is in its stream's queue from the start of its call to its own start, as HTA "
        "defines it. Means over the changes, and weighted by time."
    ),
    on_page=OnPage(),
    stored=Stored.OF_FEW_EVENTS,
)
def queue_lengths(linked: LinkedTrace, per_step: bool = False, with_doubtful: bool = False) -> pl.DataFrame:
    """How long are the launch queues, stream by stream?

    Statistics of each stream's queue, by device and stream.

    A device event joins the queue of its stream when its call starts and leaves it when it starts itself. The
    statistics are HTA's (`get_queue_length_summary`), over the lengths after each change; `mean_over_time` weights
    them by time. A queue near 0 means that the device waits for the host.

    Args:
        linked: one rank.
        per_step: a row for each step in which the work was launched, instead of one over all.
        with_doubtful: whether means and quartiles over all steps include doubtful steps.
    """
    changes = queue_changes_of(linked)
    if changes.is_empty():
        return QUEUE_LENGTHS.empty()
    lasting = changes.with_columns(
        (pl.col("ts_ns").shift(-1).over(STREAM) - pl.col("ts_ns")).fill_null(0).alias("lasted_ns")
    )
    rows = by_step(lasting, linked, StepOptions(per_step, with_doubtful))
    found = in_order_of_steps(summary_of_queues(rows), linked)
    return answer(QUEUE_LENGTHS, found, linked)


def summary_of_queues(changes: pl.DataFrame) -> pl.DataFrame:
    """Statistics of changes with the columns `length`, `lasted_ns`, `step` and `in_means`; by device and stream."""
    length = pl.col("length").filter("in_means")
    lasted = pl.col("lasted_ns").filter("in_means")
    return (
        changes.group_by("step", *STREAM)
        .agg(
            pl.len().alias("count"),
            mean_of(length, "mean"),
            std_of(length, "std"),
            min_of(pl.col("length"), "min"),
            *quartiles_of(length, ""),
            max_of(pl.col("length"), "max"),
            (length * lasted).sum().alias("weighted"),
            lasted.sum().alias("lasted_ns"),
        )
        .with_columns(
            pl.when(pl.col("lasted_ns") > 0)
            .then(pl.col("weighted") / pl.col("lasted_ns"))
            .alias("mean_over_time")
        )
        .sort(*by_number(*STREAM))
    )


QUEUE_SERIES = Table(
    "queue_series",
    "One row per change of a stream's queue, by stream and time; the length holds until the next row of the stream.",
    (
        RANK,
        Column("step", Kind.TEXT, "the step of the launch whose work is queued or starts; null: in none"),
        _DEVICE,
        _STREAM,
        Column("ts_ns", Kind.INT, "the moment"),
        Column("length", Kind.INT, "device events that were launched and have not started, from then on"),
        Column("launches", Kind.INT, "calls with a device event on the stream that has not started"),
        DOUBTFUL,
    ),
)


@analysis(
    QUEUE_SERIES,
    Family.LAUNCHES,
    needs=(Need.DEVICE_WORK, Need.LAUNCHES),
    shown="stream ts_ns length launches",
    when_empty="no call in the trace is known to launch work",
    formula=(
        "A device event is in its stream's queue from the start of its call to its own start, as HTA "
        "defines it."
    ),
    on_page=OnPage(Rows.SERIES_ROWS, by=("length",), is_series=True),
)
def queue_series(linked: LinkedTrace) -> pl.DataFrame:
    """How does the queue of each stream change over time?

    The length of each stream's queue from each moment at which it changes.

    What joins and leaves a queue is HTA's: see `queue_lengths`. Of changes at one moment the last row holds.

    Args:
        linked: one rank.
    """
    changes = queue_changes_of(linked)
    return answer(QUEUE_SERIES, changes.sort(*by_number(*STREAM), maintain_order=True), linked)
