"""When the work that made the run as long as it is waited for the host: the idle time of one path through streams."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.event_columns import event_columns
from tracebraid.analysis.launches.syncs.sync_calls import sync_calls
from tracebraid.analysis.time.intervals import Cover, cover_of
from tracebraid.model.answers import SyncKind
from tracebraid.model.device_kind import COMMUNICATION, COMPUTE, MEMORY, WAIT
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["LAUNCH_NS", "device_waits", "idle_on_path"]

LAUNCH_NS = 20_000
"""Work that starts so long after its launch returned waited for other work: a launch takes 5 to 10 us."""

_Ints = NDArray[np.int64]
_NEVER = 2**62


@dataclass(frozen=True)
class _Stream:
    """The work of a stream in its order, and where the path may leave it.

    Args:
        starts: starts of its events.
        reach: the latest end up to each of them.
        leaves: of each event the last one up to it whose start something else than its stream or launch decided.
        causes: of each event the moment at which that ended, and the stream on which it did.
    """

    starts: _Ints
    reach: _Ints
    leaves: _Ints
    causes: _Ints
    cause_streams: _Ints


def device_waits(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """The calls that waited for a device, on threads that launch computing work; all, where none is known to.

    Columns: start_ns, done_ns (when what they waited for had ended), waited_event; in the order of starts.

    Other threads, such as one that pins memory, hold up no launch by waiting.
    """
    return linked.derived(_device_waits, annotation)


def _device_waits(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    calls = sync_calls(linked, annotation).filter(
        (pl.col("kind") != SyncKind.QUERY.value) & (pl.col("blocked_ns") > 0)
    )
    launches = device_events(linked).filter(pl.col("kind") == COMPUTE).get_column("call_event")
    lanes = event_columns(linked.timeline, launches, lane="lane")[0].unique().drop_nulls()
    lane = event_columns(linked.timeline, calls.get_column("call_event"), lane="lane")[0]
    if len(lanes):
        calls = calls.filter(lane.is_in(lanes.implode()).fill_null(value=True))
    return calls.select(
        "start_ns", (pl.col("start_ns") + pl.col("blocked_ns")).alias("done_ns"), "waited_event"
    ).sort("start_ns", "done_ns", "waited_event")


def idle_on_path(linked: LinkedTrace, annotation: str, but: Collection[int] = ()) -> Cover:
    """The idle time that a host that is never late could save at most, from the trace's first event on.

    A path is followed back from the last work: along its stream, where that waits for another stream to that one, and
    where the host waited before the launch, to what it waited for. Along such a path nothing but the idle time can
    become shorter, so the run cannot become shorter by more, whatever other streams do meanwhile.

    Args:
        linked: one rank, with device work.
        annotation: what marks a step.
        but: starts of waits that fall away: the path does not follow them.
    """
    return linked.derived(_idle_on_path, annotation, tuple(but))


def _idle_on_path(linked: LinkedTrace, annotation: str, but: tuple[int, ...]) -> Cover:
    work = linked.derived(_work)
    waits = device_waits(linked, annotation)
    stays = ~np.isin(waits.get_column("start_ns").to_numpy(), np.array(but, dtype=np.int64))
    waits = waits.filter(pl.Series(stays, dtype=pl.Boolean))
    streams = _streams(work, waits)
    first, _ = linked.timeline.span_ns or (0, 0)
    starts: list[_Ints] = []
    ends: list[_Ints] = []
    last = work.get_column("end_ns").arg_max()
    if last is None:
        return cover_of(np.empty(0, np.int64), np.empty(0, np.int64))
    number, until = int(work.get_column("number")[last]), int(work.get_column("end_ns")[last])
    while True:
        stream = streams[number]
        upto = int(np.searchsorted(stream.starts, until, side="left")) - 1
        leave = int(stream.leaves[upto]) if upto >= 0 else -1
        events = slice(max(leave, 0), upto + 1)
        busy_until = stream.reach[events]
        starts.append(np.minimum(busy_until, until))
        ends.append(np.r_[stream.starts[events][1:], until][: len(busy_until)])
        if leave < 0:
            begin = int(stream.starts[0]) if upto >= 0 else until
            starts.append(np.array([min(first, begin)]))
            ends.append(np.array([begin]))
            break
        cause = int(stream.causes[leave])
        starts.append(np.array([cause]))
        ends.append(stream.starts[leave : leave + 1])
        number, until = int(stream.cause_streams[leave]), cause
    begins, stops = np.concatenate(starts), np.concatenate(ends)
    idle = stops > begins
    return cover_of(begins[idle], stops[idle])


def _work(linked: LinkedTrace) -> pl.DataFrame:
    """Work with `end_ns`, `returned_ns` of its launch (never, where unknown), and the `number` of its stream."""
    work = device_events(linked).filter(pl.col("kind") != WAIT)
    called, long = event_columns(
        linked.timeline, work.get_column("call_event"), called="ts_ns", long="dur_ns"
    )
    # A call that waits for its own copy returns behind it; it has launched it early on.
    long = pl.select(
        pl.when(work["kind"] == MEMORY).then(pl.min_horizontal(long, LAUNCH_NS)).otherwise(long)
    ).to_series()
    return work.with_columns(
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
        (called + long).fill_null(_NEVER).alias("returned_ns"),
        (pl.struct("device", "lane").rank("dense").cast(pl.Int64) - 1).alias("number"),
    ).sort("number", "ts_ns", "event_id")


def _streams(work: pl.DataFrame, waits: pl.DataFrame) -> list[_Stream]:
    """The streams by their numbers."""
    by_end = work.filter(pl.col("dur_ns") > 0).sort("end_ns", "number", "event_id")
    # Begins with what stands for no end at all: all work may be without duration.
    all_ends = np.r_[-_NEVER, by_end.get_column("end_ns").to_numpy()]
    all_numbers = np.r_[-1, by_end.get_column("number").to_numpy()]
    waited = waits.join(
        work.select(waited_event="event_id", number="number"),
        on="waited_event",
        how="left",
        maintain_order="left",
    ).sort("done_ns", maintain_order=True)
    done, of_wait = (
        waited.get_column("done_ns").to_numpy(),
        waited.get_column("number").fill_null(-1).to_numpy(),
    )
    found = []
    for _, rows in work.group_by("number", maintain_order=True):
        starts, ends, returned, number = (
            rows.get_column(name).to_numpy() for name in ("ts_ns", "end_ns", "returned_ns", "number")
        )
        # A communicator's stream waits for the stream of its caller, whenever it was launched.
        communicates = (rows.get_column("kind") == COMMUNICATION).to_numpy()
        reach = np.maximum.accumulate(ends)
        before = np.r_[np.iinfo(np.int64).min, reach[:-1]]
        # What another stream ended last, before it began.
        other = np.searchsorted(all_ends, starts, side="right") - 1
        late = (communicates | (starts - returned > LAUNCH_NS)) & (other > 0)
        late &= (all_ends[other] > before) & (all_numbers[other] != number)
        cause, of_cause = np.where(late, all_ends[other], -_NEVER), np.where(late, all_numbers[other], -1)
        # The last wait before its launch, if the stream ran dry while the host waited.
        wait = np.searchsorted(done, np.minimum(returned, starts), side="left") - 1
        known = (wait >= 0) & (returned < _NEVER) if len(done) else np.zeros(len(starts), dtype=np.bool_)
        wait = np.maximum(wait, 0)
        if known.any():
            dry = known & ~late & (done[wait] > before) & (of_wait[wait] >= 0) & (of_wait[wait] != number)
            cause, of_cause = np.where(dry, done[wait], cause), np.where(dry, of_wait[wait], of_cause)
        leaves = np.maximum.accumulate(np.where(of_cause >= 0, np.arange(len(starts)), -1))
        found.append(_Stream(starts, reach, leaves, cause, of_cause))
    return found
