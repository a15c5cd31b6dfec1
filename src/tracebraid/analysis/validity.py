"""Questions about whether the figures of a step can be trusted."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.device import device_events, device_events_by_step
from tracebraid.analysis.launches.lost_work import expected_work, unended
from tracebraid.analysis.launches.synchronising import synchronising_calls
from tracebraid.analysis.time.step_windows import in_order_of_steps, step_of_moments, step_windows
from tracebraid.model.analysis import Family, Need, OnPage, Stored, analysis
from tracebraid.model.answers import RANK
from tracebraid.model.answers.launches import SyncKind
from tracebraid.model.category import Category, Role, Work, categories_of
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.device_peaks import COMMUNICATION, WAIT
from tracebraid.model.expressions import as_text
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.gaps import Gap
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.quantities import NS_PER_MS, NS_PER_US
from tracebraid.model.timeline import Timeline

_ROUNDING_NS = NS_PER_US
"""Maximum apparent continuation of a waiting event before the end, in traces in µs."""
_AT_ONCE_NS = 20 * NS_PER_US
"""Maximum delay from the end of work until a waiting call returns: 1 to 16 µs, see `RETURN_NS` of the waits."""
_NO_WAIT = [SyncKind.QUERY.value, SyncKind.ALLOCATION.value]


def with_confirmed_end(events: pl.DataFrame, work: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """Device events with a confirmed end: `event_id`.

    What had waited since the event's middle, or longer, went on at its end: work of the device that had been launched
    by then started, or a call of the host that synchronises returned. A duration that is wrong ends at no such moment.
    """
    starts = linked.timeline.events.get_column("ts_ns")
    launched = work.select(
        pl.col("device").alias("of_device"),
        pl.col("event_id").alias("other"),
        pl.col("ts_ns").alias("went_on_ns"),
        starts.gather(work.get_column("call_event")).alias("since_ns"),
    ).filter(pl.col("since_ns").is_not_null())
    calls = synchronising_calls(linked).filter(~pl.col("kind").is_in(_NO_WAIT))
    returned = calls.select(pl.col("end_ns").alias("went_on_ns"), pl.col("start_ns").alias("since_ns"))
    asked = events.select(
        "event_id",
        "device",
        (pl.col("ts_ns") + pl.col("dur_ns") // 2).alias("middle_ns"),
        (pl.col("end_ns") - _ROUNDING_NS).alias("from_ns"),
        (pl.col("end_ns") + _AT_ONCE_NS).alias("until_ns"),
    )
    continued = (
        pl.col("went_on_ns") >= pl.col("from_ns"),
        pl.col("went_on_ns") <= pl.col("until_ns"),
        pl.col("since_ns") <= pl.col("middle_ns"),
    )
    by_work = asked.join_where(launched, *continued).filter(
        (pl.col("device") == pl.col("of_device")) & (pl.col("event_id") != pl.col("other"))
    )
    by_calls = asked.join_where(returned, *continued)
    return pl.concat([by_work.select("event_id"), by_calls.select("event_id")]).unique()


DOUBTS = pl.Schema(
    {
        "step": pl.String(),
        "doubt": pl.String(),
        "count": pl.Int64(),
        "event_id": pl.Int64(),
        "time_ns": pl.Int64(),
    }
)
"""The columns of every rule's answer: those of `VALIDITY` but the rank."""


def device_work(linked: LinkedTrace) -> pl.DataFrame:
    """Return device events with `step`, that of their launch, and `end_ns`."""
    return device_events_by_step(linked).with_columns((pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"))


def about_events(doubt: Gap, events: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """A row for each step that some events falsify: that which launched them, and all during which they run."""
    if events.is_empty():
        return pl.DataFrame(schema=DOUBTS)
    columns = ["event_id", "ts_ns", "time_ns", "step"]
    launched = events.filter(pl.col("step").is_not_null()).select(columns)
    run = (
        events.drop("step")
        .with_columns(pl.max_horizontal("end_ns", pl.col("ts_ns") + 1).alias("end_ns"))
        .join_where(
            step_windows(linked).select(
                "step", "start_ns", pl.max_horizontal("end_ns", pl.col("start_ns") + 1).alias("stop_ns")
            ),
            pl.col("ts_ns") < pl.col("stop_ns"),
            pl.col("end_ns") > pl.col("start_ns"),
        )
        .select(columns)
    )
    of_steps = pl.concat([launched, run]).unique(["event_id", "step"])
    of_none = events.join(of_steps.select("event_id"), on="event_id", how="anti").select(columns)
    found = pl.concat([of_steps, of_none]).sort("ts_ns", "event_id")
    return (
        found.group_by("step", maintain_order=True)
        .agg(
            pl.lit(doubt.value).alias("doubt"),
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("event_id").first(),
            pl.when(pl.col("time_ns").is_null().any())
            .then(None)
            .otherwise(pl.col("time_ns").sum())
            .alias("time_ns"),
        )
        .select(DOUBTS.names())
    )


_SHARE = 0.95
"""Share of the device time from which an event dominates. In sound traces of training and inference the longest
event was seen with up to 0.7; the malformed ones that were reported had 0.95 and more."""
_SHARE_OF_COMMUNICATION = 0.99
"""The same for communication, which may wait for another rank as long as that takes."""
_COPY_GB_PER_S = 0.1
"""A copy that is at least so fast is long because it is large; pageable memory is copied at 1 GB/s and more."""
_OTHERS = 10
"""Other events, at least: of a few events a longest is no surprise."""
_TIMES_NEXT = 20
"""Minimum ratio to the next longest event."""
_TIMES_ITS_NAME = 10
"""Minimum ratio to the (lower) median of events of the same name, if there are others."""


def dominating_events(linked: LinkedTrace) -> pl.DataFrame:
    """Events that make nearly all of the device time that a step launched, or of the whole trace.

    An event whose end is confirmed by what waited for it is long, and not malformed: see `confirmed_ends`.
    """
    work = device_work(linked).filter(pl.col("kind") != WAIT)
    by_step = work.group_by("step").agg(
        pl.len().alias("events"),
        pl.col("dur_ns").sum().alias("total_ns"),
        pl.when(pl.len() > 1).then(pl.col("dur_ns").top_k(2).min()).otherwise(0).alias("next_ns"),
        pl.col("dur_ns").max(),
        pl.col("event_id", "kind", "name").get(pl.col("dur_ns").arg_max()),
    )
    whole = by_step.select(
        pl.col("events", "total_ns").sum(),
        pl.col("dur_ns").append(pl.col("next_ns")).top_k(2).min().alias("next_ns"),
        pl.col("dur_ns").max(),
        pl.col("event_id", "kind", "name").get(pl.col("dur_ns").arg_max()),
    )
    longest = pl.concat([by_step.drop("step"), whole.select(by_step.drop("step").columns)])
    share = pl.when(pl.col("kind") == COMMUNICATION).then(_SHARE_OF_COMMUNICATION).otherwise(_SHARE)
    suspects = longest.filter(
        (pl.col("events") > _OTHERS)
        & (pl.col("dur_ns") >= share * pl.col("total_ns"))
        & (pl.col("dur_ns") >= _TIMES_NEXT * pl.col("next_ns"))
        & (pl.col("dur_ns") > 0)
    ).unique("event_id")
    alike = (
        work.join(suspects.select("name"), on="name", how="semi")
        .group_by("name")
        .agg(pl.col("dur_ns").quantile(0.5, "lower").alias("usual_ns"), pl.len().alias("of_name"))
        .filter(pl.col("of_name") > 1)
    )
    unlike = suspects.join(alike, on="name", how="left").filter(
        pl.col("dur_ns") >= _TIMES_ITS_NAME * pl.col("usual_ns").fill_null(0)
    )
    copies = linked.timeline.device_work.select("event_id", "size_bytes")
    found = (
        work.join(unlike.select("event_id"), on="event_id", how="semi")
        .join(copies, on="event_id", how="left")
        .filter((pl.col("size_bytes") >= _COPY_GB_PER_S * pl.col("dur_ns")).ne_missing(other=True))
    )
    if not found.is_empty():
        sound = with_confirmed_end(found, work, linked)
        found = found.join(sound, on="event_id", how="anti", maintain_order="left")
    events = found.select("event_id", "ts_ns", "end_ns", "step", pl.col("dur_ns").alias("time_ns"))
    return about_events(Gap.EVENT_DOMINATES, events, linked)


_JUDGED = (Role.OP, Role.ANNOTATION, Role.CALL, Role.PYTHON, Role.DEVICE_WORK)


def unusable_durations(linked: LinkedTrace) -> pl.DataFrame:
    """Events of host and device whose duration the reader had to replace by 0, see `UNUSABLE_DURATIONS`.

    A reader that does not say which events they are (that of Nsight Systems) has its doubt in no step.
    """
    timeline = linked.timeline
    damaged = timeline.tables["unusable_durations"]
    counted = sum(
        finding.count for finding in timeline.findings if finding.code is FindingCode.EVENT_DURATION
    )
    unlocated = pl.DataFrame(
        [(None, Gap.DURATION_OVERFLOWS.value, counted - damaged.height, None, None)],
        schema=DOUBTS,
        orient="row",
    ).filter(pl.col("count") > 0)
    if damaged.is_empty():
        return unlocated
    work = device_events_by_step(linked).select("event_id", "step")
    events = (
        timeline.events.join(damaged, on="event_id", how="semi")
        .filter(as_text("category").is_in(categories_of(*_JUDGED)))
        .join(work, on="event_id", how="left")
        .select(
            "event_id",
            "ts_ns",
            pl.col("ts_ns").alias("end_ns"),
            pl.lit(None, dtype=pl.Int64).alias("time_ns"),
            "step",
        )
    )
    located = about_events(Gap.DURATION_OVERFLOWS, events, linked)
    return pl.concat([located, unlocated])


_MISSING_SHARE = 0.01
"""Share of a step's launches without work from which on it is doubtful: below, its figures hardly change. In sound
traces every launch has its work."""
_MUCH, _MOST = 0.25, 0.5
"""Share from which the step's device events count as missing, as its times and savings would be off by as much: of
`_LEAST` launches and more the lower."""
_LEAST = 2

_SAME_OPS = 0.05
"""Maximum relative difference in the number of ops between steps with the same work."""
_FEWER = 0.8
"""Ratio to the median of similar steps, by op, below which device events are missing."""
_STEPS = 3
"""Steps that do the same, at least, for their median to count."""
_NONE_OF = 10
"""Number of device events in a similar step from which a step without any counts as missing them."""


def missing_work(linked: LinkedTrace) -> pl.DataFrame:
    """Steps with launches that have no work, and steps with far fewer device events than others with the same ops.

    The second rule finds device events that were lost together with the calls.
    """
    of_launches = _of_launches(linked)
    of_counts = _of_counts(linked).join(of_launches, on="step", how="anti", nulls_equal=True)
    return pl.concat([of_launches, of_counts])


def _of_launches(linked: LinkedTrace) -> pl.DataFrame:
    calls = _without_cut_off(expected_work(linked), linked)
    lost = ~pl.col("has_work")
    share, count = pl.col("count") / pl.col("launches"), pl.col("count")
    most = (share >= _MOST) | ((share >= _MUCH) & (count >= _LEAST))
    # In no step are few launches, before and behind the steps: they count among those of the whole trace.
    of_all = pl.when(pl.col("step").is_null()).then(calls.height).otherwise("launches")
    earliest = (
        calls.filter(lost).sort("ts_ns", "event_id").unique("step", keep="first").select("step", "event_id")
    )
    return (
        calls.group_by("step")
        .agg(lost.sum().cast(pl.Int64).alias("count"), pl.len().alias("launches"))
        .join(earliest, on="step", nulls_equal=True)
        .filter(pl.col("count") >= _MISSING_SHARE * of_all)
        .select(
            "step",
            pl.when(most)
            .then(pl.lit(Gap.DEVICE_EVENTS_MISSING.value))
            .otherwise(pl.lit(Gap.LAUNCH_WITHOUT_WORK.value))
            .alias("doubt"),
            "count",
            "event_id",
            pl.lit(None, dtype=pl.Int64).alias("time_ns"),
        )
        .select(DOUBTS.names())
    )


def _without_cut_off(calls: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """Without the last launches of no step whose work still lay in the queue when the profiler stopped.

    The device went on to start earlier work after these calls; where their work is lost, it had none left.
    """
    last_launch = calls.filter("has_work").get_column("ts_ns").max()
    last_start = device_events(linked).get_column("ts_ns").max()
    cut_off = (
        pl.col("step").is_null()
        & ~pl.col("has_work")
        & (pl.col("ts_ns") > pl.lit(last_launch, dtype=pl.Int64))
        & (pl.col("ts_ns") < pl.lit(last_start, dtype=pl.Int64))
    )
    return calls.filter(~cut_off.fill_null(value=False))


def _of_counts(linked: LinkedTrace) -> pl.DataFrame:
    windows = step_windows(linked)
    if windows.height < 2 or not linked.timeline.has_device:
        return pl.DataFrame(schema=DOUBTS)
    ops = step_of_moments(linked.timeline.of_role(Role.OP).select("ts_ns"), windows)
    work = device_events_by_step(linked)
    # Work whose launch is not in the trace is of no step, but it is not missing: it counts where it runs.
    unlaunched = work.filter(pl.coalesce("call_event", "op_event").is_null())
    unlaunched = step_of_moments(unlaunched.select("ts_ns"), windows)
    counts = (
        windows.select("step")
        .unique(maintain_order=True)
        .join(ops.group_by("step").agg(pl.len().cast(pl.Int64).alias("ops")), on="step")
        .join(work.group_by("step").agg(pl.len().cast(pl.Int64).alias("work")), on="step", how="left")
        .join(
            unlaunched.group_by("step").agg(pl.len().cast(pl.Int64).alias("unlaunched")),
            on="step",
            how="left",
        )
        .with_columns(pl.col("work", "unlaunched").fill_null(0))
    )
    return _fewer_than_similar(counts)


def _fewer_than_similar(counts: pl.DataFrame) -> pl.DataFrame:
    """Steps with fewer device events for their ops than those with about as many ops."""
    differ = pl.col("ops") > (1 + _SAME_OPS) * pl.col("ops").shift(1)
    per_op = pl.col("work") / pl.col("ops")
    usual = (per_op.median().over("alike") * pl.col("ops")).round().cast(pl.Int64)
    found = pl.col("work") + pl.col("unlaunched")
    none, many = found == 0, pl.col("work").max().over("alike")
    expected = (
        pl.when(none & (many >= _NONE_OF))
        .then(many)
        .when((pl.len().over("alike") >= _STEPS) & (found < _FEWER * usual))
        .then(usual)
    )
    return (
        counts.sort("ops")
        .with_columns(differ.fill_null(value=False).cum_sum().alias("alike"))
        .with_columns(expected.alias("expected"))
        .filter(pl.col("expected").is_not_null())
        .select(
            "step",
            pl.lit(Gap.DEVICE_EVENTS_MISSING.value).alias("doubt"),
            (pl.col("expected") - found).alias("count"),
            pl.lit(None, dtype=pl.Int64).alias("event_id"),
            pl.lit(None, dtype=pl.Int64).alias("time_ns"),
        )
    )


_TOLERANCE_NS = 5 * NS_PER_US
"""Overlaps up to it come from rounding to whole microseconds, and from clocks of copy engines; healthy streams of
short kernels were reported with 4 microseconds (AMD-AGI/Hyperloom#1116)."""

_OF_NAME = 3
"""Events of that name, at least."""

_FIRST_MAJOR_WITH_DEPENDENT_LAUNCH = 9
"""Compute capability from which on a kernel may start before its predecessor of the stream ends
(CUDA C++ Programming Guide, programmatic dependent launch)."""


def unended_communication(linked: LinkedTrace) -> pl.DataFrame:
    """Communication that was issued, and waited for until the recording stopped."""
    found = unended(linked)
    return (
        found.group_by("step", maintain_order=True)
        .agg(
            pl.lit(Gap.NEVER_ENDED.value).alias("doubt"),
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("event_id").first(),
            pl.col("waited_ns").max().alias("time_ns"),
        )
        .select(DOUBTS.names())
    )


def impossible_overlaps(linked: LinkedTrace) -> pl.DataFrame:
    """Events that run on while later work of their stream runs.

    Work of one launch (the nodes of a graph) may run in parallel, so that a node is doubted only if it computes for far
    longer than others of its name. Where a kernel may start early by a programmatic
    dependent launch, it still ends after its predecessor: there, and where the device is unknown, an event is
    doubted only when later work ends before it does. Streams of ROCm may share a queue, which is what the file has as
    the stream: there, communication and other work may overlap. Streams of two contexts may have the same number.
    """
    work = _serial(device_work(linked).filter(pl.col("dur_ns") > 0), linked)
    rocm = _is_rocm(linked.timeline)
    communicates = pl.lit(rocm) & (pl.col("kind") == COMMUNICATION)
    contexts = linked.timeline.device_work.select("event_id", "context")
    queue = pl.struct("lane", "context", communicates).rank("dense").cast(pl.Int64).alias("queue")
    columns = ["event_id", "ts_ns", "end_ns", "dur_ns", "step", "name", "kind"]
    work = work.join(contexts, on="event_id", how="left").select(queue, *columns)
    work = work.sort("queue", "ts_ns", "event_id")
    before, found = _running_before(work)
    ends = work.get_column("end_ns").to_numpy()
    starts = work.get_column("ts_ns").to_numpy()
    overlap = ends[before] - (ends if not rocm and _may_start_early(linked.timeline) else starts)
    found &= overlap > _TOLERANCE_NS
    if found.any():
        found &= _of_other_launch(work, before, linked) | _is_unlike_its_name(work)[before]
    longer = work[np.unique(before[found])]
    events = longer.select("event_id", "ts_ns", "end_ns", "step", pl.col("dur_ns").alias("time_ns"))
    return about_events(Gap.STREAM_OVERLAPS, events, linked)


def _serial(work: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """Events that a stream of CUDA and ROCm runs serially: lanes of other devices may not be queues."""
    events = linked.timeline.events
    serial = events.filter(pl.col("category").is_in(categories_of(Work.KERNEL, Work.COPY))).get_column(
        "event_id"
    )
    return work if serial.len() == work.height else work.filter(pl.col("event_id").is_in(serial.implode()))


def _running_before(work: pl.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """For each row the earlier row of its queue that ends last, and whether there is any."""
    queues, ends = (work.get_column(name).to_numpy() for name in ("queue", "end_ns"))
    before = np.zeros(len(queues), dtype=np.int64)
    found = np.zeros(len(queues), dtype=np.bool_)
    bounds = [0, *(np.flatnonzero(queues[1:] != queues[:-1]) + 1).tolist(), len(queues)]
    for start, stop in pairwise(bounds):
        reach = np.maximum.accumulate(ends[start:stop])
        raised = np.where(ends[start:stop] == reach, np.arange(start, stop), start)
        before[start + 1 : stop] = np.maximum.accumulate(raised)[:-1]
        found[start + 1 : stop] = True
    return before, found


def _of_other_launch(work: pl.DataFrame, before: NDArray[np.int64], linked: LinkedTrace) -> NDArray[np.bool_]:
    """Return whether each row has another launch than the row before it."""
    launches = linked.timeline.device_work.select("event_id", "correlation")
    launch = work.select("event_id").join(launches, on="event_id", how="left", maintain_order="left")
    correlation = launch.get_column("correlation").fill_null(-1).to_numpy()
    other: NDArray[np.bool_] = (correlation != correlation[before]) | (correlation < 0)
    return other


def _is_unlike_its_name(work: pl.DataFrame) -> NDArray[np.bool_]:
    """Return whether each row is far longer than others of its name; communication may wait for other ranks."""
    usual = pl.col("dur_ns").median().over("name")
    alike = pl.len().over("name") >= _OF_NAME
    longer = alike & (pl.col("dur_ns") >= _TIMES_ITS_NAME * usual) & (pl.col("kind") != COMMUNICATION)
    unlike: NDArray[np.bool_] = work.select(longer).to_series().to_numpy()
    return unlike


def _is_rocm(timeline: Timeline) -> bool:
    """Return whether calls or devices are those of ROCm; the majors of its devices look like those of CUDA."""
    calls = timeline.of_role(Role.CALL).get_column("name").unique().cast(pl.String)
    return bool(calls.str.starts_with("hip").any()) or any("AMD" in name for name in timeline.device_names)


def _may_start_early(timeline: Timeline) -> bool:
    """Return whether a kernel may start before its predecessor ends; true where the device is unknown."""
    properties = timeline.header.get("deviceProperties")
    rows = properties if isinstance(properties, list) else []
    majors = [row.get("computeMajor") for row in rows if isinstance(row, dict)]
    known = [major for major in majors if isinstance(major, int)]
    return not known or max(known) >= _FIRST_MAJOR_WITH_DEPENDENT_LAUNCH


_SLACK_NS = NS_PER_MS
"""Minimum overrun of the last work beyond the recorded span: the two clocks differ by microseconds."""
_SLACK_SHARE = 0.1
"""The same, as a share of the span."""
_UNKNOWN_SPAN_SLACK_NS = 1000 * NS_PER_MS
"""The slack, at least, where the recorded span is unknown: work may go on when the last call of the host is over;
and before the start, where clocks of devices were seen to be off (by 0.1 s on MTIA). At most the length of the
trace."""


def beyond_trace(linked: LinkedTrace) -> pl.DataFrame:
    """Device events that end after the host and the profiler stopped, or begin before they started, by far.

    The time of the trace reaches from the first start to the last end of what the host ran, and of the profiler's
    own span; and up to the last start on a device.
    """
    work = device_work(linked)
    events = linked.timeline.events
    recorded = [Category.TRACE.value, *categories_of(Role.OP, Role.ANNOTATION, Role.CALL, Role.PYTHON)]
    spans = events.filter(pl.col("category") == Category.TRACE.value)
    bounds = (
        events.select("category", "ts_ns", "dur_ns")
        .filter(pl.col("category").is_in(recorded))
        .select(pl.col("ts_ns").min().alias("start"), (pl.col("ts_ns") + pl.col("dur_ns")).max().alias("end"))
        .row(0)
    )
    if work.is_empty() or bounds[0] is None:
        return about_events(Gap.OUTLASTS_TRACE, work.clear(), linked)
    start, end = bounds
    length = end - start
    unknown = max(_UNKNOWN_SPAN_SLACK_NS, length)
    late = unknown if spans.is_empty() else max(_SLACK_NS, round(_SLACK_SHARE * length))
    end = max(end, _last_start(work, end + unknown))
    beyond = work.filter((pl.col("end_ns") > end + late) | (pl.col("ts_ns") < start - unknown))
    events = beyond.select("event_id", "ts_ns", "end_ns", "step", pl.col("dur_ns").alias("time_ns"))
    return about_events(Gap.OUTLASTS_TRACE, events, linked)


def steps_beyond_trace(linked: LinkedTrace) -> pl.DataFrame:
    """Steps that begin before the profiler's own span or end after it, by far: a part of them was not recorded."""
    spans = linked.timeline.events.filter(pl.col("category") == Category.TRACE.value)
    if spans.is_empty():
        return pl.DataFrame(schema=DOUBTS)
    start, end = spans.select(
        pl.col("ts_ns").min(), (pl.col("ts_ns") + pl.col("dur_ns")).max().alias("end_ns")
    ).row(0)
    slack = max(_SLACK_NS, round(_SLACK_SHARE * (end - start)))
    windows = step_windows(linked)
    beyond = windows.filter((pl.col("end_ns") > end + slack) | (pl.col("start_ns") < start - slack))
    return (
        beyond.group_by("step", maintain_order=True)
        .agg(
            pl.lit(Gap.OUTLASTS_TRACE.value).alias("doubt"),
            pl.len().cast(pl.Int64).alias("count"),
            pl.lit(None, dtype=pl.Int64).alias("event_id"),
            (pl.col("end_ns") - pl.col("start_ns")).sum().alias("time_ns"),
        )
        .select(DOUBTS.names())
    )


def _last_start(work: pl.DataFrame, limit: int) -> int:
    """The last start of device work that is not itself absurd; the limit where there is none."""
    last = work.filter(pl.col("ts_ns") <= limit).get_column("ts_ns").max()
    return last if isinstance(last, int) else limit


_RULES = (
    unended_communication,
    missing_work,
    unusable_durations,
    beyond_trace,
    steps_beyond_trace,
    dominating_events,
    impossible_overlaps,
)


VALIDITY = Table(
    "validity",
    "One row per step and doubt about it; no row: nothing speaks against its figures.",
    (
        RANK,
        Column("step", Kind.TEXT, "the step; null: the doubt is about what lies in no step"),
        Column("doubt", Kind.TEXT, "a code of `Gap`"),
        Column("count", Kind.INT, "events that it is about; of missing ones, how many at least"),
        Column(
            "event_id", Kind.INT, "the earliest of them; null: it is missing, unknown, or the step itself"
        ),
        Column("time_ns", Kind.INT, "sum of their durations; null: unknown"),
    ),
)


@analysis(
    VALIDITY,
    Family.VALIDITY,
    needs=(Need.EVENTS,),
    shown="doubt count time_ns event_id",
    when_empty="nothing speaks against the figures of any step",
    formula=(
        "A row for each step and doubt about it: events that are lost, without a usable duration, longer "
        "than the trace, far longer than all others, or at work while later work of their stream runs."
    ),
    on_page=OnPage(of_every_rank=True),
    stored=Stored.ALWAYS,
)
def validity(linked: LinkedTrace) -> pl.DataFrame:
    """Can the figures of each step be trusted?

    What speaks against the figures of a step.

    Rows of no step come first, then the steps in the order of their starts, the doubts of each in the order of
    `Gap`. A device event falsifies the step that launched it and every step while it runs.

    Args:
        linked: one rank.
    """
    return linked.derived(doubts_of)


def doubts_of(linked: LinkedTrace) -> pl.DataFrame:
    """The rows of `validity`, which decide what is answered."""
    order = pl.Enum([doubt.value for doubt in Gap])
    found = pl.concat([rule(linked) for rule in _RULES])
    return (
        found.group_by("step", "doubt", maintain_order=True)
        .agg(
            pl.col("count").sum(),
            pl.col("event_id").drop_nulls().first(),
            pl.when(pl.col("time_ns").is_null().any())
            .then(None)
            .otherwise(pl.col("time_ns").sum())
            .alias("time_ns"),
        )
        .sort(pl.col("doubt").cast(order))
        .pipe(in_order_of_steps, linked)
        .with_columns(pl.lit(linked.rank, dtype=pl.Int64).alias(RANK.name))
        .pipe(VALIDITY.conform)
    )
