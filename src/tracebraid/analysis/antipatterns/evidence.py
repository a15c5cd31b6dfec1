"""Shared parts of detectors: recoverable work and idle time, and the final form of evidence."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.analysis.answering import answer
from tracebraid.analysis.device import (
    device_events,
    device_events_by_step,
    event_columns,
    fetched,
    rows_of_events,
)
from tracebraid.analysis.efficiency.counted_ops import counted_ops
from tracebraid.analysis.host.host_rows import events_of_rows, host_rows, kinds, names_of_rows, surroundings
from tracebraid.analysis.host.host_trees import call_sites, host_ops
from tracebraid.analysis.launches.sync_calls import sync_calls
from tracebraid.analysis.time.breakdown import Cover, cover_of
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.model.answers.efficiency import OpFamily
from tracebraid.model.answers.job import EVIDENCE
from tracebraid.model.answers.launches import SyncKind
from tracebraid.model.device_peaks import COMMUNICATION, COMPUTE, MEMORY, WAIT
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.quantities import NS_PER_MS

LAUNCH_NS = 20_000
"""Work that starts so long after its launch returned waited for other work: a launch takes 5 to 10 us."""

_Ints = NDArray[np.int64]
_NEVER = 2**62


class _Stream(Struct, frozen=True):
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


def device_waits(linked: LinkedTrace) -> pl.DataFrame:
    """The calls that waited for a device, on threads that launch computing work; all, where none is known to.

    Columns: start_ns, done_ns (when what they waited for had ended), waited_event; in the order of starts.

    Other threads, such as one that pins memory, hold up no launch by waiting.
    """
    return linked.derived(_device_waits)


def _device_waits(linked: LinkedTrace) -> pl.DataFrame:
    calls = sync_calls(linked).filter((pl.col("kind") != SyncKind.QUERY.value) & (pl.col("blocked_ns") > 0))
    launches = device_events(linked).filter(pl.col("kind") == COMPUTE).get_column("call_event")
    lanes = event_columns(linked.timeline, launches, lane="lane")[0].unique().drop_nulls()
    lane = event_columns(linked.timeline, calls.get_column("call_event"), lane="lane")[0]
    if len(lanes):
        calls = calls.filter(lane.is_in(lanes.implode()).fill_null(value=True))
    return calls.select(
        "start_ns", (pl.col("start_ns") + pl.col("blocked_ns")).alias("done_ns"), "waited_event"
    ).sort("start_ns", "done_ns", "waited_event")


def idle_on_path(linked: LinkedTrace, but: Collection[int] = ()) -> Cover:
    """The idle time that a host that is never late could save at most, from the trace's first event on.

    A path is followed back from the last work: along its stream, where that waits for another stream to that one, and
    where the host waited before the launch, to what it waited for. Along such a path nothing but the idle time can
    become shorter, so the run cannot become shorter by more, whatever other streams do meanwhile.
    """
    return linked.derived(_idle_on_path, tuple(but))


def _idle_on_path(linked: LinkedTrace, but: tuple[int, ...]) -> Cover:
    work = linked.derived(_work)
    waits = device_waits(linked)
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
        if upto >= 0:
            begin = max(leave, 0)
            starts.append(np.minimum(stream.reach[begin : upto + 1], until))
            ends += [stream.starts[begin + 1 : upto + 1], np.array([until])]
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


def device_work(linked: LinkedTrace) -> pl.DataFrame:
    """The device events that do not only wait, by device, lane and start.

    Columns: those of `device_events_by_step`, end_ns, and alone_ns: how much of the event's time nothing else
    computes on its device. What is computed meanwhile has to be computed anyway: only the rest can be saved.
    """
    return linked.derived(_device_work)


def _device_work(linked: LinkedTrace) -> pl.DataFrame:
    work = device_events_by_step(linked).filter(pl.col("kind") != WAIT)
    work = work.with_columns((pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"))
    work = work.sort("device", "lane", "ts_ns", "event_id")
    alone = np.zeros(work.height, dtype=np.int64)
    for device in work.get_column("device").unique().to_list():
        rows = (work.get_column("device") == device).to_numpy()
        alone[rows] = _alone(work.filter(pl.Series(rows)))
    return work.with_columns(pl.Series("alone_ns", alone))


def _alone(work: pl.DataFrame) -> _Ints:
    starts, ends = (work.get_column(name).to_numpy() for name in ("ts_ns", "end_ns"))
    computes = (work.get_column("kind") == COMPUTE).to_numpy()
    any_compute = cover_of(starts[computes], ends[computes])
    several = _covered_twice(starts[computes], ends[computes])
    hidden = np.where(computes, several.within(starts, ends), any_compute.within(starts, ends))
    found: _Ints = ends - starts - hidden
    return found


def _covered_twice(starts: _Ints, ends: _Ints) -> Cover:
    """The moments in which two or more of the intervals run."""
    moments = np.r_[ends, starts]
    change = np.r_[np.full(len(ends), -1), np.ones(len(starts), dtype=np.int64)]
    order = np.argsort(moments, kind="stable")
    running, moments = np.cumsum(change[order]), moments[order]
    twice = np.flatnonzero(running[:-1] >= 2)
    return cover_of(moments[twice], moments[twice + 1])


def evidence_of(linked: LinkedTrace, found: pl.DataFrame) -> pl.DataFrame:
    """Rows of `EVIDENCE` from a detector's occurrences, in the order of starts.

    Those that save nothing are left out.
    """
    if found.is_empty():
        return EVIDENCE.empty()
    long = pl.col("end_ns") - pl.col("start_ns")
    found = found.with_columns(
        pl.min_horizontal("saving_ns", long), pl.col("event_id").cast(pl.Int64)
    ).filter(pl.col("saving_ns") > 0)
    if found.is_empty():
        return EVIDENCE.empty()
    found = found.sort("start_ns", "end_ns", "event_id", maintain_order=True)
    for name, value in (("host_event", pl.col("event_id")), ("subject", pl.lit(None, dtype=pl.String))):
        if name not in found.columns:
            found = found.with_columns(value.alias(name))
    op_event, names = _ops(linked, found.get_column("host_event"))
    step = step_of_moments(found.select(pl.col("start_ns").alias("ts_ns")), step_windows(linked)).get_column(
        "step"
    )
    found = found.with_columns(
        step,
        pl.col("op") if "op" in found.columns else names.alias("op"),
        _of_host(linked, "host_ops", "input_dims", op_event).alias("shapes"),
        _call_sites(linked, found.get_column("host_event")).alias("call_site"),
    )
    return answer(EVIDENCE, found, linked)


def _ops(linked: LinkedTrace, events: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Innermost op around each host event, itself included, and its name, else the annotation's."""
    rows = host_rows(linked).rows(events.fill_null(-1).to_numpy())
    context = surroundings(linked)
    op = context.op[rows]
    names, ranges = (names_of_rows(linked, of).cast(pl.String) for of in (op, context.annotation[rows]))
    return events_of_rows(linked, op), names.zip_with(names.is_not_null(), ranges)


def _of_host(linked: LinkedTrace, table: str, column: str, events: pl.Series) -> pl.Series:
    known = linked.timeline.tables[table]
    rows = rows_of_events(known.get_column("event_id"), events)
    values: pl.Series = fetched(known.select(as_text(column)), rows).to_series()
    return values


def _call_sites(linked: LinkedTrace, events: pl.Series) -> pl.Series:
    sites = call_sites(linked)
    rows = rows_of_events(sites.get_column("event_id"), events)
    found: pl.Series = fetched(sites.select(as_text("call_site")), rows).to_series()
    return found


def is_on_device(linked: LinkedTrace) -> bool:
    """Return whether the trace has device work; else all time is the host's."""
    return not device_events(linked).is_empty()


def idle_after(linked: LinkedTrace, delays: pl.DataFrame, are_waits: bool = False) -> pl.DataFrame:
    """The idle time that follows delays of the host: a row for each idle stretch of each delay.

    Without a delay of length d the host would be d earlier, until it waits for the device the next time. So the step
    is shorter by at most d, and by at most the idle time (see `idle_on_path`) from the delay's start to the start of
    the next wait, or to the last work: what ends a trace delays nothing. Of the idle stretches the first ones count,
    up to d together; what a delay does not use counts for the next, if the host does not wait before. In a trace
    without device work it is the delay itself.
    """
    long = pl.max_horizontal(pl.col("end_ns") - pl.col("start_ns"), 0)
    if delays.is_empty() or not is_on_device(linked):
        return delays.with_columns(long.alias("saving_ns"))
    delays = delays.sort("start_ns", "end_ns", maintain_order=True)
    starts, ends = (delays.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    idle = idle_on_path(linked, starts.tolist() if are_waits else ())
    until = _next_wait(linked, ends, starts if are_waits else None)
    limits = np.minimum(until, np.r_[starts[1:], until[-1:]])
    saving = _ahead(
        idle.within(starts, limits), np.maximum(ends - starts, 0), until >= np.r_[starts[1:], _NEVER]
    )
    return in_stretches(
        idle, delays.with_columns(pl.Series("saving_ns", saving), pl.Series("end_ns", limits))
    )


def _ahead(idle: _Ints, long: _Ints, goes_on: NDArray[np.bool_]) -> _Ints:
    """Idle time that each delay's removal saves; the unused rest puts the host ahead for the next."""
    found, ahead = [], 0
    for room, own, more in zip(idle.tolist(), long.tolist(), goes_on.tolist(), strict=True):
        found.append(min(room, ahead + own))
        ahead = ahead + own - found[-1] if more else 0
    return np.array(found, dtype=np.int64)


def in_idle_stretches(linked: LinkedTrace, found: pl.DataFrame) -> pl.DataFrame:
    """Each row once for each idle stretch in it (`idle_on_path`), up to its saving; so each saves all of its length."""
    return in_stretches(idle_on_path(linked), found)


def in_stretches(idle: Cover, found: pl.DataFrame) -> pl.DataFrame:
    """The same for the stretches of any cover."""
    starts, ends, most = (found.get_column(name).to_numpy() for name in ("start_ns", "end_ns", "saving_ns"))
    first = np.searchsorted(idle.ends, starts, side="right")
    # Rows overlap where they are long: no more stretches of each than its saving needs.
    last = _moment_of(idle, np.minimum(idle.up_to(starts) + most, idle.length))
    count = np.searchsorted(idle.starts, np.minimum(ends, last), side="left") - first
    count = np.where(most > 0, np.maximum(count, 0), 0)
    row = np.repeat(np.arange(len(count)), count)
    stretch = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    begin = np.maximum(idle.starts[stretch], starts[row])
    end = np.minimum(idle.ends[stretch], np.minimum(ends, last)[row])
    exploded: pl.DataFrame = found[row].with_columns(
        pl.Series("start_ns", begin), pl.Series("end_ns", end), pl.Series("saving_ns", end - begin)
    )
    return exploded.filter(pl.col("saving_ns") > 0)


def _next_wait(linked: LinkedTrace, ends: _Ints, but: _Ints | None) -> _Ints:
    """The start of the first call at or after each moment that waited for the device; else the end of the trace.

    Calls that start at a moment of `but` do not count.
    """
    calls = device_waits(linked).get_column("start_ns").to_numpy()
    if but is not None:
        calls = calls[~np.isin(calls, but)]
    last = max(linked.timeline.span_ns or (0, 0))
    moments = np.r_[calls, last]
    found: _Ints = moments[np.minimum(np.searchsorted(moments, ends), len(moments) - 1)]
    return np.maximum(found, ends)


def _moment_of(cover: Cover, length: _Ints) -> _Ints:
    """The first moment before which a cover has some length, at least 1."""
    if not len(cover.starts):
        return length
    upto = cover.before + cover.ends - cover.starts
    interval = np.minimum(np.searchsorted(upto, length), len(cover.starts) - 1)
    found: _Ints = cover.starts[interval] + np.clip(
        length - cover.before[interval], 0, cover.ends[interval] - cover.starts[interval]
    )
    return found


Shape = tuple[int, ...]


def op_table(linked: LinkedTrace) -> pl.DataFrame:
    """One row per op, in the order of `host_tree`.

    Columns: event_id, row (of `host_tree`), lane, start_ns, end_ns, name, dims and types (text, as the trace has them).
    """
    return linked.derived(_op_table)


def _op_table(linked: LinkedTrace) -> pl.DataFrame:
    host = host_rows(linked)
    is_op = pl.Series(kinds(linked)["is_op"], dtype=pl.Boolean)
    rows = pl.DataFrame(
        {
            "event_id": host.event_id,
            "lane": host.lane,
            "start_ns": host.start_ns,
            "end_ns": host.end_ns,
        }
    ).with_row_index("row")
    ops = linked.timeline.host_ops.select(
        "event_id", as_text("input_dims").alias("dims"), as_text("input_types").alias("types")
    )
    names = linked.timeline.events.select(as_text("name")).to_series()
    found = rows.filter(is_op).join(ops, on="event_id", how="left", maintain_order="left")
    return found.with_columns(names.gather(found.get_column("event_id")).alias("name"))


def shapes_of(dims: str | None) -> list[Shape]:
    """The shapes of the tensors among the inputs, those of lists of tensors included; [] where none can be read."""
    try:
        return list(_tensors(json.loads(dims or "[]")))
    except ValueError:
        return []


def _tensors(dims: Any) -> list[Shape]:
    if not isinstance(dims, list) or not dims:
        return []
    if all(isinstance(size, int) for size in dims):
        return [tuple(dims)]
    return [shape for entry in dims for shape in _tensors(entry)]


def numel(shape: Shape) -> int:
    """Count the elements of a shape; 1 without dimensions."""
    product = 1
    for size in shape:
        product *= size
    return product


HOST_STALL_NS = 10 * NS_PER_MS
"""Time between two ops of a host from which on they do not belong together: where other programs compute, too, one
waits for its turn for some milliseconds."""

_NO_COMPUTE = [OpFamily.VIEW.value, OpFamily.UNKNOWN.value]
"""Families of ops that compute nothing, or only call others."""


def in_order_of_ops(linked: LinkedTrace, found: pl.DataFrame) -> pl.DataFrame:
    """Add `first` and `last`: the index of the op `op_event` among the computing ops of its thread."""
    ops = counted_ops(linked).filter(pl.col("is_op") & ~pl.col("family").is_in(_NO_COMPUTE))
    lane = event_columns(linked.timeline, ops.get_column("event_id"), thread="lane")[0]
    numbers = (
        ops.select(lane, "ts_ns", pl.col("event_id").alias("op_event"))
        .sort("thread", "ts_ns", "op_event")
        .select("op_event", pl.int_range(pl.len(), dtype=pl.Int64).alias("first"))
    )
    found = found.drop("first").join(numbers, on="op_event", how="left", maintain_order="left")
    return found.with_columns(pl.col("first").alias("last"))


_WITHIN_DEVICE = r"DtoD|CopyDeviceToDevice"
"""Names of copies that stay in a device's memory."""


def work_of_ops(linked: LinkedTrace, ops: pl.Series) -> pl.DataFrame:
    """One row per op that launched something, in the order of lanes and starts.

    Columns: op_event; device, lane, start_ns, end_ns, first, last (numbers of its first and last event in the order of
    `device_work`), dur_ns, alone_ns (see there), kernels, event_id and kernel (its longest event); leaves: whether it
    copies from or to the host. In a trace without device work each op is its own: `device` is null, `lane` its thread,
    `first` and `last` are null, and `kernel` is null.
    """
    if not linked.timeline.has_device:
        return _of_host_of_work_of_ops(linked, ops)
    work = device_work(linked).with_row_index("number")
    owner = owners_of(linked, work.get_column("op_event"), ops)
    leaves = (pl.col("kind") == MEMORY) & ~pl.col("name").str.contains(_WITHIN_DEVICE)
    longest = pl.col("dur_ns").arg_max()
    return (
        work.with_columns(pl.Series("owner", owner))
        .filter(pl.col("owner") >= 0)
        .group_by("owner", maintain_order=True)
        .agg(
            pl.col("device", "lane").first(),
            pl.col("ts_ns").min().alias("start_ns"),
            pl.col("end_ns").max(),
            pl.col("number").min().cast(pl.Int64).alias("first"),
            pl.col("number").max().cast(pl.Int64).alias("last"),
            pl.col("dur_ns", "alone_ns").sum(),
            pl.len().cast(pl.Int64).alias("kernels"),
            pl.col("event_id", "name").get(longest),
            leaves.any().alias("leaves"),
        )
        .rename({"owner": "op_event", "name": "kernel"})
    )


def owners_of(linked: LinkedTrace, launched_in: pl.Series, ops: pl.Series) -> NDArray[np.int64]:
    """The `event_id` of the innermost of some ops around each op, itself included; -1 if there is none."""
    tree = host_ops(linked)
    wanted = np.isin(tree.event_id, ops.drop_nulls().to_numpy())
    events = launched_in.fill_null(-1).to_numpy()
    known = np.isin(events, tree.event_id) & wanted.any()
    owner = np.full(len(events), -1, dtype=np.int64)
    if known.any():
        rows = tree.nearest(wanted)[tree.rows(events[known])]
        owner[known] = np.where(rows < 0, -1, tree.event_id[rows])
    return owner


def _of_host_of_work_of_ops(linked: LinkedTrace, ops: pl.Series) -> pl.DataFrame:
    rows = host_rows(linked)
    found = np.unique(rows.rows(ops.drop_nulls().to_numpy()))
    found = found[found >= 0]
    found = found[np.lexsort((rows.event_id[found], rows.start_ns[found], rows.lane[found]))]
    event, start, end = rows.event_id[found], rows.start_ns[found], rows.end_ns[found]
    unknown, unnamed = (
        pl.Series([None], dtype=dtype).new_from_index(0, len(found)) for dtype in (pl.Int64, pl.String)
    )
    columns = {
        "op_event": event,
        "lane": rows.lane[found],
        "start_ns": start,
        "end_ns": end,
        "device": unnamed,
        "first": unknown,
        "last": unknown,
        "dur_ns": end - start,
        "alone_ns": end - start,
        "kernels": np.zeros(len(found), dtype=np.int64),
        "event_id": event,
        "kernel": unnamed,
        "leaves": np.zeros(len(found), dtype=np.bool_),
    }
    return pl.DataFrame(columns)
