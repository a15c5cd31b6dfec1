"""A row for each occurrence of a step and device, in the order of starts."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.answering import answer
from tracebraid.analysis.device import COMPILING
from tracebraid.analysis.statistics import max_of, mean_of, median_of, min_of, p95_of, std_of
from tracebraid.analysis.time.breakdown import breakdown
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.model.analysis import Family, Need, OnPage, Stored, analysis
from tracebraid.model.answers import DOUBTFUL, RANK
from tracebraid.model.answers.time import STEP_TIMES, FirstTimeWork, StepPart
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.expressions import as_text, by_number
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import CallAction, call_does

_NAMES = {
    # And CUPTI's name for the driver's compiler.
    FirstTimeWork.COMPILE: rf"{COMPILING}|^Driver Compiler$",
    FirstTimeWork.MODULE_LOAD: r"^(?:cu|hip)ModuleLoad|^(?:cu|cuda|hip)LibraryLoad"
    r"|^Lazy Function Loading$|^Runtime Triggered Module Loading$",
}


def first_time_work(linked: LinkedTrace) -> dict[FirstTimeWork, NDArray[np.bool_]]:
    """For each kind of such work whether it began in each of the `step_windows`."""
    windows = step_windows(linked)
    starts, ends = (windows.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    events = linked.timeline.events.select("name", "ts_ns")
    text = as_text("name")
    names = events.select(pl.col("name").unique())
    found = {}
    does = {kind: text.str.contains(pattern) for kind, pattern in _NAMES.items()}
    # The caching allocator asks the device only for what it does not have yet.
    does[FirstTimeWork.DEVICE_MALLOC] = call_does(text, CallAction.ALLOCATE_ON_DEVICE)
    for kind in FirstTimeWork:
        known = names.filter(does[kind])
        moments = events.join(known, on="name", how="semi").get_column("ts_ns").sort().to_numpy()
        found[kind] = np.searchsorted(moments, ends) > np.searchsorted(moments, starts)
    return found


_STEPS = 3
"""Steps, at least: two that differ do not show which of them is usual."""

_DEVIATIONS = 5.0
"""Robust standard deviations above the median of the rest from which on a step is slower than the rest. 3 is usual
for single outliers (Leys et al. 2013, "Detecting outliers"); the few steps of a trace call for more."""
_SHARE = 0.2
"""Share of that median by which it is slower, at least, however little the rest deviate."""
_NORMAL = 1.4826
"""Standard deviations in a median absolute deviation, of a normal distribution."""


def warm_up(spans: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether each step is warm-up.

    The rest is the later half of the steps (of an odd number with the middle one), with median m and median absolute
    deviation d. The steps before it are warm-up up to the first that takes at most m + max(5 * 1.4826 d, 0.2 m), or
    that takes 20 % more than the step before it: warming up does not get slower.
    """
    found = np.zeros(len(spans), dtype=np.bool_)
    if len(spans) < _STEPS:
        return found
    first = len(spans) // 2
    rest = spans[first:]
    median = float(np.median(rest))
    deviation = _NORMAL * float(np.median(np.abs(rest - median)))
    slow = spans[:first] > median + max(_DEVIATIONS * deviation, _SHARE * median)
    slow[1:] &= spans[1:first] <= (1 + _SHARE) * spans[: first - 1]
    found[:first] = np.logical_and.accumulate(slow)
    return found


_PARTS = ("compute_ns", "exposed_communication_ns", "exposed_memory_ns", "idle_ns")


@analysis(
    STEP_TIMES,
    Family.TIME,
    needs=(Need.STEPS,),
    uses=(Need.DEVICE_WORK,),
    shown=(
        "start_ns span_ns compute_ns exposed_communication_ns exposed_memory_ns idle_ns! warmup gap_ns "
        "first_time_work"
    ),
    formula=(
        "span: from the end of the step before to its own, on host or device. compute: some compute runs. "
        "Exposed comm: communication runs and no compute. Exposed memory: copies or fills run, and "
        "neither of both. idle: the rest. The four add up to the span. Warm-up: steps before the later "
        "half up to the first that takes no more than m + max(5 * 1.4826 * d, 0.2 * m), m and d being the"
        " median and the median absolute deviation of the later half, or 20 % more than the one before it."
    ),
    on_page=OnPage(of_every_rank=True),
    stored=Stored.ALWAYS,
)
def step_times(linked: LinkedTrace) -> pl.DataFrame:
    """How long did each step take, and what filled it?

    A row for each occurrence of a step and device, in the order of starts.

    compute + exposed communication + exposed memory + idle = span, to the nanosecond, as in `breakdown`. Which steps
    are warm-up is said by `warm_up`. A step lasts from the end of the step before to its own, see `step_spans`. Steps
    may overlap, as those of two threads do: each is measured by itself. So is each rank: where recordings of ranks
    begin apart, the first step of a rank that began early holds its waiting for the others; `rank_steps` leaves it out.

    Args:
        linked: one rank.
    """
    return linked.derived(_step_times)


def _step_times(linked: LinkedTrace) -> pl.DataFrame:
    windows = step_windows(linked)
    parts = breakdown(linked).filter(pl.col("step").is_not_null())
    if parts.is_empty():
        return STEP_TIMES.empty()
    span = pl.col("end_ns") - pl.col("start_ns")
    kinds = first_time_work(linked)
    flags = pl.DataFrame({kind.value: found for kind, found in kinds.items()})
    names = [pl.when(kind.value).then(pl.lit(kind.value)) for kind in kinds]
    evidence = pl.concat_str(names, separator=",", ignore_nulls=True)
    of_windows = windows.select(
        (pl.col("start_ns").shift(-1) - pl.col("end_ns")).alias("gap_ns"),
        pl.Series("warmup", warm_up(windows.select(span).to_series().to_numpy())),
        flags.select(pl.when(evidence != "").then(evidence).alias("first_time_work")).to_series(),
    ).with_row_index("occurrence")
    # The rows of each device are the windows, in their order.
    return (
        parts.select("step", "device", "start_ns", "span_ns", *_PARTS)
        .with_columns(pl.int_range(pl.len()).cast(pl.UInt32).over("device").alias("occurrence"))
        .join(of_windows, on="occurrence", how="left", maintain_order="left")
        .sort("occurrence", maintain_order=True)
        .pipe(lambda frame: answer(STEP_TIMES, frame, linked))
    )


STEP_SPREAD = Table(
    "step_spread",
    "One row per device and part of the step: how it differs between the steps that are counted.",
    (
        RANK,
        Column("device", Kind.TEXT, "device number; `cpu` for a trace without device work"),
        Column("part", Kind.TEXT, "a value of `StepPart`: a column of `step_times`"),
        Column("count", Kind.INT, "steps that are counted"),
        Column("mean_ns", Kind.FLOAT, "mean"),
        Column("median_ns", Kind.FLOAT, "median"),
        Column("std_ns", Kind.FLOAT, "standard deviation of the sample (n - 1); null: a single step"),
        Column("p95_ns", Kind.FLOAT, "95th percentile, interpolated between steps"),
        Column("min_ns", Kind.INT, "least"),
        Column("max_ns", Kind.INT, "most"),
        Column(
            "variation", Kind.FLOAT, "coefficient of variation: std / mean; null: a single step, or mean 0"
        ),
        Column("warmup_left_out", Kind.INT, "warm-up steps that are not counted"),
        Column("doubtful_left_out", Kind.INT, "doubtful steps that are not counted"),
    ),
)


@analysis(
    STEP_SPREAD,
    Family.TIME,
    needs=(Need.STEPS,),
    uses=(Need.DEVICE_WORK,),
    shown=(
        "part count mean_ns variation median_ns min_ns max_ns std_ns p95_ns warmup_left_out doubtful_left_out"
    ),
    formula=(
        "Over the steps without warm-up and doubtful ones: mean, median, standard deviation, least, most;"
        " variation = standard deviation / mean. Percentiles are interpolated linearly; the standard "
        "deviation is that of a sample (n - 1)."
    ),
    on_page=OnPage(of_every_rank=True),
    stored=Stored.ALWAYS,
)
def step_spread(linked: LinkedTrace, with_warmup: bool = False, with_doubtful: bool = False) -> pl.DataFrame:
    """How much do step times vary, and in which part?

    A row for each device and part of the step, in the order of `StepPart`.

    Args:
        linked: one rank.
        with_warmup: count warm-up steps, too.
        with_doubtful: count steps about which `validity` has a doubt, too.
    """
    return spread_of(step_times(linked), with_warmup, with_doubtful)


def spread_of(times: pl.DataFrame, with_warmup: bool = False, with_doubtful: bool = False) -> pl.DataFrame:
    """The spread of the steps of `step_times`, of one rank or several."""
    counted = (pl.lit(with_warmup) | ~pl.col("warmup")) & (pl.lit(with_doubtful) | ~pl.col("doubtful"))
    left_out = times.group_by("rank", "device").agg(
        (pl.col("warmup") & (not with_warmup)).sum().cast(pl.Int64).alias("warmup_left_out"),
        (pl.col("doubtful") & (not with_doubtful)).sum().cast(pl.Int64).alias("doubtful_left_out"),
    )
    order = [part.value for part in StepPart]
    value = pl.col("value")
    mean, std = mean_of(value), std_of(value)
    return (
        times.filter(counted)
        .rename({f"{part}_ns": part for part in order})
        .unpivot(on=order, index=["rank", "device"], variable_name="part")
        .filter(value.is_not_null())
        .group_by("rank", "device", "part", maintain_order=True)
        .agg(
            pl.len().alias("count"),
            mean,
            median_of(value),
            std,
            p95_of(value),
            min_of(value),
            max_of(value),
            pl.when(mean != 0).then(std / mean).alias("variation"),
        )
        .join(left_out, on=["rank", "device"], how="left", maintain_order="left")
        .sort("rank", *by_number("device"), pl.col("part").cast(pl.Enum(order)))
        .pipe(STEP_SPREAD.conform)
    )


STEPS = Table(
    "steps",
    "One row per step: an occurrence of the annotation that marks steps, on the host.",
    (
        RANK,
        Column("step", Kind.TEXT, "the annotation's name, such as `ProfilerStep#5`"),
        Column("start_ns", Kind.INT, "start"),
        Column("end_ns", Kind.INT, "end"),
        DOUBTFUL,
    ),
)


@analysis(
    STEPS,
    Family.TIME,
    needs=(Need.STEPS,),
    shown="start_ns end_ns",
    formula="Start and end of the step's annotation on the host.",
    on_page=OnPage(of_every_rank=True),
    stored=Stored.ALWAYS,
)
def steps(linked: LinkedTrace) -> pl.DataFrame:
    """When did each step run?

    The occurrences of an annotation on the host, in the order of their starts.

    Args:
        linked: one rank.
    """
    return answer(STEPS, step_windows(linked), linked)
