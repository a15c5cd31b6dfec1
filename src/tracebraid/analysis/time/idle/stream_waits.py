"""Device events that waited for another stream before they started, and the end of each wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracebraid.analysis.device import device_events, names_match
from tracebraid.analysis.time.breakdown import HOST, cover_of, step_spans, work_events
from tracebraid.model.answers.time import IdleCause
from tracebraid.model.device_peaks import WAIT
from tracebraid.model.expressions import as_text, by_number
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import PATTERNS, CallAction

if TYPE_CHECKING:
    from polars._typing import AsofJoinStrategy

_RECORDED = "Stream Wait Event"
_EVENT_WAIT = "event_wait"
_FOUND = {"event_id": pl.Int64, "until_ns": pl.Int64}


def stream_waits(linked: LinkedTrace) -> pl.DataFrame:
    """Events that waited for another stream: `event_id`, `until_ns` (end of the awaited work; or null).

    By the first of these that the trace has:

    1. An `event_wait` of the device (MTIA) is the last event on the stream before it, records of events left out.
    2. A `cuda_sync` row `Stream Wait Event` on its stream: it is the first work that was issued after the wait.
    3. No such rows are in the trace, and on the launching thread a call `StreamWaitEvent` lies between the previous
       launch and this: which stream it names is not recorded, but a program tells a stream to wait right before
       it launches what needs the wait. Also the first launch of any thread behind such a call: the last call of a
       backward pass is followed by launches of the thread that waits for the pass.
    """
    return linked.derived(_stream_waits)


def _stream_waits(linked: LinkedTrace) -> pl.DataFrame:
    found = [_by_device(linked)]
    syncs = linked.timeline.tables["syncs"]
    if (syncs.get_column("kind").cast(pl.String) == _RECORDED).any():
        found.append(_by_syncs(linked))
    else:
        found.append(_by_calls(linked))
    return pl.concat(found).sort("event_id", "until_ns").unique("event_id", keep="last", maintain_order=True)


def _by_device(linked: LinkedTrace) -> pl.DataFrame:
    is_wait, is_work = pl.col("name") == _EVENT_WAIT, pl.col("kind") != WAIT
    events = device_events(linked).filter(is_wait | is_work)
    if not events.select(is_wait.any()).item():
        return pl.DataFrame(schema=_FOUND)
    return (
        events.sort("lane", "ts_ns", "event_id")
        .with_columns((pl.col("ts_ns") + pl.col("dur_ns")).shift(1).over("lane").alias("until_ns"))
        .filter(is_work & is_wait.shift(1).over("lane"))
        .select(list(_FOUND))
    )


def _by_syncs(linked: LinkedTrace) -> pl.DataFrame:
    """The first work issued after each wait on its stream, and the end of the last work before the record.

    Before and after go by when the calls were made: the host queues work, records and waits on a stream in that order.
    """
    timeline = linked.timeline
    starts = timeline.events.get_column("ts_ns")
    calls = timeline.host_calls.select(
        "correlation", starts.gather(timeline.host_calls.get_column("event_id"))
    )
    calls = calls.sort("correlation", "ts_ns").unique("correlation", keep="first")
    syncs = timeline.tables["syncs"]
    rows = syncs.with_columns(starts.gather(syncs.get_column("event_id")).alias("sync_ns")).filter(
        (as_text("kind") == _RECORDED)
        & (pl.col("stream") >= 0)
        & (pl.col("stream") != pl.col("wait_on_stream"))
    )
    recorded = calls.select(
        pl.col("correlation").alias("wait_on_event_record_correlation"), pl.col("ts_ns").alias("recorded_ns")
    )
    waits = (
        rows.join(calls, on="correlation", how="left")
        .join(recorded, on="wait_on_event_record_correlation", how="left")
        .select(
            *("device", "stream", "wait_on_stream", "recorded_ns"),
            pl.coalesce("ts_ns", "sync_ns").alias("waited_ns"),
        )
    )
    issued = _issued(linked)
    after = issued.select("device", "stream", "event_id", pl.col("issued_ns").alias("waited_ns"))
    before = issued.select(
        "device",
        pl.col("stream").alias("wait_on_stream"),
        "until_ns",
        pl.col("issued_ns").alias("recorded_ns"),
    )
    waiting = _nearest(waits, after, "waited_ns", ["device", "stream"], "forward")
    found = _nearest(waiting, before, "recorded_ns", ["device", "wait_on_stream"], "backward")
    return found.filter(pl.col("event_id").is_not_null()).select(list(_FOUND))


def _nearest(
    asked: pl.DataFrame, work: pl.DataFrame, at: str, by: list[str], strategy: AsofJoinStrategy
) -> pl.DataFrame:
    return asked.sort(at).join_asof(
        work.sort(at), on=at, by=by, strategy=strategy, allow_exact_matches=False, check_sortedness=False
    )


def _issued(linked: LinkedTrace) -> pl.DataFrame:
    """All work: `device`, `stream`, `event_id`, `issued_ns` (when its call began, else its start) and `until_ns`."""
    events = device_events(linked)
    called = linked.timeline.events.get_column("ts_ns").gather(events.get_column("call_event"))
    return (
        events.select(
            "event_id",
            pl.coalesce(called, "ts_ns").alias("issued_ns"),
            (pl.col("ts_ns") + pl.col("dur_ns")).alias("until_ns"),
        )
        .join(linked.timeline.device_work.select("event_id", "device", "stream"), on="event_id")
        .filter(pl.col("stream").is_not_null())
    )


def _by_calls(linked: LinkedTrace) -> pl.DataFrame:
    events = linked.timeline.events.select("event_id", "name", "lane", "ts_ns")
    calls = events[linked.timeline.host_calls.get_column("event_id").to_numpy()]
    waits = calls.filter(names_match(calls.get_column("name"), PATTERNS[CallAction.MAKE_STREAM_WAIT]))
    if waits.is_empty():
        return pl.DataFrame(schema=_FOUND)
    work = device_events(linked).select("event_id", "call_event").drop_nulls()
    launches = events.select("lane", "ts_ns")[work.get_column("call_event").to_numpy()]
    none = pl.lit(None, dtype=pl.Int64)
    rows = pl.concat(
        [
            waits.select("lane", "ts_ns", none.alias("event_id")),
            launches.with_columns(work.get_column("event_id")),
        ]
    ).sort("lane", "ts_ns", "event_id")
    is_wait = pl.col("event_id").is_null()
    of_thread = is_wait.shift(1).over("lane")
    in_order = rows.sort("ts_ns", "event_id", nulls_last=False)
    found = pl.concat(
        [
            rows.filter(~is_wait & of_thread),
            in_order.filter(~is_wait & is_wait.shift(1).fill_null(value=False)),
        ]
    ).unique("event_id")
    return found.select("event_id", none.alias("until_ns"))


_GAPS: dict[str, type[pl.DataType]] = {
    "device": pl.String,
    "gap": pl.Int64,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "next_event": pl.Int64,
}


def device_spans(linked: LinkedTrace) -> pl.DataFrame:
    """Span of each device's events, in the order of devices: `device`, `start_ns`, `end_ns`."""
    return linked.derived(_device_spans)


def device_gaps(linked: LinkedTrace) -> pl.DataFrame:
    """The gaps of each device in the order of time: `device`, `gap` (its number), `start_ns`, `end_ns`, `next_event`.

    They reach from the device's first event to its last, or further where steps do. `next_event` is the event that
    ended the gap, the first in the file of those that start then; null after the last.
    """
    return linked.derived(_device_gaps)


def _device_spans(linked: LinkedTrace) -> pl.DataFrame:
    events = work_events(linked)
    spans = events.group_by("device").agg(
        pl.col("ts_ns").min().alias("start_ns"), (pl.col("ts_ns") + pl.col("dur_ns")).max().alias("end_ns")
    )
    return spans.sort(*by_number("device"))


def _device_gaps(linked: LinkedTrace) -> pl.DataFrame:
    steps = step_spans(linked)
    events = work_events(linked).sort("ts_ns", "event_id")
    found = [pl.DataFrame(schema=_GAPS)]
    for device, start, end in device_spans(linked).iter_rows():
        if not steps.is_empty():
            start = min(start, int(steps.get_column("start_ns").to_numpy().min()))
            end = max(end, int(steps.get_column("end_ns").to_numpy().max()))
        of_device = events.filter(pl.col("device") == device)
        found.append(_gaps(device, of_device, start, end))
    return pl.concat(found)


def _gaps(device: str, events: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """The gaps in [start, end) of events of one device, in the order of their starts."""
    starts = events.get_column("ts_ns").to_numpy()
    busy = cover_of(starts, starts + events.get_column("dur_ns").to_numpy())
    begins = np.r_[start, busy.ends]
    ends = np.r_[busy.starts, end]
    following = np.searchsorted(starts, busy.starts)
    ids = events.get_column("event_id").to_numpy()
    next_event = pl.Series(np.r_[ids[following], -1])
    return (
        pl.DataFrame({"start_ns": begins, "end_ns": ends, "next_event": next_event})
        .filter(pl.col("end_ns") > pl.col("start_ns"))
        .with_row_index("gap")
        .select(
            pl.lit(device).alias("device"),
            pl.col("gap").cast(pl.Int64),
            "start_ns",
            "end_ns",
            pl.when(pl.col("next_event") >= 0).then("next_event").alias("next_event"),
        )
    )


_END_NS = pl.col("ts_ns") + pl.col("dur_ns")

_STREAM_WAS_FREE = pl.col("stream_end_ns").is_null() | (pl.col("stream_end_ns") < pl.col("start_ns"))
_WAIT_WAS_OVER = (pl.col("until_ns") < pl.col("start_ns")).fill_null(value=False)
_WAIT_WENT_ON = (pl.col("until_ns") > pl.col("start_ns")).fill_null(value=False)
_BOUND_BY_WAIT = _WAIT_WENT_ON | (_STREAM_WAS_FREE & ~_WAIT_WAS_OVER)
"""Expression: whether the wait delayed the work: it ended in the gap, or no other work of the stream ran
up to the gap. The end of a wait may be unknown."""


def gap_launches(linked: LinkedTrace) -> pl.DataFrame:
    """The gaps with the launch of their next event, a row each and in their order.

    Columns: those of `device_gaps`; `next_lane`, the lane of the next event; `call_event`, `op_event`, `call_start_ns`,
    `call_end_ns`; `thread`, the lane of the call, else of the op, on the host that of the next event; and flags:

    - `is_graph`: the call launched a graph.
    - `continues`: the call launched earlier work of the device too.
    - `is_older`: no call is in the trace, nor for anything before on the stream, but for later work. A stream keeps the
      order of its launches, so it was launched before the first call in the trace, and that before the gap.
    - `waits`: it waited for another stream; `until_ns` is when what it waited for ended, null if not known.
    """
    return linked.derived(_gap_launches)


def next_ops(linked: LinkedTrace) -> pl.Series:
    """Op that launched the next event of each row of `gap_launches`, or that it is on the host."""
    ops = gap_launches(linked).get_column("op_event")
    return linked.timeline.events.get_column("name").gather(ops).alias("next_op")


def _gap_launches(linked: LinkedTrace) -> pl.DataFrame:
    gaps = device_gaps(linked)
    launched = linked.derived(_launched)
    row_of_event = np.full(linked.timeline.events.height + 1, launched.height, dtype=np.int64)
    row_of_event[launched.get_column("next_event").to_numpy()] = np.arange(launched.height)
    rows = row_of_event[gaps.get_column("next_event").fill_null(-1).to_numpy()]
    known = pl.Series(rows).set(pl.Series(rows == launched.height), None)
    found = pl.concat([gaps, launched.drop("next_event").select(pl.all().gather(known))], how="horizontal")
    lane = linked.timeline.events.get_column("lane")
    call_lane, op_lane = (lane.gather(found.get_column(name)) for name in ("call_event", "op_event"))
    first_call = _first_call_ns(linked)
    older = (
        pl.col("is_older") & (pl.col("start_ns") >= first_call) if first_call is not None else pl.lit(False)
    )
    return found.with_columns(
        pl.coalesce(call_lane, op_lane).alias("thread"),
        pl.col("is_graph").fill_null(value=False),
        pl.col("continues").fill_null(value=False),
        older.fill_null(value=False).alias("is_older"),
        (pl.col("waits") & _BOUND_BY_WAIT).fill_null(value=False).alias("waits"),
    )


def _launched(linked: LinkedTrace) -> pl.DataFrame:
    """The device's events in the order of their starts, with their launches: see `gap_launches`."""
    has_call = pl.col("call_event").is_not_null()
    calls_of_work = device_events(linked).select("event_id", "call_event")
    events = work_events(linked).join(calls_of_work, on="event_id", how="left").sort("ts_ns", "event_id")
    calls = linked.timeline.events.select("name", "ts_ns", "dur_ns").select(
        pl.all().gather(events.get_column("call_event"))
    )
    waits = stream_waits(linked).select("event_id", "until_ns", waits=True)
    found = events.select(
        pl.col("event_id").alias("next_event"),
        pl.col("lane").alias("next_lane"),
        *("call_event", "op_event"),
        _END_NS.cum_max().shift(1).over("lane").alias("stream_end_ns"),
        (has_call.any().over("lane") & ~has_call.cum_max().over("lane")).alias("is_older"),
        (has_call & ~pl.struct("device", "call_event").is_first_distinct()).alias("continues"),
    ).with_columns(
        calls.get_column("ts_ns").alias("call_start_ns"),
        calls.select(_END_NS).to_series().alias("call_end_ns"),
        names_match(calls.get_column("name"), PATTERNS[CallAction.LAUNCH_GRAPH]).alias("is_graph"),
    )
    if waits.is_empty():
        return found.with_columns(waits=pl.lit(False), until_ns=pl.lit(None, dtype=pl.Int64))
    return found.join(waits, left_on="next_event", right_on="event_id", how="left", maintain_order="left")


def _first_call_ns(linked: LinkedTrace) -> int | None:
    timeline = linked.timeline
    start = timeline.events.get_column("ts_ns").to_numpy()[
        timeline.host_calls.get_column("event_id").to_numpy()
    ]
    return int(start.min()) if len(start) else None


NO_THREAD = -1
"""Stands for no thread."""

_THREADS = {"device": pl.String, "lane": pl.Int64, "launches": pl.UInt32, "first_ns": pl.Int64}


def blamed_threads(linked: LinkedTrace) -> pl.DataFrame:
    """For each row of `gap_launches` the lanes `thread` and `partner`; -1 for none.

    `thread` is the one that launched what ended the gap. Where that is not known, or nothing followed, it is the
    device's main thread: the first that launched work on it. `partner` is the main thread for any other, and for the
    main thread the other one that launched the most: the backward pass runs on a thread of its own, while the main
    thread waits for it.
    """
    gaps = gap_launches(linked).select("device", "thread")
    threads = _launching_threads(linked)
    main = threads.sort("first_ns", "lane").unique("device", keep="first", maintain_order=True)
    main = main.select("device", pl.col("lane").alias("main"))
    others = threads.join(main, on="device").filter(pl.col("lane") != pl.col("main"))
    helping = others.sort("launches", "lane", descending=[True, False]).unique("device", keep="first")
    helping = helping.select("device", pl.col("lane").alias("helping"))
    found = gaps.join(main, on="device", how="left", maintain_order="left").join(
        helping, on="device", how="left", maintain_order="left"
    )
    thread = pl.coalesce("thread", "main")
    return found.select(
        thread.fill_null(NO_THREAD).alias("thread"),
        pl.when(thread == pl.col("main"))
        .then("helping")
        .otherwise("main")
        .fill_null(NO_THREAD)
        .alias("partner"),
    )


def _launching_threads(linked: LinkedTrace) -> pl.DataFrame:
    """Threads by device: `device`, `lane`, `launches`, `first_ns`."""
    calls = device_events(linked).select("event_id", "call_event")
    events = work_events(linked).join(calls, on="event_id", how="left")
    launched = events.select("device", pl.coalesce("call_event", "op_event").alias("launch")).drop_nulls()
    if launched.is_empty():
        return pl.DataFrame(schema=_THREADS)
    host = linked.timeline.events.select("lane", "ts_ns")[launched.get_column("launch").to_numpy()]
    return (
        pl.concat([launched.select("device"), host], how="horizontal")
        .group_by("device", "lane")
        .agg(pl.len().alias("launches"), pl.col("ts_ns").min().alias("first_ns"))
    )


SLOW_LAUNCH_NS = 50_000
"""A call that launches and lasts longer is itself why the host is late: the limit of HTA's launch statistics
(`runtime_cutoff`, 50 µs) above which a call counts as an outlier."""

BLOCKED_NS = 100_000
"""Work that has been launched and is not started for longer is blocked, by something that the trace does not show: the
limit of HTA's launch statistics (`launch_delay_cutoff`, 100 µs) above which a delay counts as an outlier."""

CAUSES: tuple[str, ...] = tuple(cause.value for cause in IdleCause)
"""The code of each cause, by its number in `cause_parts`."""

_NUMBER = {cause: number for number, cause in enumerate(IdleCause)}


def cause_parts(linked: LinkedTrace) -> pl.DataFrame:
    """The parts of all gaps in the order of time: `row` (of `gap_launches`), `start_ns`, `end_ns`, `cause` (a number).

    With [g, h) the gap, and [b, e) the call that launched what ended it, both cut to the gap:

    1. Nothing followed: the gap is `no-more-work`. No launch is in the trace, and it is not known to be older than the
       gap: `unknown`. On the host itself the gap is `host-late`, for an op begins when its thread gets to it.
    2. [g, b) is `host-late`, and [b, e) too if the call lasts over `SLOW_LAUNCH_NS` and launches no graph. Where work
       of the same call (a graph) ran earlier, no part is.
    3. What is left, or all of the gap if the call ended before it, is `stream-wait` as far as the work
       of another stream ran in it that had to be waited for.
    4. What is left then: if the work lay in its queue when the gap began, `stream-wait` if it waited for another
       stream, else `queued`; if not, `graph-launch` where a graph is launched, else `launch-latency`.
    5. But if that last part is longer than `BLOCKED_NS`, and no graph was launched in it, it is `stream-wait` if the
       work had to wait for another stream, else `blocked`.
    """
    return linked.derived(_cause_parts)


def _cause_parts(linked: LinkedTrace) -> pl.DataFrame:
    gaps = gap_launches(linked)
    start, end = (gaps.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    late, called, waited = _bounds(gaps, start, end)
    rest = _cause_of_rest(gaps.with_columns(pl.Series("rest_ns", end - waited)))
    bounds = np.stack([start, late, called, waited, end])
    host, wait = (
        np.full(len(start), _NUMBER[cause]) for cause in (IdleCause.HOST_LATE, IdleCause.STREAM_WAIT)
    )
    causes = np.stack([host, host, wait, rest])
    row = np.broadcast_to(np.arange(len(start)), causes.shape)
    parts = pl.DataFrame(
        {
            "row": row.T.ravel(),
            "start_ns": bounds[:-1].T.ravel(),
            "end_ns": bounds[1:].T.ravel(),
            "cause": causes.T.ravel(),
        },
        schema={"row": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64, "cause": pl.Int64},
    ).filter(pl.col("end_ns") > pl.col("start_ns"))
    # The two first parts of a gap, before and in the call, may be host-late: then they are one part.
    return (
        parts.group_by("row", "cause", maintain_order=True)
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        .select("row", "start_ns", "end_ns", "cause")
    )


def _bounds(
    gaps: pl.DataFrame, start: np.ndarray, end: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Until when the host was late, it was in a slow call, and another stream was waited for."""
    has_call = gaps.get_column("call_event").is_not_null().to_numpy()
    continues, is_graph, waits = (
        gaps.get_column(name).to_numpy() for name in ("continues", "is_graph", "waits")
    )
    begun = gaps.select(pl.coalesce("call_start_ns", "start_ns")).to_series().to_numpy()
    ended = gaps.select(pl.coalesce("call_end_ns", "start_ns")).to_series().to_numpy()
    until = gaps.select(pl.coalesce("until_ns", "start_ns")).to_series().to_numpy()
    on_host = (gaps.get_column("device") == HOST).to_numpy()
    followed = gaps.get_column("next_event").is_not_null().to_numpy()
    late = np.where(has_call & ~continues, np.clip(begun, start, end), start)
    late = np.where(on_host & followed, end, late)
    slow = has_call & ~continues & ~is_graph & (ended - begun > SLOW_LAUNCH_NS)
    called = np.where(slow, np.clip(ended, late, end), late)
    waited = np.where(waits & has_call, np.clip(until, called, end), called)
    return late, called, waited


def _cause_of_rest(gaps: pl.DataFrame) -> np.ndarray:
    """Return the cause of the rest of each gap, `rest_ns` long."""
    launched = pl.col("call_event").is_not_null() | pl.col("is_older")
    in_queue = pl.col("continues") | pl.col("is_older") | (pl.col("call_end_ns") <= pl.col("start_ns"))
    is_long = (pl.col("rest_ns") > BLOCKED_NS) & (in_queue | ~pl.col("is_graph"))
    number = {cause: pl.lit(value, dtype=pl.Int64) for cause, value in _NUMBER.items()}
    return (
        gaps.select(
            pl.when(pl.col("next_event").is_null())
            .then(number[IdleCause.NO_MORE_WORK])
            .when(~launched)
            .then(number[IdleCause.UNKNOWN])
            .when((in_queue | is_long) & pl.col("waits"))
            .then(number[IdleCause.STREAM_WAIT])
            .when(is_long)
            .then(number[IdleCause.BLOCKED])
            .when(in_queue)
            .then(number[IdleCause.QUEUED])
            .when(pl.col("is_graph"))
            .then(number[IdleCause.GRAPH_LAUNCH])
            .otherwise(number[IdleCause.LAUNCH_LATENCY])
        )
        .to_series()
        .to_numpy()
    )
