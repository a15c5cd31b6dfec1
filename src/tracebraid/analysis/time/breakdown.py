"""Sets of moments on a line: how much of a window some intervals cover, overlaps counted once."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.analysis.answering import answer
from tracebraid.analysis.device import COMPILING, device_events, event_columns
from tracebraid.analysis.time.step_windows import BEFORE_ALL_NS, step_of_moments, step_windows, windows_apart
from tracebraid.model.analysis import Family, Need, OnPage, Stored, analysis
from tracebraid.model.answers import DOUBTFUL, RANK, STEP
from tracebraid.model.category import Role, categories_of
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.device_peaks import COMMUNICATION, COMPUTE, MEMORY, WAIT, host_op_communicates
from tracebraid.model.expressions import as_text
from tracebraid.model.gaps import Gap
from tracebraid.model.linked_trace import LinkedTrace

_Ints = NDArray[np.int64]


class Cover(Struct, frozen=True):
    """The union of some intervals, disjoint and in order, and how much lies before each of them.

    Args:
        starts: starts of the intervals, rising.
        ends: their ends; each is at most the next start.
        before: length of all intervals before each.
    """

    starts: _Ints
    ends: _Ints
    before: _Ints

    @property
    def length(self) -> int:
        """Length of the whole union."""
        return int((self.ends - self.starts).sum())

    def up_to(self, moments: _Ints) -> _Ints:
        """Part of the union before each moment."""
        if not len(self.starts):
            return np.zeros(len(moments), dtype=np.int64)
        interval = np.maximum(np.searchsorted(self.starts, moments, side="right") - 1, 0)
        into = np.clip(moments - self.starts[interval], 0, self.ends[interval] - self.starts[interval])
        covered: _Ints = self.before[interval] + into
        return covered

    def within(self, starts: _Ints, ends: _Ints) -> _Ints:
        """Part of the union in each window [start, end)."""
        return self.up_to(ends) - self.up_to(starts)

    def shared_within(self, other: Cover, starts: _Ints, ends: _Ints) -> _Ints:
        """Part of each window [start, end) that both unions cover."""
        shared = other.within(self.starts, self.ends)
        before = np.cumsum(shared) - shared

        def up_to(moments: _Ints) -> _Ints:
            if not len(self.starts):
                return np.zeros(len(moments), dtype=np.int64)
            interval = np.maximum(np.searchsorted(self.starts, moments, side="right") - 1, 0)
            reach = np.clip(moments, self.starts[interval], self.ends[interval])
            covered: _Ints = before[interval] + other.within(self.starts[interval], reach)
            return covered

        return up_to(ends) - up_to(starts)


def owned(starts: _Ints, ends: _Ints) -> tuple[_Ints, _Ints]:
    """Part of each interval not covered by earlier-starting ones; the parts are disjoint."""
    reach = np.r_[starts[:1], np.maximum.accumulate(ends)[:-1]] if len(starts) else starts
    first = np.maximum(starts, reach)
    return first, np.maximum(ends, first)


def cover_of(starts: _Ints, ends: _Ints) -> Cover:
    """The union of the intervals [start, end), in any order; an interval without length covers nothing."""
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    reach = np.maximum.accumulate(ends) if len(ends) else ends
    opens = np.r_[True, starts[1:] > reach[:-1]] if len(starts) else np.empty(0, dtype=np.bool_)
    first = np.flatnonzero(opens)
    merged_starts = starts[first]
    merged_ends = (
        np.maximum(reach[np.r_[first[1:] - 1, len(reach) - 1]], merged_starts) if len(first) else ends
    )
    length = merged_ends - merged_starts
    return Cover(merged_starts, merged_ends, np.cumsum(length) - length)


HOST = "cpu"
"""Value of `device` for host work, if a trace has no device work."""


def work_events(linked: LinkedTrace) -> pl.DataFrame:
    """Columns: event_id, name, kind, device, lane, ts_ns, dur_ns, op_event; events that only wait are left out.

    Without device events they are the host's ops, as device `cpu`: those of a communication library communicate, and
    so do the annotations that its backends make; all other ops compute, but for the timers of torch.compile. The
    `op_event` of each is itself.
    """
    return linked.derived(_work_events)


def _work_events(linked: LinkedTrace) -> pl.DataFrame:
    events = device_events(linked).filter(pl.col("kind") != WAIT).drop("call_event")
    return _host_events(linked) if events.is_empty() else events


def _host_events(linked: LinkedTrace) -> pl.DataFrame:
    ops = linked.timeline.of_role(Role.OP, Role.ANNOTATION)
    communicates = pl.col("communicates")
    is_op = as_text("category").is_in(categories_of(Role.OP)) & ~as_text("name").str.contains(COMPILING)
    return (
        ops.with_columns(host_op_communicates(ops))
        .filter(is_op | communicates)
        .select(
            "event_id",
            as_text("name"),
            pl.when(communicates).then(pl.lit(COMMUNICATION)).otherwise(pl.lit(COMPUTE)).alias("kind"),
            pl.lit(HOST).alias("device"),
            "lane",
            "ts_ns",
            "dur_ns",
            pl.col("event_id").alias("op_event"),
        )
    )


def compute_cover(linked: LinkedTrace, device: str) -> Cover:
    """The moments in which something computes on a device."""
    return linked.derived(_compute_cover, device)


def _compute_cover(linked: LinkedTrace, device: str) -> Cover:
    compute = work_events(linked).filter((pl.col("device") == device) & (pl.col("kind") == COMPUTE))
    starts, durations = (compute.get_column(name).to_numpy() for name in ("ts_ns", "dur_ns"))
    return cover_of(starts, starts + durations)


def step_spans(linked: LinkedTrace) -> pl.DataFrame:
    """The time of the `step_windows`, in their order: `step`, `start_ns`, `end_ns`.

    A step ends where its annotation or the last device work that it launched ends. It starts where the last of the
    steps before it ends, so that steps follow each other without gap or overlap, also where the host runs ahead of the
    device; the first one starts with its annotation, and so does one that begins while another runs on the host.
    """
    return linked.derived(_step_spans)


def spans_apart(linked: LinkedTrace) -> pl.DataFrame:
    """Return `step_spans` for analyses with rows by step and for its content."""
    windows_apart(linked)
    return step_spans(linked)


def _step_spans(linked: LinkedTrace) -> pl.DataFrame:
    windows = step_windows(linked)
    start, host_end = (windows.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    end = host_end.copy()
    work = device_events(linked).filter(pl.col("kind") != WAIT)
    if len(end) and work.height:
        launch = work.select(pl.coalesce("call_event", "op_event")).to_series()
        (moments,) = event_columns(linked.timeline, launch, ts_ns="ts_ns")
        numbered = windows.with_columns(pl.int_range(pl.len()).cast(pl.String).alias("step"))
        number = step_of_moments(moments.fill_null(BEFORE_ALL_NS).to_frame(), numbered).get_column("step")
        inside = number.is_not_null().to_numpy()
        work_end = work.select(pl.col("ts_ns") + pl.col("dur_ns")).to_series().to_numpy()
        np.maximum.at(end, number.drop_nulls().cast(pl.Int64).to_numpy(), work_end[inside])
    overlaps = np.zeros(len(start), dtype=np.bool_)
    overlaps[1:] = start[1:] < np.maximum.accumulate(host_end)[:-1]
    return windows.with_columns(
        pl.Series("start_ns", step_starts(start, end, overlaps)), pl.Series("end_ns", end)
    )


def step_starts(start: _Ints, end: _Ints, overlaps: NDArray[np.bool_]) -> _Ints:
    """The moments from which steps last: the latest end before, or the own start of the first and of what overlaps."""
    found = start.copy()
    found[1:] = np.where(overlaps[1:], start[1:], np.maximum.accumulate(end)[:-1])
    return np.asarray(np.minimum(found, end), dtype=np.int64)


def first_start_of_job(starts: _Ints, ends: _Ints) -> _Ints:
    """Start of a job's first step, from its starts and ends by rank on the last axis.

    It starts when it has begun on all ranks, as recordings of ranks begin at different times; where some rank ends it
    before another begins it, with the first.
    """
    latest = starts.max(axis=-1)
    return np.asarray(np.where(latest < ends.min(axis=-1), latest, starts.min(axis=-1)), dtype=np.int64)


def without_start_skew(steps: pl.DataFrame, *key: str) -> pl.DataFrame:
    """Steps of ranks on one clock, of which the job's first starts on no rank before `first_start_of_job`.

    Args:
        steps: `start_ns` and `end_ns` of each step of each rank.
        key: the columns that name a step.
    """
    first = steps.group_by(*key, maintain_order=True).agg(pl.col("end_ns").max()).sort("end_ns").head(1)
    of_first = steps.join(first.select(key), on=key, how="semi", nulls_equal=True)
    if of_first.is_empty():
        return steps
    begin = int(
        first_start_of_job(*(of_first.get_column(name).to_numpy() for name in ("start_ns", "end_ns")))
    )
    is_first = pl.all_horizontal(pl.col(name).eq_missing(pl.lit(first.item(0, name))) for name in key)
    return steps.with_columns(
        pl.when(is_first)
        .then(pl.max_horizontal("start_ns", pl.lit(begin)))
        .otherwise("start_ns")
        .alias("start_ns")
    )


BREAKDOWN = Table(
    "breakdown",
    "One row per rank, step and device. compute + exposed_communication + exposed_memory + idle = span, exactly.",
    (
        RANK,
        STEP,
        Column("device", Kind.TEXT, "device number; `cpu` for a trace without device work"),
        Column("start_ns", Kind.INT, "start of the span"),
        Column("span_ns", Kind.INT, "its length: the step, or from the device's first event to its last"),
        Column("compute_ns", Kind.INT, "time in which something computes"),
        Column("communication_ns", Kind.INT, "time in which some communication runs; null: nobody knows"),
        Column("memory_ns", Kind.INT, "time in which something is copied or filled"),
        Column("overlap_ns", Kind.INT, "communication hidden behind compute; null: nobody knows"),
        Column(
            "exposed_communication_ns", Kind.INT, "communication while nothing computes; null: nobody knows"
        ),
        Column("exposed_memory_ns", Kind.INT, "copies while nothing computes or communicates"),
        Column("idle_ns", Kind.INT, "time in which none of the three runs"),
        DOUBTFUL,
    ),
)


@analysis(
    BREAKDOWN,
    Family.TIME,
    uses=(Need.DEVICE_WORK, Need.KNOWN_OPS, Need.KNOWN_COMMUNICATION, Need.STEPS),
    shown=(
        "span_ns compute_ns exposed_communication_ns exposed_memory_ns idle_ns! communication_ns "
        "overlap_ns start_ns"
    ),
    formula=(
        "With P, C and M the moments in which some compute, communication or memory event runs on any "
        "stream of the device: compute = |P|, exposed comm = |C without P|, exposed memory = |M without P"
        " and C|, idle = span - |P or C or M|. The four add up to the span, to the nanosecond. Without a "
        "device ops of the host stand for it."
    ),
    on_page=OnPage(of_every_rank=True),
    stored=Stored.ALWAYS,
)
def breakdown(linked: LinkedTrace) -> pl.DataFrame:
    """Where does the time go?

    The temporal breakdown of one rank, over all and for each step.

    With P, C and M the moments in which some event of kind compute, communication or memory runs, on any stream:
    compute = |P|, communication = |C|, memory = |M|, overlap = |P & C|, exposed communication = |C - P|,
    exposed memory = |M - P - C|, idle = span - |P | C | M|. Over all, the span reaches from the device's first
    event to its last; for a step, it is from the end of the step before to its own, see `step_spans`.

    A trace without device work is broken down by its host ops, as device `cpu`: C is ops of a communication
    library, P all other ops; idle is when no op runs on any thread.

    Where no communication was recognised, but kernels that nobody knows may communicate (`Gap.COMMUNICATION_UNSEEN`),
    times of communication are null, and compute holds these kernels.

    Args:
        linked: one rank.
    """
    windows = step_spans(linked)
    events = work_events(linked)
    rows = [
        row
        for device in sorted(
            events.get_column("device").unique().to_list(), key=lambda name: (len(name), name)
        )
        for row in _rows(device, events.filter(pl.col("device") == device), windows)
    ]
    if not rows:
        return BREAKDOWN.empty()
    names = [name for name in BREAKDOWN.polars_schema() if name not in (RANK.name, DOUBTFUL.name)]
    found = pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None)
    if any(gap.gap is Gap.COMMUNICATION_UNSEEN for gap in linked.gaps):
        found = found.with_columns(pl.lit(None, dtype=pl.Int64).alias(name) for name in _OF_COMMUNICATION)
    return answer(BREAKDOWN, found.sort(pl.col("step").is_not_null(), maintain_order=True), linked)


_OF_COMMUNICATION = ("communication_ns", "overlap_ns", "exposed_communication_ns")


def _rows(device: str, events: pl.DataFrame, windows: pl.DataFrame) -> list[tuple[object, ...]]:
    ends = events.select((pl.col("ts_ns") + pl.col("dur_ns")).alias("end")).get_column("end").to_numpy()
    first, last = int(events.get_column("ts_ns").to_numpy().min()), int(ends.max())
    begin = np.r_[first, windows.get_column("start_ns").to_numpy()].astype(np.int64)
    end = np.r_[last, windows.get_column("end_ns").to_numpy()].astype(np.int64)
    kinds = [COMPUTE, COMMUNICATION, MEMORY]
    compute, communication, memory = (_cover(events, kind).within(begin, end) for kind in kinds)
    working = _cover(events, COMPUTE, COMMUNICATION).within(begin, end)
    busy = _cover(events, *kinds).within(begin, end)
    span = end - begin
    columns = [
        begin,
        span,
        compute,
        communication,
        memory,
        compute + communication - working,
        working - compute,
        busy - working,
        span - busy,
    ]
    names = [None, *windows.get_column("step").to_list()]
    return [(names[i], device, *(int(column[i]) for column in columns)) for i in range(len(names))]


def _cover(events: pl.DataFrame, *kinds: str) -> Cover:
    some = events.filter(pl.col("kind").is_in(kinds))
    starts = some.get_column("ts_ns").to_numpy()
    return cover_of(starts, starts + some.get_column("dur_ns").to_numpy())
