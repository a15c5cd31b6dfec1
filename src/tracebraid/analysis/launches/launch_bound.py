"""Stretches of a stream that is always ready before its work is, the most idle first."""

from __future__ import annotations

import json
from enum import Enum

import numpy as np
import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.host.host_rows import (
    events_of_rows,
    host_rows,
    names_of_places,
    names_of_rows,
    surroundings,
)
from tracebraid.analysis.host.host_trees import host_ops
from tracebraid.analysis.launches.launched_work import STREAM, launched_work, with_steps
from tracebraid.analysis.launches.synchronising import synchronising_calls
from tracebraid.analysis.time.breakdown import cover_of
from tracebraid.model.analysis import Family, Need, OnPage, Rows, analysis
from tracebraid.model.answers import DOUBTFUL, RANK
from tracebraid.model.answers.launches import STEP_OF_EVENT, SyncKind
from tracebraid.model.category import Category, Role, Work, categories_of
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.expressions import as_text, by_number
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import CallAction, call_does
from tracebraid.model.quantities import NS_PER_MS


def with_callers(calls: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """Add to calls what encloses each on its thread: `op_event`, and the names `op`, `top_op`, `annotation`, `frame`.

    `op` is the innermost op, `top_op` the outermost; `annotation` the innermost annotation that is no step; `frame` the
    innermost Python function of the user's (`model.user_frame`), or where there is none, the innermost function.
    """
    return calls.join(callers(linked), on="call_event", how="left", maintain_order="left")


def callers(linked: LinkedTrace) -> pl.DataFrame:
    """The same for every call of the host: `call_event` and those columns."""
    return linked.derived(_callers)


def _callers(linked: LinkedTrace) -> pl.DataFrame:
    calls = linked.timeline.host_calls.select("event_id").sort("event_id")
    row = host_rows(linked).rows(calls.get_column("event_id").to_numpy())
    within = surroundings(linked)
    op = within.op[row]
    names = {
        "op": op,
        "top_op": within.top_op[row],
        "annotation": within.annotation[row],
    }
    return calls.select(
        pl.col("event_id").alias("call_event"),
        events_of_rows(linked, op).alias("op_event"),
        *(names_of_rows(linked, rows).cast(pl.String).alias(name) for name, rows in names.items()),
        names_of_places(linked, within.place[row]).cast(pl.String).alias("frame"),
    )


STALL_NS = NS_PER_MS
"""A gap from here on is no launch overhead: the host does something else. An op with its launch takes 5 to 100 µs."""

LEAST_LAUNCHES = 3
"""Launches of a stretch at least: two gaps between them, so that a single one makes none."""


LAUNCH_BOUND = Table(
    "launch_bound",
    "One row per stretch of a stream in which it ran dry before each launch, the most idle time first. "
    "device + idle = span, exactly.",
    (
        RANK,
        STEP_OF_EVENT,
        Column("device", Kind.TEXT, "device"),
        Column("stream", Kind.TEXT, "stream"),
        Column("start_ns", Kind.INT, "start of the stretch's first device event"),
        Column("span_ns", Kind.INT, "from there to the end of the last of its device events"),
        Column("launches", Kind.INT, "calls that launched them"),
        Column("kernels", Kind.INT, "device events"),
        Column("device_ns", Kind.INT, "time in which any of them runs"),
        Column("idle_ns", Kind.INT, "time in which none of them runs"),
        Column(
            "gain_ns",
            Kind.INT,
            "idle time in which all other streams of the device were idle too: what a graph or fusion gains at most; "
            "stretches of two streams may hold the same time: do not add those up",
        ),
        Column("host_launch_ns", Kind.INT, "sum of the durations of these calls"),
        Column(
            "op", Kind.TEXT, "name of the innermost op with the most idle time before its work; null: none"
        ),
        Column(
            "annotation",
            Kind.TEXT,
            "innermost annotation around the launches with the most idle time, steps left out; null: none",
        ),
        DOUBTFUL,
    ),
)


@analysis(
    LAUNCH_BOUND,
    Family.LAUNCHES,
    needs=(Need.DEVICE_WORK, Need.LAUNCHES),
    uses=(Need.HOST_OPS,),
    shown="start_ns span_ns idle_ns gain_ns! op annotation launches kernels device_ns stream",
    when_empty="no stream runs dry before several launches in a row",
    formula=(
        "Stretches of at least 3 launches whose work found its stream empty. idle: gaps between the "
        "events; gain: the part of them in which all other streams are idle, too: what a graph or fusion "
        "saves at most."
    ),
    on_page=OnPage(Rows.LONG_TABLE_ROWS, by=("gain_ns",)),
)
def launch_bound(linked: LinkedTrace) -> pl.DataFrame:
    """Where does the device wait for launches?

    Stretches of a stream that is always ready before its work is, the most idle first.

    A device event waited for its launch if all earlier work of its stream had ended before its call returned. A
    stretch is a longest run of such events, with the event before the first of them; events of one call (a graph)
    stay together. It ends where the stream is idle for `STALL_NS` or more, or where the host synchronised or made a
    copy that it waits for between two launches, since neither a graph nor fusion spans that. Stretches of fewer than
    `LEAST_LAUNCHES` launches are left out.

    `gain_ns` is a bound from above: launched as a graph or fused, the stretch cannot be shorter than its work.

    Args:
        linked: one rank.
    """
    work = _in_large_stretches(linked)
    if work.is_empty():
        return LAUNCH_BOUND.empty()
    found = _summed(work.with_columns(_idle_of_device(launched_work(linked), work)))
    named = work.drop("op").join(callers(linked), on="call_event", how="left", maintain_order="left")
    for column in ("op", "annotation"):
        found = found.join(_main(named, column), on="stretch", how="left", maintain_order="left")
    order = [pl.col("start_ns"), *by_number(*STREAM)]
    found = found.sort("idle_ns", *order, descending=[True, *[False] * len(order)])
    return answer(LAUNCH_BOUND, found, linked)


def launch_gaps(linked: LinkedTrace) -> pl.DataFrame:
    """The gaps of streams in these stretches: `device`, `start_ns`, `end_ns`; other streams may work meanwhile."""
    return (
        _in_large_stretches(linked)
        .filter(pl.col("gap_ns") > 0)
        .select("device", (pl.col("ts_ns") - pl.col("gap_ns")).alias("start_ns"), end_ns="ts_ns")
    )


def _in_large_stretches(linked: LinkedTrace) -> pl.DataFrame:
    """`_in_stretches` without stretches of few launches."""
    large = pl.col("call_event").n_unique().over("stretch") >= LEAST_LAUNCHES
    return _in_stretches(linked).filter(large)


def _summed(work: pl.DataFrame) -> pl.DataFrame:
    """A row for each stretch."""
    first_of_call = pl.col("call_event").is_first_distinct().over("stretch").alias("first_of_call")
    host = (pl.col("returned_ns") - pl.col("called_ns")).filter("first_of_call")
    return (
        work.with_columns(first_of_call)
        .group_by("stretch", maintain_order=True)
        .agg(
            pl.col("step", *STREAM).first(),
            pl.col("ts_ns").first().alias("start_ns"),
            (pl.col("end_ns").max() - pl.col("ts_ns").first()).alias("span_ns"),
            pl.col("first_of_call").sum().alias("launches"),
            pl.len().alias("kernels"),
            pl.col("gap_ns").sum().alias("idle_ns"),
            pl.col("gain_ns").sum(),
            host.sum().alias("host_launch_ns"),
        )
        .with_columns((pl.col("span_ns") - pl.col("idle_ns")).alias("device_ns"))
    )


def _in_stretches(linked: LinkedTrace) -> pl.DataFrame:
    """Device events of known launches with their `stretch`, and `gap_ns`: the idle time of the stretch before each."""
    work = launched_work(linked)
    work = work.with_columns(pl.Series("synchronised", _syncs_before(linked, work)))
    gap = pl.max_horizontal(pl.col("ts_ns") - pl.col("busy_until_ns"), 0)
    same_call = pl.col("call_event").eq(pl.col("call_event").shift(1).over(STREAM))
    no_sync = pl.col("synchronised").eq(pl.col("synchronised").shift(1).over(STREAM))
    ran_dry = (pl.col("busy_until_ns") <= pl.col("returned_ns")) & (gap < STALL_NS) & no_sync
    known = pl.col("call_event").is_not_null() & pl.col("call_event").shift(1).over(STREAM).is_not_null()
    joined = (known & (same_call | ran_dry)).fill_null(False)
    return (
        work.with_columns(joined.alias("joined"), (~joined).cum_sum().alias("stretch"))
        .with_columns(pl.when("joined").then(gap).otherwise(0).alias("gap_ns"))
        .filter(pl.col("call_event").is_not_null())
    )


def _syncs_before(linked: LinkedTrace, work: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return how many calls that synchronise ended before each event's launch; queries and allocations do not count."""
    calls = synchronising_calls(linked)
    counted = [SyncKind.DEVICE.value, SyncKind.STREAM.value, SyncKind.EVENT.value, SyncKind.COPY.value]
    ends = np.sort(calls.filter(pl.col("kind").is_in(counted)).get_column("end_ns").to_numpy())
    called = work.get_column("called_ns").fill_null(0).to_numpy()
    found: np.ndarray[tuple[int], np.dtype[np.int64]] = np.searchsorted(ends, called, side="right")
    return found


def _idle_of_device(all_work: pl.DataFrame, work: pl.DataFrame) -> pl.Series:
    """Part of the gap before each event in which all streams of its device were idle."""
    gain = np.zeros(work.height, dtype=np.int64)
    device = work.get_column("device").to_numpy()
    gap, start = (work.get_column(name).to_numpy() for name in ("gap_ns", "ts_ns"))
    for (name,), of_device in all_work.group_by("device"):
        busy = cover_of(of_device.get_column("ts_ns").to_numpy(), of_device.get_column("end_ns").to_numpy())
        rows = device == name
        gain[rows] = gap[rows] - busy.within(start[rows] - gap[rows], start[rows])
    return pl.Series("gain_ns", gain)


def _main(work: pl.DataFrame, column: str) -> pl.DataFrame:
    """Name with the most idle time before its work in each stretch; ties by name."""
    return (
        work.filter(pl.col(column).is_not_null())
        .group_by("stretch", column)
        .agg(pl.col("gap_ns").sum())
        .sort("stretch", "gap_ns", column, descending=[False, True, False])
        .unique("stretch", keep="first", maintain_order=True)
        .select("stretch", column)
    )


_UNKNOWN_KERNEL = "__missing__"
"""Kineto's name of a kernel without a name from CUPTI."""


class CounterMethod(Enum):
    """Method by which the launch of a counter range is known."""

    NAME = "name"
    POSITION = "position"


_CONFIDENCE = {CounterMethod.NAME.value: 1.0, CounterMethod.POSITION.value: 0.8}


COUNTERS = Table(
    "counters",
    "One row per counter of each profiled kernel, in the order of the kernels.",
    (
        RANK,
        STEP_OF_EVENT,
        Column("range_event", Kind.INT, "the `cuda_profiler_range` event: its row in `events`"),
        Column(
            "kernel", Kind.TEXT, "the kernel's name; null: neither the counters nor a device event have it"
        ),
        Column("call_event", Kind.INT, "the call that launched it; null: unknown"),
        Column("op_event", Kind.INT, "innermost op that encloses the call; null: none, or unknown"),
        Column("op", Kind.TEXT, "its name"),
        Column("top_op", Kind.TEXT, "outermost op that encloses the call; null: none, or unknown"),
        Column(
            "op_stack", Kind.TEXT, "the ops that enclose the call, outermost first, as JSON; null: unknown"
        ),
        Column("counter", Kind.TEXT, "the counter's name"),
        Column("value", Kind.FLOAT, "its value; null: it is no number"),
        Column("method", Kind.TEXT, "how the launch is known: see `CounterMethod`; null: it is unknown"),
        Column("confidence", Kind.FLOAT, "1.0 if names agree, 0.8 by position only; null: unknown"),
        DOUBTFUL,
    ),
)


@analysis(
    COUNTERS,
    Family.LAUNCHES,
    needs=(Need.COUNTERS,),
    uses=(Need.HOST_OPS,),
    shown="kernel counter value op top_op method",
)
def counters(linked: LinkedTrace) -> pl.DataFrame:
    """What do the hardware counters say about each kernel?

    Counters of each range that CUPTI profiled, with the op that launched its kernel.

    Rows stand in the order of the ranges, and in that of the counters' names.

    CUPTI gives ranges no correlation and no true times, only their order. The n-th range is the n-th launch of a
    kernel where there are as many of both (HTA's rule; of any API that launches kernels, HTA knows one). Where the
    trace has as many kernels, and all names that the ranges have are theirs, the method is `name`; else `position`.
    Where the numbers differ, which launch a range belongs to is unknown, and its counters stand alone.

    Args:
        linked: one rank.
    """
    ranges = _ranges(linked)
    if ranges.is_empty():
        return COUNTERS.empty()
    values = linked.timeline.tables["extra_args"].select(
        pl.col("event_id").alias("range_event"),
        as_text("key").alias("counter"),
        pl.col("value").str.strip_chars('"').cast(pl.Float64, strict=False).alias("value"),
    )
    found = (
        _matched(linked, ranges)
        .pipe(_with_op_stacks, linked)
        .with_row_index("position")
        .join(values, on="range_event")
        .sort("position", "counter")
        .with_columns(
            pl.when(pl.col("value").is_finite()).then("value").alias("value"),
            pl.col("method").replace_strict(_CONFIDENCE, return_dtype=pl.Float64).alias("confidence"),
        )
    )
    return answer(COUNTERS, found, linked)


def _ranges(linked: LinkedTrace) -> pl.DataFrame:
    """The profiled ranges in their order: range_event, kernel (null if the name is unknown)."""
    return (
        linked.timeline.events.filter(as_text("category") == Category.CUDA_PROFILER_RANGE.value)
        .sort("ts_ns", "event_id")
        .select(
            pl.col("event_id").alias("range_event"),
            pl.when(as_text("name") != _UNKNOWN_KERNEL).then(as_text("name")).alias("kernel"),
        )
    )


def _matched(linked: LinkedTrace, ranges: pl.DataFrame) -> pl.DataFrame:
    """Ranges with the call that launched their kernel, its step and its callers; null if that is unknown."""
    kernels = launched_work(linked).join(
        linked.timeline.events.filter(as_text("category").is_in(categories_of(Work.KERNEL))),
        on="event_id",
        how="semi",
    )
    kernels = kernels.filter(pl.col("call_event").is_not_null()).sort("called_ns", "ts_ns", "event_id")
    calls = _launches(linked)
    method: str | None = None
    if kernels.height == ranges.height and _agree(ranges, kernels):
        method = CounterMethod.NAME.value
        launched = kernels.select("call_event", pl.col("called_ns").alias("ts_ns"), "name")
    elif calls.height == ranges.height:
        method = CounterMethod.POSITION.value
        launched = calls.with_columns(pl.lit(None, dtype=pl.String).alias("name"))
    else:
        schema = {"call_event": pl.Int64, "ts_ns": pl.Int64, "name": pl.String}
        launched = pl.DataFrame({name: [None] * ranges.height for name in schema}, schema=schema)
    found = pl.concat([ranges, launched], how="horizontal").with_columns(
        pl.coalesce("kernel", "name").alias("kernel"), pl.lit(method, dtype=pl.String).alias("method")
    )
    with_step = with_steps(found, linked)
    return with_callers(with_step, linked)


def _agree(ranges: pl.DataFrame, kernels: pl.DataFrame) -> bool:
    pairs = pl.DataFrame({"range": ranges.get_column("kernel"), "kernel": kernels.get_column("name")})
    return bool(
        pairs.select((pl.col("range").is_null() | (pl.col("range") == pl.col("kernel"))).all()).item()
    )


def _launches(linked: LinkedTrace) -> pl.DataFrame:
    """Calls that launch a kernel, in the order of their starts; those inside another are the same launch.

    Their effect is not in the trace: CUPTI's counters displace the device's events.
    """
    calls = linked.timeline.of_role(Role.CALL).filter(call_does(as_text("name"), CallAction.LAUNCH_KERNEL))
    parents = linked.host_tree.select("event_id", "parent_event").filter(
        pl.col("parent_event").is_in(calls.get_column("event_id").implode())
    )
    return (
        calls.join(parents, on="event_id", how="anti")
        .sort("ts_ns", "event_id")
        .select(pl.col("event_id").alias("call_event"), "ts_ns")
    )


def _with_op_stacks(found: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """Add `op_stack`: the names of all ops that enclose the call, outermost first, as JSON."""
    stacks = _stacks(found.get_column("op_event").drop_nulls().unique().to_list(), linked)
    texts = pl.DataFrame(
        {"op_event": list(stacks), "op_stack": list(stacks.values())},
        schema={"op_event": pl.Int64, "op_stack": pl.String},
    )
    return found.join(texts, on="op_event", how="left", maintain_order="left")


def _stacks(ops: list[int], linked: LinkedTrace) -> dict[int, str]:
    """Text by op. Walks up from each op that launched a profiled kernel: profiled runs are short."""
    walk = host_ops(linked)
    names = dict(
        linked.timeline.events.filter(as_text("category").is_in(categories_of(Role.OP)))
        .select("event_id", as_text("name"))
        .iter_rows()
    )
    found = {}
    for op in ops:
        row = int(np.searchsorted(walk.event_id, op))
        stack: list[str] = []
        while True:
            name = names.get(int(walk.event_id[row]))
            if name is not None:
                stack.append(name)
            if walk.enclosing[row] == row:
                break
            row = int(walk.enclosing[row])
        found[op] = json.dumps(stack[::-1])
    return found
