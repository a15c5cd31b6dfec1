"""Split idle time into parts with one cause, and add the host activity of each."""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from functools import partial

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.analysis.answering import answer
from tracebraid.analysis.device import device_events, stream_names
from tracebraid.analysis.host.host_rows import (
    NO_ROW,
    by_lane,
    by_rules,
    host_rows,
    innermost_at,
    is_in_role,
    kinds,
    modules_of_rows,
    names_of_places,
    names_of_rows,
    nearest_or_none,
    surroundings,
    thread_timelines,
)
from tracebraid.analysis.launches.synchronising import kinds_of_apis
from tracebraid.analysis.time.breakdown import spans_apart
from tracebraid.analysis.time.idle.stream_waits import (
    CAUSES,
    blamed_threads,
    cause_parts,
    device_spans,
    gap_launches,
    next_ops,
)
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.errors import ArgumentError
from tracebraid.model.analysis import Family, Need, OnPage, Rows, Stored, analysis
from tracebraid.model.answers import DOUBTFUL, RANK, STEP
from tracebraid.model.answers.launches import SyncKind
from tracebraid.model.answers.time import GapSize, HostActivity, IdleCause
from tracebraid.model.category import Role
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.expressions import as_text, by_number
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import CallAction, call_does

_SYNC_OPS = ["aten::item", "aten::_local_scalar_dense", "aten::is_nonzero"]
"""Ops whose result the host reads from the device."""

_DATA_RANGE = "enumerate(DataLoader)#"
_DATA_OPS = ["aten::pin_memory", "aten::_pin_memory"]
_DATA_FRAMES = (
    r"(^|/)torch/utils/data/.*: (__next__|_next_data|_get_data|_try_get_data|fetch|next|__iter__)$"
    r"|(^|/)queue\.py\(\d+\): get$|(^|/)multiprocessing/queues\.py\(\d+\): get$"
)
"""Frames of a program that waits for its DataLoader, or for another thread or process to feed a queue."""

_HOST_BACKEND = r"^(gloo|mpi|ucc):"
_WAIT_FRAMES = r"distributed_c10d\.py\(\d+\): (barrier|monitored_barrier)$|^<built-in method wait of .*Work"
"""Ranges of collectives that run on the host, and frames that wait for a collective."""


_LAUNCHES = (CallAction.LAUNCH_KERNEL, CallAction.LAUNCH_GRAPH, CallAction.COPY, CallAction.FILL)
"""Kinds of work that calls launch by name, where the trace lost the work of all of them."""


def activity_rules(events: pl.DataFrame, with_work: Collection[str] = ()) -> pl.DataFrame:
    """The flags that each event bears by its name and category.

    `is_call`; `is_launch`, a call that launches; `is_data`, it waits for data; `is_sync`, for the device;
    `is_collective`.
    """
    name = pl.col("name")
    op, call, frame = (is_in_role(role) for role in (Role.OP, Role.CALL, Role.PYTHON))
    named = is_in_role(Role.OP, Role.ANNOTATION)
    return events.select(
        call.alias("is_call"),
        (
            call
            & pl.any_horizontal(name.is_in(with_work), *(call_does(name, action) for action in _LAUNCHES))
        ).alias("is_launch"),
        (
            (named & (name.str.starts_with(_DATA_RANGE) | name.is_in(_DATA_OPS)))
            | (frame & name.str.contains(_DATA_FRAMES))
        ).alias("is_data"),
        ((call & name.is_in(_synchronising(events))) | (op & name.is_in(_SYNC_OPS))).alias("is_sync"),
        ((named & name.str.contains(_HOST_BACKEND)) | (frame & name.str.contains(_WAIT_FRAMES))).alias(
            "is_collective"
        ),
    )


def _synchronising(events: pl.DataFrame) -> list[str]:
    """Names of calls that wait for the device; an event query does not wait."""
    calls = events.filter(is_in_role(Role.CALL)).get_column("name")
    kinds = kinds_of_apis(calls).filter(pl.col("named_kind") != SyncKind.QUERY.value)
    return kinds.get_column("api").to_list()


_Ints = NDArray[np.int64]


class Activity(IntEnum):
    """The activities of a host thread by number."""

    OUTSIDE_OF_OPS = 0
    PYTHON = 1
    COMPUTED = 2
    COMMUNICATED = 3
    CALLED = 4
    LAUNCHED = 5
    SYNCHRONIZED = 6
    WAITED_FOR_DATA = 7
    WORKS = 2


ACTIVITIES: tuple[str, ...] = tuple(HostActivity[activity.name].value for activity in Activity)
"""The code of each activity, by its number."""

FIRST_OF_WORK = Activity.COMPUTED
"""First activity that shows that a thread works itself instead of waiting for another."""

_BLOCKING_COPY = r"(DtoH|DeviceToHost).*Pageable"
"""Copies to pageable memory of the host: their call returns when the copy is done, asynchronous or not."""


class HostContext(Struct, frozen=True):
    """Host activity for each row of `HostRows`, itself included, as rows; -1 if there is none.

    One more row at the end, which index -1 finds, stands for no host event at all.

    Args:
        activity: a number of `Activity`.
        sync: innermost call or op that synchronizes.
    """

    activity: NDArray[np.int8]
    sync: _Ints


def host_context(linked: LinkedTrace) -> HostContext:
    """The context of all host events, computed once."""
    return linked.derived(_host_context)


def _host_context(linked: LinkedTrace) -> HostContext:
    rules = partial(activity_rules, with_work=_calls_with_work(linked))
    flags, kind = by_rules(linked, rules), kinds(linked)

    def nearest(name: str) -> _Ints:
        return nearest_or_none(linked, flags[name])

    is_frame = kind["is_frame"]
    code = nearest_or_none(linked, kind["is_op"] | is_frame)
    call = nearest_or_none(linked, kind["is_op"] | is_frame | flags["is_call"])
    is_op = np.r_[kind["is_op"], False].astype(np.bool_)
    sync = nearest_or_none(linked, flags["is_sync"] | _blocking_copies(linked))
    activity = np.select(
        [
            nearest("is_data") >= 0,
            sync >= 0,
            nearest("is_launch") >= 0,
            nearest("is_collective") >= 0,
            call != code,
            is_op[code],
            code >= 0,
        ],
        [
            np.int8(number)
            for number in (
                Activity.WAITED_FOR_DATA,
                Activity.SYNCHRONIZED,
                Activity.LAUNCHED,
                Activity.COMMUNICATED,
                Activity.CALLED,
                Activity.COMPUTED,
                Activity.PYTHON,
            )
        ],
        np.int8(Activity.OUTSIDE_OF_OPS),
    )
    return HostContext(activity.astype(np.int8), sync)


def _calls_with_work(linked: LinkedTrace) -> list[str]:
    """Names of calls of which any has device work."""
    calls = linked.launches.get_column("call_event").drop_nulls().unique()
    names = linked.timeline.events.get_column("name").gather(calls)
    found: list[str] = names.unique().cast(pl.String).drop_nulls().to_list()
    return found


def _blocking_copies(linked: LinkedTrace) -> NDArray[np.bool_]:
    """The rows of the calls of copies that the host waits for."""
    host = host_rows(linked)
    copies = device_events(linked).filter(pl.col("name").str.contains(_BLOCKING_COPY))
    calls = host.rows(copies.get_column("call_event").drop_nulls().to_numpy())
    found = np.zeros(len(host.event_id), dtype=np.bool_)
    found[calls[calls >= 0]] = True
    return found


_BY_HOST = [
    CAUSES.index(cause.value) for cause in (IdleCause.HOST_LATE, IdleCause.NO_MORE_WORK, IdleCause.UNKNOWN)
]
"""Causes for which the host activity is determined."""


def idle_segments(linked: LinkedTrace) -> pl.DataFrame:
    """Split the parts of `cause_parts` further where the host's innermost event changes, in time order.

    Columns: `part`, `row` (of `gap_launches`), `start_ns`, `end_ns`, `cause`; `activity`, a number of `Activity`, null
    where the host is not the cause; and rows of `HostRows`, -1 for none: `op`, `top_op`, `annotation`, `module`; and
    `frame`, a number of `frame_places`.

    Where the host is the cause, a segment is about the thread that launched what ended the gap, if the trace
    shows that it works then; else about its partner, if that works; else about the thread itself if it is in any
    event, and then the partner. A thread that has no annotation or frame of its own borrows those of the other: the
    backward pass runs inside what the main thread called. Of other causes the op is that of the launch.
    """
    parts = cause_parts(linked).with_row_index("part").with_columns(pl.col("part").cast(pl.Int64))
    by_host = pl.col("cause").is_in(_BY_HOST)
    late = parts.filter(by_host)
    found = pl.concat([_of_launches(linked, parts.filter(~by_host)), _of_host(linked, late)])
    # Each of the two is in the order of its parts: a stable sort keeps the order within a part.
    return found[np.argsort(found.get_column("part").to_numpy(), kind="stable")]


def _of_launches(linked: LinkedTrace, parts: pl.DataFrame) -> pl.DataFrame:
    """Add the context of the launch to parts; the call's op counts, or the op that the work names."""
    launch = gap_launches(linked).select(pl.coalesce("call_event", "op_event").fill_null(-1))
    events = launch.to_series().to_numpy()[parts.get_column("row").to_numpy()]
    rows = host_rows(linked).rows(events)
    within = surroundings(linked)
    return parts.with_columns(
        pl.lit(None, dtype=pl.Int8).alias("activity"),
        pl.Series("op", within.op[rows]),
        pl.Series("top_op", within.top_op[rows]),
        pl.Series("annotation", within.annotation[rows]),
        pl.Series("module", within.module[rows]),
        pl.Series("frame", within.place[rows]),
    )


def _of_host(linked: LinkedTrace, parts: pl.DataFrame) -> pl.DataFrame:
    threads = blamed_threads(linked)[parts.get_column("row").to_numpy()]
    start, end = (parts.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    thread, partner = (threads.get_column(name).to_numpy() for name in ("thread", "partner"))
    index, moments = _split(linked, start, end, (thread, partner))
    ends = np.r_[moments[1:], 0]
    last = np.r_[index[1:] != index[:-1], True] if len(index) else np.empty(0, dtype=np.bool_)
    ends = np.where(last, end[index], ends[: len(index)])
    own, other = (innermost_at(linked, lanes[index], moments) for lanes in (thread, partner))
    context, within = host_context(linked), surroundings(linked)
    own_works, other_works = (context.activity[rows] >= FIRST_OF_WORK for rows in (own, other))
    by_own = own_works | (~other_works & (own != NO_ROW))
    rows, helping = np.where(by_own, own, other), np.where(by_own, other, own)
    return parts[index].with_columns(
        pl.Series("start_ns", moments),
        pl.Series("end_ns", ends),
        pl.Series("activity", context.activity[rows]),
        pl.Series("op", within.op[rows]),
        pl.Series("top_op", within.top_op[rows]),
        pl.Series("annotation", _first(within.annotation, rows, helping)),
        pl.Series("module", within.module[rows]),
        pl.Series("frame", _first(within.place, rows, helping)),
    )


def _first(enclosing: _Ints, rows: _Ints, others: _Ints) -> _Ints:
    found: _Ints = np.where(enclosing[rows] >= 0, enclosing[rows], enclosing[others])
    return found


def _split(
    linked: LinkedTrace, start: _Ints, end: _Ints, threads: tuple[_Ints, _Ints]
) -> tuple[_Ints, _Ints]:
    """The moments at which segments begin, with the index of their interval: its start, and changes of its threads."""
    indices, moments = [np.arange(len(start))], [start]
    timelines = thread_timelines(linked)
    for lanes in threads:
        for lane, members in by_lane(lanes):
            if lane in timelines:
                index, moment = timelines[lane].changes_within(start[members], end[members])
                indices.append(members[index])
                moments.append(moment)
    index, moment = np.concatenate(indices), np.concatenate(moments)
    order = np.lexsort((moment, index))
    index, moment = index[order], moment[order]
    distinct = np.ones(len(index), dtype=np.bool_)
    distinct[1:] = (index[1:] != index[:-1]) | (moment[1:] != moment[:-1])
    return index[distinct], moment[distinct]


def segments_in_windows(linked: LinkedTrace, per_step: bool) -> pl.DataFrame:
    """The segments of `idle_segments`, cut to each device's span or to the steps: with `device`, `step`, `window`.

    They are in the order of devices, windows and time. A segment lies in each of several steps that overlap.
    """
    segments = idle_segments(linked)
    devices = gap_launches(linked).get_column("device")
    of_segments = devices.gather(segments.get_column("row"))
    found = [_cut(segments.clear(), "", _windows_of(0, 0))]
    steps = spans_apart(linked) if per_step else None
    for device, start, end in device_spans(linked).iter_rows():
        windows = _windows_of(start, end) if steps is None else steps
        of_device = segments.filter(of_segments == device)
        found.append(_cut(of_device, device, windows))
    return pl.concat(found)


def _windows_of(start: int, end: int) -> pl.DataFrame:
    schema = {"step": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64}
    return pl.DataFrame([(None, start, end)], schema=schema, orient="row")


def _cut(segments: pl.DataFrame, device: str, windows: pl.DataFrame) -> pl.DataFrame:
    """Segments that are in order and do not overlap, cut to each window."""
    start, end = (segments.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    begin, stop = (windows.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    first = np.searchsorted(end, begin, side="right")
    count = np.maximum(np.searchsorted(start, stop, side="left") - first, 0)
    window = np.repeat(np.arange(len(begin)), count)
    index = first[window] + np.arange(len(window)) - np.repeat(np.cumsum(count) - count, count)
    names = windows.get_column("step")
    found: pl.DataFrame = segments[index]
    return found.with_columns(
        pl.Series("start_ns", np.maximum(start[index], begin[window])),
        pl.Series("end_ns", np.minimum(end[index], stop[window])),
        pl.lit(device).alias("device"),
        names.gather(window).alias("step"),
        pl.Series("window", window, dtype=pl.Int64),
    ).filter(pl.col("end_ns") > pl.col("start_ns"))


MACRO_NS = 100_000
"""A gap of this length is macro: HTA counts a delay of a launch over 100 µs (`launch_delay_cutoff`) as an outlier.
What is shorter is of the size of a few launches, each 5 to 10 µs of the host's time."""

CONTEXT = ("op", "top_op", "annotation", "module", "frame")
"""Context of the host."""


def idle_parts(linked: LinkedTrace, per_step: bool) -> pl.DataFrame:
    """The parts of all gaps, cut to windows, in the order of devices, windows and time.

    Columns: `device`, `step`, `window`, `start_ns`, `dur_ns`, `cause` (a number), `row` (of `gap_launches`), `gap`,
    `gap_ns`, `size`, `sync_call`.
    """
    return linked.derived(_parts_and_contexts, per_step)[0]


def contexts_of_parts(linked: LinkedTrace, per_step: bool) -> pl.DataFrame:
    """Host activity in each part, with its duration.

    Columns: `index`, the part's row in `idle_parts`, rising; `activity` (a number); names as categoricals: those of
    `CONTEXT`; `dur_ns`.
    """
    return linked.derived(_parts_and_contexts, per_step)[1]


def _numbered(linked: LinkedTrace, per_step: bool) -> pl.DataFrame:
    """The segments with the `index` of their part."""
    segments = segments_in_windows(linked, per_step)
    part, window = (segments.get_column(name).to_numpy() for name in ("part", "window"))
    changes = np.zeros(len(part), dtype=np.int64)
    changes[1:] = (part[1:] != part[:-1]) | (window[1:] != window[:-1])
    return segments.with_columns(pl.Series("index", np.cumsum(changes)))


def _parts_and_contexts(linked: LinkedTrace, per_step: bool) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Both, for the segments that they are made of are many, and not kept."""
    segments = _numbered(linked, per_step)
    return _idle_parts(linked, segments), _contexts_of_parts(linked, segments)


def _idle_parts(linked: LinkedTrace, segments: pl.DataFrame) -> pl.DataFrame:
    first = np.flatnonzero(np.diff(segments.get_column("index").to_numpy(), prepend=-1))
    last = np.r_[first[1:], segments.height][: len(first)] - 1
    parts = segments[first].select("device", "step", "window", "start_ns", "cause", "row")
    ends = segments.get_column("end_ns").gather(last)
    gaps = linked.derived(_gaps)[parts.get_column("row").to_numpy()]
    return pl.concat([parts, gaps], how="horizontal").with_columns(
        (ends - parts.get_column("start_ns")).alias("dur_ns")
    )


def _contexts_of_parts(linked: LinkedTrace, segments: pl.DataFrame) -> pl.DataFrame:
    names_of = {"module": modules_of_rows, "frame": names_of_places}
    names = [
        names_of.get(name, names_of_rows)(linked, segments.get_column(name).to_numpy()).alias(name)
        for name in CONTEXT
    ]
    # Columns without any value, such as frames where there are no stacks, would only make the grouping slow.
    known = [column.name for column in names if column.null_count() < len(column)]
    return (
        segments.select("index", "activity", *names, (pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns"))
        .group_by("index", "activity", *known, maintain_order=True)
        .agg(pl.col("dur_ns").sum(), *(pl.col(name).first() for name in CONTEXT if name not in known))
        .select("index", "activity", *CONTEXT, "dur_ns")
    )


def _gaps(linked: LinkedTrace) -> pl.DataFrame:
    """Columns of each row of `gap_launches`: `gap`, `gap_ns`, `size`, `sync_call`."""
    macro = pl.col("gap_ns") >= MACRO_NS
    return (
        gap_launches(linked)
        .select("gap", (pl.col("end_ns") - pl.col("start_ns")).alias("gap_ns"))
        .with_columns(
            pl.when(macro)
            .then(pl.lit(GapSize.MACRO.value))
            .otherwise(pl.lit(GapSize.MICRO.value))
            .alias("size"),
            _sync_calls(linked),
        )
    )


def _sync_calls(linked: LinkedTrace) -> pl.Series:
    """Call or op that synchronized the host with the device at the start of each gap."""
    before = gap_launches(linked).get_column("start_ns").to_numpy() - 1
    threads = blamed_threads(linked)
    sync = host_context(linked).sync
    found = np.full(len(before), NO_ROW, dtype=np.int64)
    for column in ("partner", "thread"):
        rows = sync[innermost_at(linked, threads.get_column(column).to_numpy(), before)]
        found = np.where(rows >= 0, rows, found)
    return names_of_rows(linked, found).alias("sync_call")


def in_codes() -> list[pl.Expr]:
    """The columns `cause` and `host_activity`, from the numbers in `cause` and `activity`; null stays null."""
    return [_code("cause", CAUSES).alias("cause"), _code("activity", ACTIVITIES).alias("host_activity")]


def _code(column: str, codes: tuple[str, ...]) -> pl.Expr:
    return pl.lit(pl.Series(codes)).gather(pl.col(column).cast(pl.UInt32))


_KEY = ["step", "device", "cause", "activity", "size"]
_USES = (
    Need.DEVICE_WORK,
    Need.LAUNCHES,
    Need.KNOWN_CALLS,
    Need.STEPS,
    Need.STACKS,
    Need.MODULES,
    Need.SYNC_EVENTS,
)


_DEVICE = Column("device", Kind.TEXT, "device number; `cpu` for a trace without device work")

_CAUSE = Column("cause", Kind.TEXT, "a code of `IdleCause`")

_SIZE = Column("size", Kind.TEXT, "a code of `GapSize`, by the length of the whole gap")

IDLE_CAUSES = Table(
    "idle_causes",
    "One row per cause of idle time. The rows of a step and device add up to its idle time in `breakdown`, exactly.",
    (
        RANK,
        STEP,
        _DEVICE,
        _CAUSE,
        Column("host_activity", Kind.TEXT, "a code of `HostActivity`; null: the work had been launched"),
        _SIZE,
        Column("idle_ns", Kind.INT, "idle time"),
        Column("count", Kind.INT, "gaps in which it lies"),
        Column("share", Kind.FLOAT, "of all idle time of the step and device, 0 to 1"),
        Column(
            "after_sync_ns",
            Kind.INT,
            "how much of it lies in gaps that began while the host synchronized with the device",
        ),
        DOUBTFUL,
    ),
)


@analysis(
    IDLE_CAUSES,
    Family.TIME,
    uses=_USES,
    shown="cause host_activity size idle_ns share count after_sync_ns",
    when_empty="no device is ever idle",
    formula=(
        "A device is idle when nothing runs on any of its streams. The first event behind a gap, and the "
        "call that launched it, decide the cause: before the call begins the host is late; a call on an "
        "empty queue is launch latency; work that was in its queue when the gap began was queued, or "
        "waited for another stream. The rows add up to the idle time of the breakdown."
    ),
    on_page=OnPage(),
    stored=Stored.OF_FEW_EVENTS,
)
def idle_causes(linked: LinkedTrace, per_step: bool = False) -> pl.DataFrame:
    """Why is the device idle?

    Idle time by cause and host activity, largest first.

    Every nanosecond of the idle time of `breakdown` has one cause; the rules are those of `cause_parts`.

    Args:
        linked: one rank.
        per_step: rows for each step, instead of over all.
    """
    parts = idle_parts(linked, per_step)
    if parts.is_empty():
        return IDLE_CAUSES.empty()
    by_part = contexts_of_parts(linked, per_step).group_by("index", "activity", maintain_order=True)
    found = by_part.agg(pl.col("dur_ns").sum())
    of_part = parts.select("step", "device", "cause", "size", "window", "row", "sync_call")
    duration = pl.col("dur_ns")
    return (
        pl.concat([found, of_part[found.get_column("index").to_numpy()]], how="horizontal")
        .group_by(_KEY, maintain_order=True)
        .agg(
            duration.sum().alias("idle_ns"),
            pl.struct("window", "row").n_unique().alias("count"),
            duration.filter(pl.col("sync_call").is_not_null()).sum().alias("after_sync_ns"),
        )
        .with_columns((pl.col("idle_ns") / pl.col("idle_ns").sum().over("step", "device")).alias("share"))
        .sort("idle_ns", "cause", "activity", "size", descending=[True, False, False, False])
        .sort(*by_number("device"), maintain_order=True)
        .with_columns(in_codes())
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(IDLE_CAUSES, frame, linked))
    )


_NONE = len(ACTIVITIES)
"""Stands for no activity of the host."""


_OP = Column("op", Kind.TEXT, "innermost op that the host ran; null: none")

_TOP_OP = Column("top_op", Kind.TEXT, "outermost op around it, or itself; null: none")

_ANNOTATION = Column("annotation", Kind.TEXT, "innermost annotation that is no step; null: none")

_MODULE = Column(
    "module",
    Kind.TEXT,
    "innermost nn.Module (`Linear_0`), in backward that of the forward op; null: none known",
)

_FRAME = Column(
    "frame", Kind.TEXT, "innermost Python frame of the user's, else any; null: none, or no stacks"
)

IDLE_GAPS = Table(
    "idle_gaps",
    "One row per part of a gap with one cause. All lengths add up to the idle time of `breakdown`, exactly.",
    (
        RANK,
        STEP,
        _DEVICE,
        Column("gap", Kind.INT, "number of the gap on its device, in the order of time"),
        Column("start_ns", Kind.INT, "start of the part"),
        Column("dur_ns", Kind.INT, "its length"),
        Column("gap_ns", Kind.INT, "length of the whole gap, beyond the step too"),
        _SIZE,
        _CAUSE,
        Column(
            "host_activity",
            Kind.TEXT,
            "a code of `HostActivity`: the main host activity of the part; null: the work had been launched",
        ),
        Column("host_activity_ns", Kind.INT, "its time in the part; null without `host_activity`"),
        _OP,
        _TOP_OP,
        _ANNOTATION,
        _MODULE,
        _FRAME,
        Column(
            "sync_call",
            Kind.TEXT,
            "call or op that synchronized the host with the device when it ran dry; null: none",
        ),
        Column("next_event", Kind.INT, "the event that ended the gap; null: none"),
        Column("next_name", Kind.TEXT, "its name"),
        Column("next_stream", Kind.TEXT, "its stream, or its thread for `cpu`"),
        Column("next_call", Kind.TEXT, "name of the call that launched it; null: none in the trace"),
        Column("next_op", Kind.TEXT, "name of the op that launched it, for `cpu` its own; null: none"),
        DOUBTFUL,
    ),
)


@analysis(
    IDLE_GAPS,
    Family.TIME,
    uses=_USES,
    shown=("gap start_ns dur_ns cause host_activity op frame next_name sync_call module annotation"),
    picked_by=("dur_ns",),
    when_empty="no device is ever idle",
    formula=(
        "Each part of a gap in which no stream of the device has work, by its cause, with what the host "
        "did most of it."
    ),
    on_page=OnPage(Rows.LONG_TABLE_ROWS, by=("dur_ns",)),
)
def idle_gaps(linked: LinkedTrace, per_step: bool = False) -> pl.DataFrame:
    """When is the device idle, and what is the host doing?

    The gaps of each device in parts with one cause, in the order of time.

    A part has the activity that took the most of the host's time in it, and of that the op, annotation, module and
    frame that together took the most. `idle_causes` and `idle_blame` count every nanosecond by its own cause.

    Args:
        linked: one rank.
        per_step: the gaps in each step, cut at its start and end, instead of those of the whole trace.
    """
    parts = idle_parts(linked, per_step)
    if parts.is_empty():
        return IDLE_GAPS.empty()
    of_gap = linked.derived(_next)[parts.get_column("row").to_numpy()]
    longest = _longest(contexts_of_parts(linked, per_step), parts.height)
    frame = pl.concat([parts, longest, of_gap], how="horizontal").with_columns(in_codes())
    return answer(IDLE_GAPS, frame.sort("window", maintain_order=True), linked)


def _longest(contexts: pl.DataFrame, parts: int) -> pl.DataFrame:
    """Longest activity of each part, `host_activity_ns`, and its longest context."""
    index = contexts.get_column("index").to_numpy()
    activity = contexts.get_column("activity").fill_null(_NONE).to_numpy()
    duration = contexts.get_column("dur_ns").to_numpy()
    by_activity = np.zeros((parts, _NONE + 1), dtype=np.int64)
    np.add.at(by_activity, (index, activity), duration)
    longest = by_activity.argmax(axis=1)
    best = np.flatnonzero(activity == longest[index])
    best = best[np.lexsort((-duration[best], index[best]))]
    first = best[np.flatnonzero(np.diff(index[best], prepend=-1))]
    known = pl.col("activity").is_not_null()
    return contexts[first].select(
        "activity",
        pl.when(known).then(pl.Series(by_activity[index[first], activity[first]])).alias("host_activity_ns"),
        *CONTEXT,
    )


def _next(linked: LinkedTrace) -> pl.DataFrame:
    """End of each row of `gap_launches`: `next_event`, `next_name`, `next_stream`, `next_call`, `next_op`."""
    gaps = gap_launches(linked)
    names = linked.timeline.events.get_column("name")
    return pl.DataFrame(
        [
            gaps.get_column("next_event"),
            names.gather(gaps.get_column("next_event")).alias("next_name"),
            stream_names(linked).gather(gaps.get_column("next_lane")).alias("next_stream"),
            names.gather(gaps.get_column("call_event")).alias("next_call"),
            next_ops(linked),
        ]
    )


_WHAT = ("host_activity", *CONTEXT, "next_op")
"""Host activity and context."""

_LATE = CAUSES.index(IdleCause.HOST_LATE.value)


IDLE_BLAME = Table(
    "idle_blame",
    "One row per thing that the host did while it was late. All rows add up to the cause `host-late` of `idle_causes`.",
    (
        RANK,
        STEP,
        _DEVICE,
        Column("host_activity", Kind.TEXT, "a code of `HostActivity`; null: summed over all"),
        _OP,
        _TOP_OP,
        _ANNOTATION,
        _MODULE,
        _FRAME,
        Column(
            "next_op",
            Kind.TEXT,
            "if the host ran no op: the op that launched next; null: none, or it ran one",
        ),
        Column("idle_ns", Kind.INT, "idle time in which the host did that"),
        Column("count", Kind.INT, "gaps in which it lies"),
        Column("longest_ns", Kind.INT, "the most of it in a single gap"),
        Column("share", Kind.FLOAT, "of all idle time of the step and device, 0 to 1"),
        DOUBTFUL,
    ),
)


@analysis(
    IDLE_BLAME,
    Family.TIME,
    uses=_USES,
    shown=("host_activity op idle_ns share count frame next_op module annotation longest_ns top_op"),
    when_empty="no idle time of a device is known to be the host's",
    formula=(
        "Of the time in which the host was late: what its launching thread did in each nanosecond of the "
        "gap. The rows add up to the cause 'host late'."
    ),
    on_page=OnPage(Rows.TABLE_ROWS, by=("idle_ns",)),
    stored=Stored.OF_FEW_EVENTS,
)
def idle_blame(linked: LinkedTrace, per_step: bool = False, by: str | None = None) -> pl.DataFrame:
    """Which op, module and line leave the device waiting?

    Time in which the host was late, by host activity, largest first.

    Args:
        linked: one rank.
        per_step: rows for each step, instead of over all.
        by: a single column to sum by; other columns of host activity are then null: `host_activity`, `op`,
            `top_op`, `annotation`, `module`, `frame` or `next_op`; None: a row for each combination of them.

    Raises:
        ArgumentError: there is no such column to sum by.
    """
    if by is not None and by not in _WHAT:
        raise ArgumentError(f"idle_blame does not sum by {by!r}; it sums by {', '.join(_WHAT)}")
    late = linked.derived(_late, per_step)
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
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(IDLE_BLAME, frame, linked))
    )


def _late(linked: LinkedTrace, per_step: bool) -> pl.DataFrame:
    """Host activity while it was late: `index` of the part, `_WHAT`, `dur_ns`, and `all_ns`, all idle time."""
    parts = idle_parts(linked, per_step)
    contexts = contexts_of_parts(linked, per_step)
    of_part = parts.select(
        "step",
        "device",
        "cause",
        next_ops(linked).gather(parts.get_column("row")),
        pl.col("dur_ns").sum().over("step", "device").alias("all_ns"),
    )[contexts.get_column("index").to_numpy()]
    return (
        pl.concat([contexts, of_part], how="horizontal")
        .filter(pl.col("cause") == _LATE)
        .with_columns(pl.when(pl.col("op").is_null()).then("next_op").alias("next_op"), in_codes()[1])
    )
