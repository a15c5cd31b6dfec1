"""Return device events with launching op, family, step, and whether they count, for analyses of kernels.

Kept per linked trace, and shared by the analyses of this family.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.answering import StepOptions, answer, by_launch
from tracebraid.analysis.device import device_events, event_columns, launch_calls, stream_gaps
from tracebraid.analysis.statistics import max_of, mean_of, median_of, min_of, p95_of, share_of, std_of
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.analysis import Family, Need, OnPage, Rows, Stored, analysis
from tracebraid.model.answers import DOUBTFUL, RANK, STEP_OF_LAUNCH
from tracebraid.model.answers.launches import Launcher
from tracebraid.model.category import Role, categories_of
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.device_peaks import COMMUNICATION, COMPUTE
from tracebraid.model.expressions import as_text
from tracebraid.model.kernel_family import FamilyBasis, kernel_families_of
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import CallAction, call_does


def device_work(linked: LinkedTrace) -> pl.DataFrame:
    """`device_events` and: op_name, op_category (of the launching op or annotation), family, family_by."""
    return linked.derived(_device_work)


def _device_work(linked: LinkedTrace) -> pl.DataFrame:
    events = device_events(linked)
    op = events.get_column("op_event")
    names = event_columns(linked.timeline, op, op_name="name", op_category="category")
    work = events.with_columns(names).with_columns(as_text("op_name", "op_category"))
    return work.hstack(kernel_families_of(work))


def device_work_of(linked: LinkedTrace, options: StepOptions) -> pl.DataFrame:
    """Add `step`, that of the launch, and `in_means`: see `step_rows`."""
    return linked.derived(_device_work_of, options)


def _device_work_of(linked: LinkedTrace, options: StepOptions) -> pl.DataFrame:
    return by_launch(device_work(linked), linked, options)


_DECADES = 18
DURATION_EDGES_NS = np.array(
    [0, *(step * 10**decade for decade in range(_DECADES) for step in (1, 2, 5)), 10**_DECADES],
    dtype=np.int64,
)
"""Lower bounds of bins in ns: 0, then 1, 2 and 5 of each decade up to 10^18 (31 years)."""


KERNEL_DURATIONS = Table(
    "kernel_durations",
    "One row per bin of durations that has kernels, the shortest first. Bins begin at 1, 2 and 5 of each decade.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("from_ns", Kind.INT, "shortest duration of the bin"),
        Column("below_ns", Kind.INT, "durations of the bin are less than this"),
        Column("count", Kind.INT, "kernels whose duration lies in the bin"),
        Column("total_ns", Kind.INT, "sum of their durations"),
        Column("share_of_count", Kind.FLOAT, "of all kernels, 0 to 1"),
        Column("share", Kind.FLOAT, "of the sum of all kernels' durations, 0 to 1"),
        DOUBTFUL,
    ),
)


@analysis(
    KERNEL_DURATIONS,
    Family.KERNELS,
    needs=(Need.DEVICE_WORK,),
    shown="from_ns below_ns count share_of_count total_ns share",
    stored=Stored.ALWAYS,
)
def kernel_durations(linked: LinkedTrace, per_step: bool = False) -> pl.DataFrame:
    """How are kernel durations distributed?

    The histogram of the kernels' durations, in logarithmic bins.

    Copies, fills and waits are no kernels.

    Args:
        linked: one rank.
        per_step: a histogram for each step in which they were launched, instead of one over all.
    """
    work = device_work_of(linked, StepOptions(per_step))
    work = work.filter(pl.col("kind").is_in([COMPUTE, COMMUNICATION]))
    if work.is_empty():
        return KERNEL_DURATIONS.empty()
    found = np.searchsorted(DURATION_EDGES_NS, work.get_column("dur_ns").to_numpy(), side="right") - 1
    bins = np.clip(found, 0, len(DURATION_EDGES_NS) - 2)
    return (
        work.with_columns(
            pl.Series("from_ns", DURATION_EDGES_NS[bins]), pl.Series("below_ns", DURATION_EDGES_NS[bins + 1])
        )
        .group_by("step", "from_ns", "below_ns")
        .agg(pl.len().alias("count"), pl.col("dur_ns").sum().alias("total_ns"))
        .with_columns(share_of("count").alias("share_of_count"), share_of("total_ns").alias("share"))
        .sort("from_ns")
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(KERNEL_DURATIONS, frame, linked))
    )


_KEY = ["step", "lane", "family", "name"]


_KERNELS_NAME = Column("name", Kind.TEXT, "name of the kernel or copy")

_FAMILY = Column("family", Kind.TEXT, "a code of `KernelFamily`, such as `gemm`")

KERNEL_PACE = Table(
    "kernel_pace",
    "One row per stream and name of kernel that ran there at least twice: distances from start to start.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("device", Kind.TEXT, "device number"),
        Column("stream", Kind.TEXT, "stream, as its lane is called in the file"),
        _FAMILY,
        _KERNELS_NAME,
        Column("count", Kind.INT, "distances: its runs less one"),
        Column("mean_ns", Kind.FLOAT, "mean distance"),
        Column("median_ns", Kind.FLOAT, "median distance"),
        Column("p95_ns", Kind.FLOAT, "95th percentile, interpolated"),
        Column("min_ns", Kind.INT, "shortest distance"),
        Column("max_ns", Kind.INT, "longest distance"),
        Column("std_ns", Kind.FLOAT, "standard deviation of the sample; null for a single distance"),
        DOUBTFUL,
    ),
)


@analysis(
    KERNEL_PACE,
    Family.KERNELS,
    needs=(Need.DEVICE_WORK,),
    shown="stream name count median_ns mean_ns min_ns max_ns std_ns family",
    when_empty="no kernel runs twice on a stream",
)
def kernel_pace(linked: LinkedTrace, per_step: bool = False) -> pl.DataFrame:
    """How regularly does each kernel recur on its stream?

    Distances from start to start of each kernel on its stream.

    Sorted by the number of distances, the most first. What lies in doubtful steps is counted: a distance that left
    out a step would be that of other kernels.

    Args:
        linked: one rank.
        per_step: distances within each step in which both were launched, instead of over all.
    """
    work = device_work_of(linked, StepOptions(per_step))
    work = work.filter(pl.col("kind").is_in([COMPUTE, COMMUNICATION])).sort("ts_ns", "event_id")
    if work.is_empty():
        return KERNEL_PACE.empty()
    stream = pl.coalesce(as_text("tid"), "tid_text", pl.lit("unknown")).alias("stream")
    distance = pl.col("distance")
    return (
        work.with_columns(pl.col("ts_ns").diff().over(_KEY).alias("distance"))
        .filter(distance.is_not_null())
        .group_by(_KEY)
        .agg(
            pl.col("device").first(),
            pl.len().alias("count"),
            mean_of(distance),
            median_of(distance),
            p95_of(distance),
            min_of(distance),
            max_of(distance),
            std_of(distance),
        )
        .join(linked.timeline.lanes.select("lane", stream), on="lane", how="left")
        .sort("count", "name", "family", "lane", descending=[True, False, False, False])
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(KERNEL_PACE, frame, linked))
    )


_KERNELS_KIND = Column("kind", Kind.TEXT, "compute, communication, memory or wait")

_COUNT = Column("count", Kind.INT, "how often it ran")

_TOTAL = Column("total_ns", Kind.INT, "sum of its durations")

_MEAN = Column(
    "mean_ns", Kind.FLOAT, "mean duration, without doubtful steps unless requested; null: it ran in no others"
)

_MIN = Column("min_ns", Kind.INT, "shortest")

_MAX = Column("max_ns", Kind.INT, "longest")

_STD = Column(
    "std_ns", Kind.FLOAT, "standard deviation of the sample (divided by count - 1); null for fewer than two"
)

_SHARE = Column("share", Kind.FLOAT, "of the sum of all device events' durations, 0 to 1")

KERNELS_BY_OP = Table(
    "kernels_by_op",
    "One row per launching op, kind, family and name of device event, the longest in total first.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("op", Kind.TEXT, "innermost op that launched it, else annotation; null: none is known"),
        Column("op_category", Kind.TEXT, "`cpu_op` or `user_annotation`; null without an op"),
        _KERNELS_KIND,
        _FAMILY,
        Column("family_by", Kind.TEXT, "basis of the family: `kind`, `op` or `name`; null: none"),
        _KERNELS_NAME,
        _COUNT,
        _TOTAL,
        _MEAN,
        _MIN,
        _MAX,
        _STD,
        _SHARE,
        DOUBTFUL,
    ),
)


@analysis(
    KERNELS_BY_OP,
    Family.KERNELS,
    needs=(Need.DEVICE_WORK,),
    uses=(Need.HOST_OPS,),
    shown="op name total_ns share count mean_ns family max_ns",
    formula=(
        "Durations of device events by the innermost op or annotation around the call that launched them."
    ),
    on_page=OnPage(Rows.TABLE_ROWS, by=("total_ns",)),
    stored=Stored.ALWAYS,
)
def kernels_by_op(linked: LinkedTrace, per_step: bool = False, with_doubtful: bool = False) -> pl.DataFrame:
    """Which op launched which kernels, and what do they cost?

    Device events by launching op and name, the longest in total first.

    Args:
        linked: one rank.
        per_step: rows for each step in which they were launched, instead of over all.
        with_doubtful: count the work of doubtful steps in mean and std, too.
    """
    work = device_work_of(linked, StepOptions(per_step, with_doubtful))
    if work.is_empty():
        return KERNELS_BY_OP.empty()
    duration = pl.col("dur_ns")
    counted = duration.filter("in_means")
    return (
        work.rename({"op_name": "op"})
        .group_by("step", "op", "op_category", "kind", "family", "family_by", "name")
        .agg(
            pl.len().alias("count"),
            duration.sum().alias("total_ns"),
            mean_of(counted),
            min_of(duration),
            max_of(duration),
            std_of(counted),
        )
        .with_columns(share_of("total_ns").alias("share"))
        .sort("total_ns", "op", "op_category", "name", "kind", descending=[True, False, False, False, False])
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(KERNELS_BY_OP, frame, linked))
    )


KERNEL_FAMILIES = Table(
    "kernel_families",
    "One row per family of kernels, the longest in total first. The rows of a step add up to its device time.",
    (
        RANK,
        STEP_OF_LAUNCH,
        _FAMILY,
        Column("names", Kind.INT, "different names of kernels"),
        Column("count", Kind.INT, "how often they ran"),
        Column("total_ns", Kind.INT, "sum of their durations"),
        Column("by_op_ns", Kind.INT, "part of that whose family the launching op decided"),
        Column("by_name_ns", Kind.INT, "part of that whose family the kernel's name decided"),
        _MEAN,
        _SHARE,
        DOUBTFUL,
    ),
)


@analysis(
    KERNEL_FAMILIES,
    Family.KERNELS,
    needs=(Need.DEVICE_WORK,),
    uses=(Need.HOST_OPS,),
    shown="family total_ns share count mean_ns names by_op_ns by_name_ns",
    formula=(
        "Durations of device events by the sort of their work, which the kind, the launching op or the "
        "kernel's name tells, in this order."
    ),
    on_page=OnPage(),
    stored=Stored.ALWAYS,
)
def kernel_families(linked: LinkedTrace, per_step: bool = False, with_doubtful: bool = False) -> pl.DataFrame:
    """Which kinds of kernels take the device's time?

    Device events by the family of their kernel, the longest in total first.

    Args:
        linked: one rank.
        per_step: rows for each step in which they were launched, instead of over all.
        with_doubtful: count the work of doubtful steps in the mean, too.
    """
    work = device_work_of(linked, StepOptions(per_step, with_doubtful))
    if work.is_empty():
        return KERNEL_FAMILIES.empty()
    return (
        work.group_by("step", "family")
        .agg(
            pl.col("name").n_unique().alias("names"),
            pl.len().alias("count"),
            pl.col("dur_ns").sum().alias("total_ns"),
            _decided_by(FamilyBasis.OP).alias("by_op_ns"),
            _decided_by(FamilyBasis.NAME).alias("by_name_ns"),
            mean_of(pl.col("dur_ns").filter("in_means")),
        )
        .with_columns(share_of("total_ns").alias("share"))
        .sort("total_ns", "family", descending=[True, False])
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(KERNEL_FAMILIES, frame, linked))
    )


def _decided_by(basis: FamilyBasis) -> pl.Expr:
    return pl.col("dur_ns").filter(pl.col("family_by") == basis.value).sum()


SHORT_KERNEL_NS = 10_000
"""Kernels below this are short, in ns: TraceLens' default, and about what an eager op takes on the host."""


SHORT_KERNELS = Table(
    "short_kernels",
    "One row per name of computing kernel with runs below the threshold; those with the most time around them first.",
    (
        RANK,
        STEP_OF_LAUNCH,
        _FAMILY,
        _KERNELS_NAME,
        Column("count", Kind.INT, "its runs that are shorter than the threshold"),
        Column("count_of_all", Kind.INT, "all its runs"),
        Column("total_ns", Kind.INT, "sum of the durations of the short runs"),
        Column(
            "mean_ns", Kind.FLOAT, "their mean, without doubtful steps unless requested; null: none is left"
        ),
        _SHARE,
        Column(
            "gap_before_ns",
            Kind.INT,
            "time in which their streams were empty before them; 0 if nothing ran earlier",
        ),
        Column("gap_after_ns", Kind.INT, "the same after them; counts again as `gap_before_ns` of the next"),
        DOUBTFUL,
    ),
)


@analysis(
    SHORT_KERNELS,
    Family.KERNELS,
    needs=(Need.DEVICE_WORK,),
    shown="name gap_before_ns count count_of_all total_ns mean_ns share family gap_after_ns",
    when_empty="no kernel is shorter than the threshold (--set max_ns=...)",
)
def short_kernels(
    linked: LinkedTrace, max_ns: int = SHORT_KERNEL_NS, per_step: bool = False, with_doubtful: bool = False
) -> pl.DataFrame:
    """Which kernels take longer to launch than to run?

    Kernels that compute, and are shorter than a threshold, by name.

    Copies, fills and communication are left out: neither a graph nor fusion saves the time around a collective. They
    count as neighbours where gaps are measured, as their stream is not empty then.

    Args:
        linked: one rank.
        max_ns: a kernel is short that takes less than this, in ns.
        per_step: rows for each step in which they were launched, instead of over all.
        with_doubtful: count the work of doubtful steps in the mean, too.
    """
    every = device_work_of(linked, StepOptions(per_step, with_doubtful))
    every = every.with_columns(pl.col("dur_ns").sum().over("step").alias("of_step_ns"))
    work = every.filter(pl.col("kind") == COMPUTE)
    is_short = pl.col("dur_ns") < max_ns
    if work.filter(is_short).is_empty():
        return SHORT_KERNELS.empty()
    gaps = stream_gaps(linked).select("event_id", "gap_before_ns", "gap_after_ns")
    return (
        work.join(gaps, on="event_id", how="left", maintain_order="left")
        .group_by("step", "family", "name")
        .agg(
            is_short.sum().alias("count"),
            pl.len().alias("count_of_all"),
            pl.col("dur_ns").filter(is_short).sum().alias("total_ns"),
            mean_of(pl.col("dur_ns").filter(is_short & pl.col("in_means"))),
            pl.col("gap_before_ns", "gap_after_ns").filter(is_short).sum(),
            pl.col("of_step_ns").first(),
        )
        .filter(pl.col("count") > 0)
        .with_columns((pl.col("total_ns") / pl.col("of_step_ns")).fill_nan(0.0).alias("share"))
        .sort("gap_before_ns", "total_ns", "name", "family", descending=[True, True, False, False])
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(SHORT_KERNELS, frame, linked))
    )


LAUNCHERS = Table(
    "launchers",
    "One row per kind of launcher: how much of the device's time it launched. The rows of a step add up to it.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("launcher", Kind.TEXT, "`graph`, `op`, `annotation`, `call` or `unknown`: see `Launcher`"),
        Column("kernels", Kind.INT, "device events that it launched"),
        Column("device_ns", Kind.INT, "sum of their durations"),
        Column("share", Kind.FLOAT, "of the sum of all device events' durations, 0 to 1"),
        DOUBTFUL,
    ),
)


@analysis(
    LAUNCHERS,
    Family.KERNELS,
    needs=(Need.DEVICE_WORK,),
    shown="launcher device_ns share kernels",
    formula=(
        "Durations of device events by what launched them, the first that fits: a graph, an op, an "
        "annotation, a call outside of both; unknown where no launch is in the trace."
    ),
    on_page=OnPage(),
    stored=Stored.ALWAYS,
)
def launchers(linked: LinkedTrace, per_step: bool = False) -> pl.DataFrame:
    """What launched the device's work?

    The device's time by what launched it.

    Each device event counts once, by the first of these: `graph`, a call that launches a graph; `op`, an operator
    that directly encloses the launching call; `annotation`, an annotation there; `call`, a call outside both;
    `unknown`, no launch is in the trace.

    Args:
        linked: one rank.
        per_step: rows for each step in which the work was launched, instead of over all.
    """
    events = device_work_of(linked, StepOptions(per_step))
    if events.is_empty():
        return LAUNCHERS.empty()
    order = [launcher.value for launcher in Launcher]
    return (
        events.with_columns(_launcher(linked, events))
        .group_by("step", "launcher")
        .agg(pl.len().alias("kernels"), pl.col("dur_ns").sum().alias("device_ns"))
        .with_columns(share_of("device_ns").alias("share"))
        .sort(pl.col("launcher").cast(pl.Enum(order)))
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(LAUNCHERS, frame, linked))
    )


def _launcher(linked: LinkedTrace, events: pl.DataFrame) -> pl.Series:
    """Launcher of each device event, in the order of `launch_calls`."""
    launcher = (
        pl.when(call_does(pl.col("call"), CallAction.LAUNCH_GRAPH))
        .then(pl.lit(Launcher.GRAPH.value))
        .when(pl.col("op_category").is_in(categories_of(Role.OP)))
        .then(pl.lit(Launcher.OP.value))
        .when(pl.col("op_event").is_not_null())
        .then(pl.lit(Launcher.ANNOTATION.value))
        .when(pl.col("call_event").is_not_null())
        .then(pl.lit(Launcher.CALL.value))
        .otherwise(pl.lit(Launcher.UNKNOWN.value))
    )
    found = events.select("call_event", "op_event", "op_category", launch_calls(linked).get_column("call"))
    return found.select(launcher.alias("launcher")).to_series()


_KERNELS_KEY = ["step", "kind", "name"]


KERNELS = Table(
    "kernels",
    "One row per kind and name of device event, the longest in total first.",
    (
        RANK,
        STEP_OF_LAUNCH,
        _KERNELS_KIND,
        Column("family", Kind.TEXT, "a code of `KernelFamily`: that in which it spent most of its time"),
        _KERNELS_NAME,
        _COUNT,
        _TOTAL,
        _MEAN,
        Column("median_ns", Kind.FLOAT, "median duration; what counts and null as in `mean_ns`"),
        Column("p95_ns", Kind.FLOAT, "95th percentile, interpolated; what counts and null as in `mean_ns`"),
        _MIN,
        _MAX,
        _STD,
        _SHARE,
        DOUBTFUL,
    ),
)


@analysis(
    KERNELS,
    Family.KERNELS,
    needs=(Need.DEVICE_WORK,),
    shown="name total_ns share count mean_ns max_ns family p95_ns kind",
    formula=(
        "Durations of device events by kind and name, added up: work on two streams at once counts twice."
        " share: of the sum of all durations. Means leave out doubtful steps. Percentiles are "
        "interpolated linearly; the standard deviation is that of a sample (n - 1)."
    ),
    on_page=OnPage(Rows.TABLE_ROWS, by=("total_ns",)),
    stored=Stored.ALWAYS,
)
def kernels(linked: LinkedTrace, per_step: bool = False, with_doubtful: bool = False) -> pl.DataFrame:
    """Which kernels and copies take the most device time?

    Device events by kind and name, the longest in total first.

    Args:
        linked: one rank.
        per_step: a row for each step in which they were launched, instead of one over all.
        with_doubtful: count the work of doubtful steps in mean, median, p95 and std, too.
    """
    work = device_work_of(linked, StepOptions(per_step, with_doubtful))
    if work.is_empty():
        return KERNELS.empty()
    duration = pl.col("dur_ns")
    counted = duration.filter("in_means")
    return (
        work.group_by(_KERNELS_KEY)
        .agg(
            pl.len().alias("count"),
            duration.sum().alias("total_ns"),
            mean_of(counted),
            median_of(counted),
            p95_of(counted),
            min_of(duration),
            max_of(duration),
            std_of(counted),
        )
        .join(_families(work), on=_KERNELS_KEY, how="left", nulls_equal=True)
        .with_columns(share_of("total_ns").alias("share"))
        .sort("total_ns", "name", "kind", descending=[True, False, False])
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(KERNELS, frame, linked))
    )


def _families(work: pl.DataFrame) -> pl.DataFrame:
    """The family in which each row spent the most time."""
    return (
        work.group_by(*_KERNELS_KEY, "family")
        .agg(pl.col("dur_ns").sum())
        .sort("dur_ns", "family", descending=[True, False])
        .unique(_KERNELS_KEY, keep="first", maintain_order=True)
        .select(*_KERNELS_KEY, "family")
    )
