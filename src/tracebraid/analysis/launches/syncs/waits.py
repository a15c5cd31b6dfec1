"""What each synchronising call waited for on the device, until when, and how that is known."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.launches.launched_work import STREAM, launched_work
from tracebraid.model.answers import SyncKind, WaitMethod
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.units import NS_PER_US

__all__ = ["RETURN_NS", "waits"]

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
"""How soon a call returns after what it waited for, where that is all there is to go by: traces have 1 to 16 µs."""

_ROUNDING_NS = NS_PER_US
"""By how much work may seem to end after the call that waited for it, in traces in µs."""

_WAIT_SCHEMA = {
    "call_event": pl.Int64(),
    "waited_event": pl.Int64(),
    "until_ns": pl.Int64(),
    "method": pl.String(),
}


def waits(linked: LinkedTrace, calls: pl.DataFrame, annotation: str) -> pl.DataFrame:
    """One row per call of which that is known: call_event, waited_event, blocked_ns, method, confidence.

    Where all that a call waited for by the evidence had ended before it began, it may have waited for work of another
    stream, through an event: that is inferred if the call returned within `RETURN_NS` of it.

    Args:
        linked: one rank.
        calls: as `synchronising_calls` gives them.
        annotation: what marks a step.
    """
    work = launched_work(linked, annotation)
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
    """Of all that a call waited for by `linked.dependencies`, the last to end."""
    asked = calls.filter(pl.col("kind").is_in(_OF_DEPENDENCIES) & _something_ends(calls, work))
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


def _something_ends(calls: pl.DataFrame, work: pl.DataFrame) -> pl.Series:
    """Whether some work ends in each call; without that it waited for nothing, and no dependencies are asked for."""
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
