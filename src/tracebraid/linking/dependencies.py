"""Dependencies in a linked trace; `dependencies.py` is the entry point, each kind has a file of its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.linking.nesting import TOLERANCE_NS
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.name_rules import CallAction, call_does
from tracebraid.model.schema import DEPENDENCIES
from tracebraid.model.stage import Stage
from tracebraid.model.timeline import Timeline

START = "start"
END = "end"

_Ints = NDArray[np.int64]
_ON_THE_HOST = (Role.OP, Role.ANNOTATION, Role.CALL)


class Moments(Struct, frozen=True):
    """The times of all events, and the position of each start and end in one order; arrays by event id.

    Args:
        start_ns: starts.
        end_ns: ends.
        start_position: position of each start in the order; -1 for events that depend on nothing, as instants.
        end_position: position of each end.
    """

    start_ns: _Ints
    end_ns: _Ints
    start_position: _Ints
    end_position: _Ints

    def times(self, events: pl.Series, moments: pl.Series) -> _Ints:
        """The time of one moment of each event."""
        return self._pick(events, moments, self.start_ns, self.end_ns)

    def positions(self, events: pl.Series, moments: pl.Series) -> _Ints:
        """The position of one moment of each event."""
        return self._pick(events, moments, self.start_position, self.end_position)

    @staticmethod
    def _pick(events: pl.Series, moments: pl.Series, starts: _Ints, ends: _Ints) -> _Ints:
        rows = events.to_numpy()
        picked: _Ints = np.where((moments == END).to_numpy(), ends[rows], starts[rows])
        return picked


def moments_of(timeline: Timeline) -> Moments:
    """Order the moments of ops, annotations, calls and device work by time.

    A device's end counts as up to `TOLERANCE_NS` earlier than it is written, though not as earlier than its start:
    by so much rounding may push it past what followed. At one time, the host comes before the device, then the
    order of the file holds; an event starts before it ends.
    """
    role = timeline.events.select(
        as_text("category").is_in(categories_of(*_ON_THE_HOST)).fill_null(False).alias("host"),
        as_text("category").is_in(categories_of(Role.DEVICE_WORK)).fill_null(False).alias("device"),
    )
    on_device = role.get_column("device").to_numpy()
    start = timeline.events.get_column("ts_ns").to_numpy()
    end = start + timeline.events.get_column("dur_ns").to_numpy()
    counted = np.flatnonzero(on_device | role.get_column("host").to_numpy())
    ended = np.where(on_device, np.maximum(start, end - TOLERANCE_NS), end)[counted]
    began = start[counted]
    rank = np.empty(len(counted), dtype=np.int64)
    rank[np.lexsort((on_device[counted], began))] = np.arange(len(counted))
    order = np.lexsort((np.concatenate([2 * rank, 2 * rank + 1]), np.concatenate([began, ended])))
    position = np.empty(2 * len(counted), dtype=np.int64)
    position[order] = np.arange(2 * len(counted))
    starts, ends = (np.full(len(start), -1, dtype=np.int64) for _ in range(2))
    starts[counted], ends[counted] = position[: len(counted)], position[len(counted) :]
    return Moments(start, end, starts, ends)


START_TO_START = (START, START)
END_TO_START = (END, START)
END_TO_END = (END, END)

ASSERTED = "asserted"
"""Whether the evidence is explicit, so that a contradiction by time is a finding."""

EDGES = {
    "before_event": pl.Int64(),
    "before_moment": pl.String(),
    "after_event": pl.Int64(),
    "after_moment": pl.String(),
    "kind": pl.String(),
    "evidence": pl.String(),
    ASSERTED: pl.Boolean(),
}


def edges(
    pairs: pl.DataFrame,
    kind: str,
    moments: tuple[str, str],
    evidence: pl.Expr,
    asserted: pl.Expr | None = None,
) -> pl.DataFrame:
    """Edges from pairs with the columns `before_event` and `after_event`."""
    found = pairs.filter(pl.col("before_event").is_not_null() & pl.col("after_event").is_not_null())
    columns = {
        "before_event": pl.col("before_event"),
        "before_moment": pl.lit(moments[0]),
        "after_event": pl.col("after_event"),
        "after_moment": pl.lit(moments[1]),
        "kind": pl.lit(kind),
        "evidence": evidence,
        ASSERTED: pl.lit(True) if asserted is None else asserted,
    }
    return found.select(value.cast(EDGES[name]).alias(name) for name, value in columns.items())


def no_edges() -> pl.DataFrame:
    """No edges."""
    return pl.DataFrame(schema=EDGES)


_STREAM = ["device", "stream"]


def issued_work(timeline: Timeline, device_links: pl.DataFrame) -> pl.DataFrame:
    """Device work with `issued_ns`, in that order: when the call that launched it began.

    Correlations rise from call to call, on all threads. So work without a call in the trace was issued before the
    first call with a higher correlation, and in any case before it started: the earlier counts. Where work does not
    say its device (MTIA), its lane does.
    """
    times = timeline.events.select(
        "event_id", "lane", "ts_ns", (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns")
    )
    called = timeline.events.select(
        pl.col("event_id").alias("call_event"), pl.col("ts_ns").alias("called_ns")
    )
    return (
        timeline.device_work.select("event_id", *_STREAM, "correlation")
        .join(times, on="event_id")
        .join(timeline.lanes.select("lane", "pid"), on="lane", how="left")
        .with_columns(pl.coalesce("device", "pid"))
        .join(device_links.select("event_id", "call_event"), on="event_id", how="left")
        .join(called, on="call_event", how="left")
        .pipe(_before_later_calls, timeline)
        .with_columns(pl.coalesce("called_ns", pl.min_horizontal("next_call_ns", "ts_ns")).alias("issued_ns"))
        .sort("issued_ns", "ts_ns", "event_id")
        .rename({"event_id": "work_event"})
        .select("work_event", *_STREAM, "issued_ns", "end_ns")
    )


def _before_later_calls(work: pl.DataFrame, timeline: Timeline) -> pl.DataFrame:
    """Work with `next_call_ns`: 1 ns before the first call with a higher correlation; null if work has its call."""
    calls = calls_by_correlation(timeline).select("correlation", "called_ns")
    unknown = pl.col("called_ns").is_null() & (pl.col("correlation") > 0)
    if calls.is_empty() or not work.select(unknown.any()).item():
        return work.with_columns(pl.lit(None, dtype=pl.Int64).alias("next_call_ns"))
    earliest = calls.sort("correlation").select(
        "correlation", (pl.col("called_ns").cum_min(reverse=True) - 1).alias("next_call_ns")
    )
    found = work.filter(unknown).select("event_id", "correlation").sort("correlation")
    later = found.join_asof(
        earliest, on="correlation", strategy="forward", allow_exact_matches=False, check_sortedness=False
    )
    return work.join(later.select("event_id", "next_call_ns"), on="event_id", how="left")


def calls_by_correlation(timeline: Timeline) -> pl.DataFrame:
    """One call for each correlation, with its name and times: the first to start, which is the outermost."""
    return (
        timeline.host_calls.filter(pl.col("correlation") > 0)
        .select(pl.col("event_id").alias("call_event"), "correlation")
        .join(
            timeline.events.select(
                pl.col("event_id").alias("call_event"),
                as_text("name").alias("call_name"),
                pl.col("ts_ns").alias("called_ns"),
                (pl.col("ts_ns") + pl.col("dur_ns")).alias("returned_ns"),
            ),
            on="call_event",
        )
        .sort("correlation", "called_ns", "call_event")
        .unique("correlation", keep="first", maintain_order=True)
    )


def last_before(asked: pl.DataFrame, at: str, issued: pl.DataFrame) -> pl.DataFrame:
    """Each asked row with the last work issued on its device and stream before its time `at`; null if none."""
    return _nearest(asked, at, issued, after=False)


def first_after(asked: pl.DataFrame, at: str, issued: pl.DataFrame) -> pl.DataFrame:
    """Each asked row with the first work issued on its device and stream after its time `at`; null if none."""
    return _nearest(asked, at, issued, after=True)


def _nearest(asked: pl.DataFrame, at: str, issued: pl.DataFrame, after: bool) -> pl.DataFrame:
    return asked.sort(at).join_asof(
        issued,
        left_on=at,
        right_on="issued_ns",
        by=_STREAM,
        strategy="forward" if after else "backward",
        allow_exact_matches=False,
        check_sortedness=False,
    )


_WAITS_FOR_ALL = "(?i)(device|ctx|context)synchronize"
_WAITS_FOR_EVENT = "(?i)eventsynchronize"
_COPIES = "(?i)memcpy"
_TO_HOST = "DtoH|DeviceToHost"
_ASYNC = "Async"
_PAGEABLE = "Pageable"
_OUTLASTS = pl.format("{} outlasts it", "call_name")


def blocking_calls(
    timeline: Timeline, issued_work: Callable[[], pl.DataFrame], moments: Moments
) -> pl.DataFrame:
    """Dependencies from the end of device work to the end of a synchronising call without device record.

    Candidates are, on each stream, the last work issued before the call; for an event, the last to end inside the
    call, of what was issued before it. A call for the whole device waited for all of them, another for the one of
    them that ended last: which stream it named is not in the trace. Where clocks of host and device differ, the last
    work of a device seems to outlast the call that waited for it: the last that did end inside it stands for it.
    """
    if timeline.device_work.is_empty() or timeline.host_calls.is_empty():
        return no_edges()
    calls = _unrecorded(timeline)
    if calls.is_empty() or (issued := issued_work()).is_empty():
        return no_edges()
    streams = issued.select("device", "stream").drop_nulls().unique(maintain_order=True)
    of_event = pl.col("call_name").str.contains(_WAITS_FOR_EVENT)
    of_all = pl.col("call_name").str.contains(_WAITS_FOR_ALL)
    asked = calls.join(streams, how="cross")
    # The same search by when work ended, instead of when it was issued.
    by_end = issued.drop("issued_ns").with_columns(
        pl.Series("issued_ns", moments.end_position[issued.get_column("work_event").to_numpy()])
    )
    returned = pl.Series("returned", moments.end_position[asked.get_column("call_event").to_numpy()])
    ended = last_before(
        asked.with_columns(returned).filter(of_event | of_all), "returned", by_end.sort("issued_ns")
    )
    found = pl.concat([last_before(asked.filter(~of_event), "called_ns", issued), ended], how="diagonal")
    inside = (
        found.filter(pl.col("work_event").is_not_null())
        .drop("issued_ns")
        .join(issued.select("work_event", "issued_ns"), on="work_event")
        .filter((pl.col("end_ns") > pl.col("called_ns")) & (pl.col("issued_ns") < pl.col("called_ns")))
    )
    done = (
        moments.end_position[inside.get_column("work_event").to_numpy()]
        < (moments.end_position[inside.get_column("call_event").to_numpy()])
    )
    inside = inside.filter(pl.Series(done)).sort("call_event", "end_ns", "work_event")
    last_of_stream = pl.struct("call_event", "device", "stream").is_last_distinct()
    waited = inside.filter(
        pl.when(of_all).then(last_of_stream).otherwise(pl.col("call_event").is_last_distinct())
    )
    return _edges(waited.rename({"work_event": "before_event", "call_event": "after_event"}))


def blocking_copies(timeline: Timeline, device_links: pl.DataFrame) -> pl.DataFrame:
    """Dependencies from the end of a copy to the host to the end of its call, if that waits for it.

    It does so unless it is asynchronous, and then too if the host's memory is pageable.
    """
    if timeline.device_work.is_empty():
        return no_edges()
    name = timeline.events.select("event_id", as_text("name"))
    copies = (
        device_links.filter(pl.col("call_event").is_not_null())
        .select(pl.col("event_id").alias("before_event"), pl.col("call_event").alias("after_event"))
        .join(name.rename({"event_id": "before_event", "name": "copy"}), on="before_event")
        .filter(pl.col("copy").str.contains(_TO_HOST))
        .join(name.rename({"event_id": "after_event", "name": "call_name"}), on="after_event")
    )
    waits = ~pl.col("call_name").str.contains(_ASYNC) | pl.col("copy").str.contains(_PAGEABLE)
    return _edges(copies.filter(pl.col("call_name").str.contains(_COPIES) & waits).sort("before_event"))


def _edges(pairs: pl.DataFrame) -> pl.DataFrame:
    return edges(pairs, "sync", END_TO_END, _OUTLASTS, pl.lit(False))


def _unrecorded(timeline: Timeline) -> pl.DataFrame:
    """Calls that synchronise by their name, for which there is no `cuda_sync` event."""
    recorded = timeline.tables["syncs"].get_column("correlation").drop_nulls()
    name = as_text("name")
    times = timeline.events.select(
        pl.col("event_id").alias("call_event"), name.alias("call_name"), pl.col("ts_ns").alias("called_ns")
    )
    return (
        timeline.host_calls.filter(~pl.col("correlation").is_in(recorded.implode()).fill_null(False))
        .select(pl.col("event_id").alias("call_event"))
        .join(times, on="call_event")
        .filter(call_does(pl.col("call_name"), CallAction.WAIT))
    )


_WAIT = "Stream Wait Event"


def event_waits(timeline: Timeline, issued_work: Callable[[], pl.DataFrame]) -> pl.DataFrame:
    """Dependencies from the last work before the record of an event to the first work after the wait on the other
    stream.

    Before and after go by when the calls were made: the host queues work, records and waits on a stream in that order.
    """
    if timeline.tables["syncs"].is_empty():
        return no_edges()
    calls, issued = calls_by_correlation(timeline), issued_work()
    recorded = calls.select(
        pl.col("correlation").alias("wait_on_event_record_correlation"),
        pl.col("called_ns").alias("recorded_ns"),
    )
    waits = (
        timeline.tables["syncs"]
        .filter(as_text("kind") == _WAIT)
        .filter((pl.col("wait_on_stream") >= 0) & (pl.col("wait_on_stream") != pl.col("stream")))
        .join(timeline.events.select("event_id", "ts_ns"), on="event_id")
        .join(recorded, on="wait_on_event_record_correlation")
        .join(calls.select("correlation", "called_ns"), on="correlation", how="left")
        .with_columns(pl.coalesce("called_ns", "ts_ns").alias("waited_ns"))
        .select("event_id", "correlation", "device", "stream", "wait_on_stream", "recorded_ns", "waited_ns")
    )
    later = first_after(waits, "waited_ns", issued).select(
        "event_id", pl.col("work_event").alias("after_event"), pl.col("stream").alias("waiting")
    )
    asked = waits.with_columns(pl.col("wait_on_stream").alias("stream"))
    pairs = (
        last_before(asked, "recorded_ns", issued)
        .rename({"work_event": "before_event"})
        .join(later, on="event_id")
        .sort("waited_ns", "event_id")
    )
    text = pl.format(
        "cuda_sync {} {}: stream {} waits for {}", pl.lit(_WAIT), "correlation", "waiting", "stream"
    )
    return edges(pairs, "event_wait", END_TO_START, text)


def stream_order(timeline: Timeline, moments: Moments) -> pl.DataFrame:
    """Find, for each event of a stream, the last one that ends before it starts, if any.

    Where events of one stream overlap (branches of a graph's launch), none waits for the other.
    """
    if timeline.device_work.is_empty():
        return no_edges()
    work = timeline.device_work.select("event_id").join(
        timeline.events.select("event_id", "lane"), on="event_id"
    )
    event, lane = work.get_column("event_id").to_numpy(), work.get_column("lane").to_numpy()
    count = len(event)
    position = np.concatenate([moments.start_position[event], moments.end_position[event]])
    order = np.lexsort((position, np.concatenate([lane, lane])))
    is_end = order >= count
    lanes = lane[order % count]
    last_end = np.maximum.accumulate(np.where(is_end, np.arange(2 * count), -1))
    started = np.flatnonzero(~is_end & (last_end >= 0))
    before = last_end[started]
    same = lanes[before] == lanes[started]
    pairs = pl.DataFrame(
        {
            "before_event": event[order[before[same]] % count],
            "after_event": event[order[started[same]]],
            "lane": lanes[started[same]],
        }
    ).join(timeline.lanes.select("lane", "tid", "tid_text"), on="lane", how="left")
    stream = pl.coalesce(as_text("tid"), "tid_text", pl.lit("of no number"))
    return edges(pairs, "stream_order", END_TO_START, pl.format("stream {}", stream))


_SYNCS_STREAM = "Stream Sync"
_CONTEXT = "Context Sync"
_EVENT = "Event Sync"


def recorded_syncs(timeline: Timeline, issued_work: Callable[[], pl.DataFrame]) -> pl.DataFrame:
    """Dependencies from the end of the last work issued before a synchronisation to the end of its call.

    A stream's synchronisation waits for the stream, a context's for every stream of the device, and an event's for
    what was issued on its stream before the call that recorded it. A query of an event does not wait: it
    orders what follows only where the work had ended by then.
    """
    if timeline.tables["syncs"].is_empty():
        return no_edges()
    calls, issued = calls_by_correlation(timeline), issued_work()
    syncs = (
        timeline.tables["syncs"]
        .select("event_id", as_text("kind"), "stream", "correlation", "device")
        .filter(pl.col("kind").is_in([_SYNCS_STREAM, _CONTEXT]))
        .join(calls, on="correlation")
        .with_columns(pl.col("called_ns").alias("until_ns"))
    )
    of_stream = syncs.filter((pl.col("kind") == _SYNCS_STREAM) & (pl.col("stream") >= 0))
    streams = issued.select("device", "stream").drop_nulls().unique(maintain_order=True)
    of_context = syncs.filter(pl.col("kind") == _CONTEXT).drop("stream").join(streams, on="device")
    asked = pl.concat([of_stream, of_context, _of_events(timeline, calls)], how="diagonal_relaxed")
    pairs = (
        last_before(asked, "until_ns", issued)
        .rename({"work_event": "before_event", "call_event": "after_event"})
        .sort("after_event", "event_id", "before_event")
    )
    text = pl.format("cuda_sync {} {} of stream {}", "kind", "correlation", "stream")
    return edges(pairs, "sync", END_TO_END, text, call_does(pl.col("call_name"), CallAction.WAIT))


def _of_events(timeline: Timeline, calls: pl.DataFrame) -> pl.DataFrame:
    recorded = calls.select(
        pl.col("correlation").alias("wait_on_event_record_correlation"),
        pl.col("called_ns").alias("until_ns"),
    )
    return (
        timeline.tables["syncs"]
        .with_columns(as_text("kind"))
        .filter((pl.col("kind") == _EVENT) & (pl.col("wait_on_stream") >= 0))
        .drop("stream")
        .rename({"wait_on_stream": "stream"})
        .join(recorded, on="wait_on_event_record_correlation")
        .select("event_id", "kind", "stream", "correlation", "device", "until_ns")
        .join(calls, on="correlation")
    )


QUIET_NS = 100_000
"""Time without events, outside ops and calls, after which a thread counts as silent."""

_EVIDENCE = {
    "backward": "thread {} is silent when its backward begins here",
    "forward": "thread {}, which runs the backward of this one, is silent meanwhile",
    "alone": "thread {} alternates with this one, and all others are silent meanwhile",
}

_FIRST = np.iinfo(np.int64).min
_LAST = np.iinfo(np.int64).max


class _Bursts(Struct, frozen=True):
    """Bursts: stretches of a thread between two silences, in the order of threads and time.

    Args:
        lane: the thread.
        first: row of the moment that begins it.
        last: row of the moment that ends it.
        begin_ns: time of the first.
        end_ns: time of the last.
        silent_since_ns: end of the burst before on the thread; the lowest int64 without one.
        silent_until_ns: begin of the next burst on the thread; the highest int64 without one.
    """

    lane: _Ints
    first: _Ints
    last: _Ints
    begin_ns: _Ints
    end_ns: _Ints
    silent_since_ns: _Ints
    silent_until_ns: _Ints


def thread_order(
    timeline: Timeline, tree: pl.DataFrame, forward_backward: pl.DataFrame, moments: Moments
) -> pl.DataFrame:
    """Dependencies from a thread's last event to the first of the thread that takes over.

    A thread takes over from another that was alive after the first fell silent, and that is silent when it begins.
    Proof is one of these: it runs the backward ops of that other one; or that one runs its backward ops and stays
    silent until its burst is over; or all other threads do so, and the two alternate.
    """
    if timeline.of_role(Role.OP).get_column("lane").n_unique() < 2:
        return no_edges()
    signs = _signs(timeline, tree, moments)
    if signs.is_empty() or signs.get_column("lane").n_unique() < 2:
        return no_edges()
    bursts = _bursts(signs)
    before, proofs = _handed_over(bursts, _autograd_pairs(timeline, forward_backward))
    after = np.flatnonzero(before >= 0)
    first, last = signs[bursts.first[after]], signs[bursts.last[before[after]]]
    pairs = pl.DataFrame(
        {
            "before_event": last.get_column("event_id"),
            "before_moment": last.get_column("moment"),
            "after_event": first.get_column("event_id"),
            "after_moment": first.get_column("moment"),
            "lane": last.get_column("lane"),
            "proof": proofs[after],
        }
    ).join(timeline.lanes.select("lane", "tid", "tid_text"), on="lane", how="left")
    thread = pl.coalesce(as_text("tid"), "tid_text", pl.lit("of no number"))
    text = pl.coalesce(
        pl.when(pl.col("proof") == proof).then(pl.format(words, thread)) for proof, words in _EVIDENCE.items()
    )
    return pl.concat(
        edges(
            pairs.filter((pl.col("before_moment") == from_moment) & (pl.col("after_moment") == to_moment)),
            "inter_thread",
            (from_moment, to_moment),
            text,
        )
        for from_moment in (START, END)
        for to_moment in (START, END)
    )


def _signs(timeline: Timeline, tree: pl.DataFrame, moments: Moments) -> pl.DataFrame:
    """Starts and ends of ops, annotations and calls on threads that run ops, by thread and time.

    `busy`: an op or call is open after the moment, so that silence is not informative.
    """
    kinds = dict.fromkeys(categories_of(Role.OP), "op") | dict.fromkeys(categories_of(Role.CALL), "call")
    kinds |= dict.fromkeys(categories_of(Role.ANNOTATION), "range")
    kind = as_text("category").replace_strict(kinds, default=None, return_dtype=pl.String)
    events = timeline.events.select("event_id", "lane", kind.alias("kind"))
    host = events.join(tree.select("event_id", "op_event"), on="event_id")
    host = host.filter(pl.col("kind").is_not_null())
    with_ops = host.filter(pl.col("kind") == "op").get_column("lane").unique()
    if with_ops.len() < 2:
        return host.clear()
    host = host.filter(pl.col("lane").is_in(with_ops.implode()))
    enclosing = events.select(pl.col("event_id").alias("op_event"), pl.col("kind").alias("enclosing"))
    starts = host.with_columns(pl.lit(START).alias("moment"), (pl.col("kind") != "range").alias("busy"))
    ended = host.join(enclosing, on="op_event", how="left", maintain_order="left")
    # An op that ends at the same time as what lies in it is over, too.
    event, outer = (ended.get_column(name) for name in ("event_id", "op_event"))
    goes_on = moments.end_ns[outer.fill_null(event).to_numpy()] > moments.end_ns[event.to_numpy()]
    ends = ended.with_columns(
        pl.lit(END).alias("moment"),
        ((pl.col("enclosing") == "op") & pl.Series(goes_on)).fill_null(False).alias("busy"),
    )
    signs = pl.concat(
        rows.select("event_id", "lane", "moment", "busy").with_columns(
            pl.Series("ns", times[rows.get_column("event_id").to_numpy()]),
            pl.Series("position", positions[rows.get_column("event_id").to_numpy()]),
        )
        for rows, times, positions in (
            (starts, moments.start_ns, moments.start_position),
            (ends, moments.end_ns, moments.end_position),
        )
    )
    # By lane and position: one key of numbers sorts several times faster than two.
    return signs.sort(pl.col("lane").cast(pl.Int64) * (2 * len(moments.start_ns)) + pl.col("position"))


def _bursts(signs: pl.DataFrame) -> _Bursts:
    lane, ns = signs.get_column("lane").to_numpy(), signs.get_column("ns").to_numpy()
    silent = (np.diff(ns) >= QUIET_NS) & ~signs.get_column("busy").to_numpy()[:-1]
    other = lane[1:] != lane[:-1]
    cut = np.flatnonzero(silent | other)
    first, last = np.concatenate([[0], cut + 1]), np.concatenate([cut, [len(lane) - 1]])
    begin, end = ns[first], ns[last]
    changes = lane[first][1:] != lane[first][:-1]
    since = np.concatenate([[_FIRST], np.where(changes, _FIRST, end[:-1])])
    until = np.concatenate([np.where(changes, _LAST, begin[1:]), [_LAST]])
    return _Bursts(lane[first], first, last, begin, end, since, until)


def _handed_over(bursts: _Bursts, autograd: set[tuple[int, int]]) -> tuple[_Ints, NDArray[np.str_]]:
    """For each burst the burst of another thread that it took over from, or -1, and the key of its proof.

    Of several, the first in `_EVIDENCE` wins, then the thread that fell silent last.
    """
    count = len(bursts.lane)
    silent = np.zeros(count, dtype=np.int64)
    best = {proof: np.full(count, -1, dtype=np.int64) for proof in _EVIDENCE}
    lanes = np.unique(bursts.lane)
    for lane in lanes.tolist():
        own = np.flatnonzero(bursts.lane == lane)
        row = own[np.maximum(np.searchsorted(bursts.end_ns[own], bursts.begin_ns, side="right") - 1, 0)]
        ended = bursts.end_ns[row] <= bursts.begin_ns
        until = np.where(ended, bursts.silent_until_ns[row], bursts.begin_ns[own[0]])
        throughout = (until >= bursts.end_ns) & (bursts.lane != lane)
        silent += throughout
        alive = ended & (until > bursts.begin_ns) & (bursts.end_ns[row] > bursts.silent_since_ns)
        may = {
            "backward": alive & np.isin(bursts.lane, [there for here, there in autograd if here == lane]),
            "forward": alive
            & throughout
            & np.isin(bursts.lane, [there for there, here in autograd if here == lane]),
            "alone": alive & throughout,
        }
        for proof, rows in may.items():
            later = rows & ((best[proof] < 0) | (bursts.end_ns[row] > bursts.end_ns[best[proof]]))
            best[proof][later] = row[later]
    best["alone"][(silent < len(lanes) - 1) | ~_alternate(bursts, best["alone"])] = -1
    proofs = np.select([found >= 0 for found in best.values()], list(best), default="")
    return np.select([found >= 0 for found in best.values()], list(best.values()), default=-1), proofs


def _alternate(bursts: _Bursts, before: _Ints) -> NDArray[np.bool_]:
    """Return whether each burst's thread also had the burst ahead of `before`, or that of `before` has the next one."""
    order = np.lexsort((bursts.lane, bursts.begin_ns))
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    lanes = np.concatenate([[-1], bursts.lane[order], [-1]])
    again = lanes[position[before]] == bursts.lane
    alternate: NDArray[np.bool_] = again | (lanes[position + 2] == bursts.lane[before])
    return alternate


def _autograd_pairs(timeline: Timeline, forward_backward: pl.DataFrame) -> set[tuple[int, int]]:
    """Pairs of threads: one, and another that runs the backward of its ops."""
    lane = timeline.events.get_column("lane")
    forward = lane.gather(forward_backward.get_column("forward_event")).to_list()
    backward = lane.gather(forward_backward.get_column("backward_event")).to_list()
    return {(before, after) for before, after in zip(forward, backward, strict=True) if before != after}


class Dependencies(Struct, frozen=True):
    """The table `dependencies`, and the dependencies that evidence names and time contradicts."""

    table: pl.DataFrame
    findings: tuple[Finding, ...]


def find_dependencies(
    timeline: Timeline, tree: pl.DataFrame, device_links: pl.DataFrame, forward_backward: pl.DataFrame
) -> Dependencies:
    """Find the dependencies of each kind, and keep those that go forward in time.

    All moments (starts and ends) stand in one order, in which every event starts before it ends; only dependencies
    that go forward in it are kept. So there is no cycle, whatever the kinds find.
    """
    moments = moments_of(timeline)
    issued = Stage(lambda: issued_work(timeline, device_links))
    of_kinds = [
        _launches(timeline, device_links),
        stream_order(timeline, moments),
        event_waits(timeline, issued),
        recorded_syncs(timeline, issued),
        blocking_calls(timeline, issued, moments),
        blocking_copies(timeline, device_links),
        thread_order(timeline, tree, forward_backward, moments),
        _forward_backward(forward_backward),
    ]
    if all(of_kind.is_empty() for of_kind in of_kinds):
        return Dependencies(DEPENDENCIES.empty(), ())
    found = pl.concat(of_kinds)
    before = moments.positions(found.get_column("before_event"), found.get_column("before_moment"))
    after = moments.positions(found.get_column("after_event"), found.get_column("after_moment"))
    forward = pl.Series((before < after) & (before >= 0))
    return Dependencies(
        _table(found.filter(forward), moments), _contradicted(found.filter(~forward), timeline)
    )


def _table(kept: pl.DataFrame, moments: Moments) -> pl.DataFrame:
    before = moments.times(kept.get_column("before_event"), kept.get_column("before_moment"))
    after = moments.times(kept.get_column("after_event"), kept.get_column("after_moment"))
    pair = ["before_event", "before_moment", "after_event", "after_moment"]
    return (
        kept.with_columns(pl.Series("slack_ns", after - before))
        .unique([*pair, "kind"], keep="first", maintain_order=True)
        .sort("after_event", "after_moment", "kind", "before_event", "before_moment")
        .pipe(DEPENDENCIES.conform)
    )


def _contradicted(against: pl.DataFrame, timeline: Timeline) -> tuple[Finding, ...]:
    asserted = against.filter(ASSERTED)
    findings = []
    for kind in sorted(asserted.get_column("kind").unique()):
        rows = asserted.filter(pl.col("kind") == kind).sort("after_event", "before_event")
        first, second = rows.select("before_event", "after_event").row(0)
        where = f"events {first} and {second}, ..."
        findings.append(
            Finding.of(FindingCode.DEPENDENCY_BACKWARD, timeline.path, where, rows.height, kind=kind)
        )
    return tuple(findings)


def _launches(timeline: Timeline, device_links: pl.DataFrame) -> pl.DataFrame:
    """Dependencies from the start of a call to the start of its work: the call may return later."""
    if device_links.is_empty():
        return no_edges()
    pairs = (
        device_links.select(
            pl.col("event_id").alias("after_event"), pl.col("call_event").alias("before_event")
        )
        .filter(pl.col("before_event").is_not_null())
        .join(
            timeline.device_work.select(pl.col("event_id").alias("after_event"), "correlation"),
            on="after_event",
        )
    )
    return edges(pairs, "launch", START_TO_START, pl.format("correlation {}", "correlation"))


def _forward_backward(forward_backward: pl.DataFrame) -> pl.DataFrame:
    if forward_backward.is_empty():
        return no_edges()
    pairs = forward_backward.rename({"forward_event": "before_event", "backward_event": "after_event"})
    text = pl.format("sequence number {}", "sequence_number")
    return edges(pairs, "forward_backward", END_TO_START, text)
