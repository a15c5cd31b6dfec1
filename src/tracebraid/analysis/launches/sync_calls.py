"""Every call that synchronises or may do so, in the order of their starts."""

from __future__ import annotations

from enum import Enum

import numpy as np
import polars as pl

from tracebraid.analysis.answering import StepOptions, answer, by_step
from tracebraid.analysis.launches.launch_bound import with_callers
from tracebraid.analysis.launches.launched_work import STREAM, launched_work, with_steps
from tracebraid.analysis.launches.synchronising import synchronising_calls
from tracebraid.analysis.statistics import max_of, mean_of
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.analysis import Family, Need, OnPage, Rows, Stored, analysis
from tracebraid.model.answers import DOUBTFUL, RANK, STEP
from tracebraid.model.answers.launches import STEP_OF_EVENT, SyncKind
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.quantities import NS_PER_US


class WaitMethod(Enum):
    """Method by which the work that a call waited for is known."""

    RECORDED = "recorded"
    LAUNCHED = "launched"
    EFFECT = "effect"
    INFERRED = "inferred"


_CONFIDENCE = {
    WaitMethod.LAUNCHED.value: 1.0,
    WaitMethod.RECORDED.value: 1.0,
    WaitMethod.EFFECT.value: 0.8,
    WaitMethod.INFERRED.value: 0.5,
}
_OF_DEPENDENCIES = [SyncKind.DEVICE.value, SyncKind.STREAM.value, SyncKind.EVENT.value]
_STREAM_WAITS = "Stream Wait Event"
"""The only `cuda_sync` that makes a stream wait and not the host."""

RETURN_NS = 20 * NS_PER_US
"""Maximum delay of a call's return after its work, without other evidence: traces have 1 to 16 µs."""

_ROUNDING_NS = NS_PER_US
"""Maximum apparent end of work after the waiting call, in traces in µs."""

_WAIT_SCHEMA = {
    "call_event": pl.Int64(),
    "waited_event": pl.Int64(),
    "until_ns": pl.Int64(),
    "method": pl.String(),
}


def waits(linked: LinkedTrace, calls: pl.DataFrame) -> pl.DataFrame:
    """One row per call of which that is known: call_event, waited_event, blocked_ns, method, confidence.

    Where all that a call waited for by the evidence had ended before it began, it may have waited for work of another
    stream, through an event: that is inferred if the call returned within `RETURN_NS` of it.
    """
    work = launched_work(linked)
    bounds = calls.select("call_event", "start_ns", "end_ns")
    own = _own_copies(calls, work)
    known = pl.concat([own, _by_dependencies(linked, calls.join(own, on="call_event", how="anti"), work)])
    waited = known.join(bounds, on="call_event").filter(pl.col("until_ns") > pl.col("start_ns"))
    rest = calls.filter(pl.col("kind") != SyncKind.QUERY.value).join(waited, on="call_event", how="anti")
    inferred = _last_to_end(rest, work)
    returned_at_once = pl.col("end_ns") - pl.col("until_ns") <= RETURN_NS
    credible = inferred.join(bounds, on="call_event").filter(
        returned_at_once | ~pl.col("call_event").is_in(known.get_column("call_event").implode())
    )
    inferred = inferred.join(credible, on="call_event", how="semi")
    found = pl.concat([known.join(inferred, on="call_event", how="anti"), inferred])
    until = pl.min_horizontal("until_ns", "end_ns")
    return found.join(bounds, on="call_event", maintain_order="left").select(
        "call_event",
        pl.when(until > pl.col("start_ns")).then("waited_event").alias("waited_event"),
        pl.max_horizontal(until - pl.col("start_ns"), 0).alias("blocked_ns"),
        "method",
        pl.col("method").replace_strict(_CONFIDENCE, return_dtype=pl.Float64).alias("confidence"),
    )


def _own_copies(calls: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame:
    """Calls that returned only after their own work had ended.

    They waited for the work before it on the stream, where that took the longer part of the wait; and so for both.
    """
    before = pl.col("event_id").shift(1).over(STREAM)
    ended = pl.col("end_ns").shift(1).over(STREAM)
    longer = (ended - pl.col("called_ns")) > (pl.col("end_ns") - ended)
    own = (
        work.with_columns(pl.when(longer).then(before).otherwise("event_id").alias("waited_event"))
        .filter(pl.col("call_event").is_not_null() & (pl.col("end_ns") <= pl.col("returned_ns")))
        .join(calls.filter(pl.col("kind") == SyncKind.COPY.value), on="call_event", how="semi")
        .sort("end_ns", "event_id")
        .unique("call_event", keep="last", maintain_order=True)
    )
    return _rows(own, WaitMethod.LAUNCHED, "end_ns")


def _by_dependencies(linked: LinkedTrace, calls: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame:
    """Last work to end among a call's dependencies in `linked.dependencies`."""
    asked = calls.filter(pl.col("kind").is_in(_OF_DEPENDENCIES) & _has_end(calls, work))
    if asked.is_empty():
        return pl.DataFrame(schema=_WAIT_SCHEMA)
    ends = work.select(pl.col("event_id").alias("waited_event"), pl.col("end_ns").alias("until_ns"))
    last = (
        linked.dependencies.filter(as_text("kind") == "sync")
        .select(pl.col("before_event").alias("waited_event"), pl.col("after_event").alias("call_event"))
        .join(asked.select("call_event"), on="call_event", how="semi")
        .join(ends, on="waited_event")
        .sort("until_ns", "waited_event")
        .unique("call_event", keep="last", maintain_order=True)
    )
    recorded = _recorded(linked)
    by_effect = last.join(recorded, on="call_event", how="anti", maintain_order="left")
    by_record = last.join(recorded, on="call_event", how="semi", maintain_order="left")
    return pl.concat(
        [_rows(by_record, WaitMethod.RECORDED, "until_ns"), _rows(by_effect, WaitMethod.EFFECT, "until_ns")]
    )


def _has_end(calls: pl.DataFrame, work: pl.DataFrame) -> pl.Series:
    """Return whether any work ends in each call; otherwise it waited for nothing, and needs no dependencies."""
    ends = np.sort(work.get_column("end_ns").to_numpy())
    start, end = (calls.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    last = np.searchsorted(ends, end + _ROUNDING_NS, side="right")
    return pl.Series(last > np.searchsorted(ends, start, side="right"))


def _recorded(linked: LinkedTrace) -> pl.DataFrame:
    """The calls that made the device wait for itself, by its own record."""
    timeline = linked.timeline
    syncs = timeline.tables["syncs"].filter(as_text("kind") != _STREAM_WAITS)
    return timeline.host_calls.join(syncs.select("correlation"), on="correlation", how="semi").select(
        pl.col("event_id").alias("call_event")
    )


def _last_to_end(calls: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame:
    """The last work to end in each call, if it was issued before the call began."""
    issued = pl.coalesce("called_ns", "ts_ns")
    ends = work.select(pl.col("event_id").alias("waited_event"), "end_ns", issued.alias("issued_ns")).rename(
        {"end_ns": "until_ns"}
    )
    found = (
        calls.select("call_event", "start_ns", "end_ns")
        .sort("end_ns", "call_event")
        .join_asof(
            ends.sort("until_ns", "waited_event"),
            left_on="end_ns",
            right_on="until_ns",
            coalesce=False,
        )
        .filter((pl.col("until_ns") > pl.col("start_ns")) & (pl.col("issued_ns") < pl.col("start_ns")))
    )
    return _rows(found, WaitMethod.INFERRED, "until_ns")


def _rows(found: pl.DataFrame, method: WaitMethod, until: str) -> pl.DataFrame:
    columns = {
        "call_event": pl.col("call_event"),
        "waited_event": pl.col("waited_event"),
        "until_ns": pl.col(until),
        "method": pl.lit(method.value),
    }
    return found.select(value.cast(_WAIT_SCHEMA[name]).alias(name) for name, value in columns.items())


_SYNCS_API = Column("api", Kind.TEXT, "the call's name")

_KIND = Column("kind", Kind.TEXT, "possible wait of the call: see `SyncKind`")

_SYNCS_OP = Column("op", Kind.TEXT, "innermost op that encloses the call; null: none")

_TOP_OP = Column("top_op", Kind.TEXT, "outermost op that encloses the call (`aten::item`); null: none")

_ANNOTATION = Column(
    "annotation", Kind.TEXT, "innermost annotation that encloses the call, steps left out; null: none"
)

_FRAME = Column(
    "frame",
    Kind.TEXT,
    "innermost Python function outside of torch that encloses the call, else innermost; null: no stacks",
)

_WAITED = (
    Column("waited_name", Kind.TEXT, "name of the device event that it waited for; null: none, or unknown"),
    Column("waited_device", Kind.TEXT, "its device"),
    Column("waited_stream", Kind.TEXT, "its stream"),
)

SYNC_CALLS = Table(
    "sync_calls",
    "One row per call that synchronises or may do so, in the order of their starts. blocked + other = host, exactly.",
    (
        RANK,
        STEP_OF_EVENT,
        Column("call_event", Kind.INT, "the call: its row in `events`"),
        _SYNCS_API,
        _KIND,
        Column("op_event", Kind.INT, "innermost op that encloses the call; null: none"),
        _SYNCS_OP,
        _TOP_OP,
        _ANNOTATION,
        _FRAME,
        Column("start_ns", Kind.INT, "start of the call"),
        Column("host_ns", Kind.INT, "duration of the call"),
        Column("blocked_ns", Kind.INT, "time until the work that it waited for had ended; 0: there was none"),
        Column("other_ns", Kind.INT, "the rest of the call"),
        Column("waited_event", Kind.INT, "the device event that it waited for; null: none, or unknown"),
        *_WAITED,
        Column(
            "method", Kind.TEXT, "how that is known: see `WaitMethod`; null: nothing to wait for is known"
        ),
        Column(
            "confidence", Kind.FLOAT, "1.0 recorded or launched, 0.8 by effect, 0.5 inferred; null: no method"
        ),
        DOUBTFUL,
    ),
)


@analysis(
    SYNC_CALLS,
    Family.LAUNCHES,
    uses=(Need.DEVICE_WORK, Need.LAUNCHES, Need.KNOWN_CALLS, Need.HOST_OPS, Need.STACKS, Need.SYNC_EVENTS),
    shown=("start_ns api top_op blocked_ns! host_ns waited_name waited_stream frame annotation kind"),
    picked_by=("host_ns",),
    when_empty="no call is known to wait for a device",
)
def sync_calls(linked: LinkedTrace) -> pl.DataFrame:
    """Which calls waited for the device, and who made them?

    Every call that synchronises or may do so, in the order of their starts.

    These are calls that synchronise with a device, a stream or an event, copies that the host waits for, allocations
    and releases of memory (which may wait for the device), and queries (which wait for nothing, but may be polled).
    A call inside another of them counts with that.

    `blocked_ns` reaches from the start of the call to the end of what it waited for, at most to the end of the call.
    What it waited for is known, by the first of these: `launched`, its own copy, or the work before that on the
    stream,
    where the call waited longer for that; `recorded`, the device's own record (`cuda_sync`) says so; `effect`, the
    last
    work issued before the call outlasts its start and ends before it returns (see `linked.dependencies`); `inferred`,
    the last work of any stream to end in the call.

    Args:
        linked: one rank.
    """
    return linked.derived(_sync_calls)


def _sync_calls(linked: LinkedTrace) -> pl.DataFrame:
    calls = synchronising_calls(linked)
    if calls.is_empty():
        return SYNC_CALLS.empty()
    work = launched_work(linked).select(
        pl.col("event_id").alias("waited_event"),
        pl.col("name").alias("waited_name"),
        *(pl.col(name).alias(f"waited_{name}") for name in STREAM),
    )
    found = (
        with_steps(calls.rename({"start_ns": "ts_ns"}), linked)
        .rename({"ts_ns": "start_ns"})
        .pipe(with_callers, linked)
        .join(waits(linked, calls), on="call_event", how="left", maintain_order="left")
        .join(work, on="waited_event", how="left", maintain_order="left")
        .with_columns(pl.col("blocked_ns").fill_null(0))
        .with_columns((pl.col("host_ns") - pl.col("blocked_ns")).alias("other_ns"))
    )
    return answer(SYNC_CALLS, found, linked)


_KEY = [
    "api",
    "kind",
    "op",
    "top_op",
    "annotation",
    "frame",
    "waited_name",
    "waited_device",
    "waited_stream",
]
"""Key of calls that share a row."""


SYNCS = Table(
    "syncs",
    "One row per call name, caller and awaited work, most host time first.",
    (
        RANK,
        STEP,
        _SYNCS_API,
        _KIND,
        _SYNCS_OP,
        _TOP_OP,
        _ANNOTATION,
        _FRAME,
        *_WAITED,
        Column("count", Kind.INT, "calls"),
        Column("waits", Kind.INT, "calls that were blocked"),
        Column("host_ns", Kind.INT, "sum of their durations"),
        Column("blocked_ns", Kind.INT, "sum of the time in which they were blocked"),
        Column("mean_ns", Kind.FLOAT, "mean duration; null: only calls in doubtful steps"),
        Column("max_ns", Kind.INT, "longest of all"),
        Column("confidence", Kind.FLOAT, "lowest confidence of their awaited work; null: unknown"),
        DOUBTFUL,
    ),
)


@analysis(
    SYNCS,
    Family.LAUNCHES,
    uses=(Need.DEVICE_WORK, Need.LAUNCHES, Need.KNOWN_CALLS, Need.HOST_OPS, Need.STACKS, Need.SYNC_EVENTS),
    shown="api top_op blocked_ns! host_ns count waits max_ns waited_name frame annotation kind",
    when_empty="no call is known to wait for a device",
    formula=(
        "blocked: from the start of the call to the end of the work that it waited for, at most its own "
        "end. Waits of several threads at once add up."
    ),
    on_page=OnPage(Rows.TABLE_ROWS, by=("host_ns",)),
    stored=Stored.OF_FEW_EVENTS,
)
def syncs(linked: LinkedTrace, per_step: bool = False, with_doubtful: bool = False) -> pl.DataFrame:
    """What makes the host wait for the device, and how long?

    Synchronising calls by API, caller and awaited work, most host time first.

    `sync_calls` has a row for each call, with the evidence of its wait.

    Args:
        linked: one rank.
        per_step: a row for each step in which the calls were made, instead of one over all.
        with_doubtful: whether the mean over all steps includes doubtful steps.
    """
    calls = sync_calls(linked)
    if calls.is_empty():
        return SYNCS.empty()
    return (
        by_step(calls, linked, StepOptions(per_step, with_doubtful))
        .group_by("step", *_KEY)
        .agg(
            pl.len().alias("count"),
            (pl.col("blocked_ns") > 0).sum().alias("waits"),
            pl.col("host_ns").sum(),
            pl.col("blocked_ns").sum(),
            mean_of(pl.col("host_ns").filter("in_means")),
            max_of(pl.col("host_ns")),
            pl.col("confidence").min(),
        )
        .sort("host_ns", *_KEY, descending=[True, *([False] * len(_KEY))])
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(SYNCS, frame, linked))
    )
