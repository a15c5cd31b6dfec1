"""Estimate a rank's memory growth per step: by its allocations, else by `capture`'s notes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

import polars as pl
from msgspec import Struct

from tracebraid.analysis.answering import answer
from tracebraid.analysis.memory.blocks import blocks, usage_by_step
from tracebraid.analysis.needs import lacking_of
from tracebraid.analysis.time.step_windows import in_windows, step_windows
from tracebraid.model.analysis import Family, Need, OnPage, Stored, analysis
from tracebraid.model.answers import DOUBTFUL, RANK
from tracebraid.model.answers.memory import CATEGORY, DEVICE, MODULE, OP
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions import Growth

_FEWEST_STEPS = 2
"""Minimum steps that leave memory of a kind: memory of a single step may be released in the next."""

_KEY = ["device", "category", "op", "module", "size_bytes"]


MEMORY_KEPT = Table(
    "memory_kept",
    "One row per category, op, module and size of allocations that several steps made and none released, "
    "the largest in total first.",
    (
        RANK,
        DEVICE,
        CATEGORY,
        OP,
        MODULE,
        Column("size_bytes", Kind.INT, "size of each"),
        Column("steps", Kind.INT, "steps after the first that left some of them alive"),
        Column("count", Kind.INT, "allocations in those steps"),
        Column("bytes", Kind.INT, "their size together"),
        Column("bytes_per_step", Kind.FLOAT, "`bytes` by the number of steps after the first"),
    ),
)


@analysis(
    MEMORY_KEPT,
    Family.MEMORY,
    needs=(Need.MEMORY, Need.STEPS),
    uses=(Need.MEMORY, Need.EXECUTION_TRACE, Need.MODULES, Need.STEPS),
    shown="category bytes count size_bytes steps bytes_per_step op module",
    when_empty=("no step leaves allocated what other steps leave as well; it takes four steps to tell"),
)
def memory_kept(linked: LinkedTrace) -> pl.DataFrame:
    """Which allocations outlive their step, and may leak?

    Allocations that several steps leave behind, largest total first.

    Left out are those of the first step, in which optimizers make their state, those of the last, which the next may
    release, and kinds of which fewer than two other steps leave any: the trace must hold at least four steps.

    Args:
        linked: one rank.

    Raises:
        InputError: the Execution Trace is needed and cannot be read.
    """
    windows = step_windows(linked)
    between = windows.get_column("step").slice(1, max(windows.height - 2, 0))
    never = pl.col("begin_ns").is_not_null() & pl.col("end_ns").is_null()
    kept = blocks(linked).filter(never, pl.col("step").is_in(between.to_list()))
    found = (
        kept.group_by(_KEY)
        .agg(
            pl.col("step").n_unique().cast(pl.Int64).alias("steps"),
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("size_bytes").sum().alias("bytes"),
        )
        .filter(pl.col("steps") >= _FEWEST_STEPS)
        .with_columns((pl.col("bytes") / max(len(between), 1)).alias("bytes_per_step"))
        .sort("bytes", *_KEY, descending=[True, *(False for _ in _KEY)])
    )
    return answer(MEMORY_KEPT, found, linked)


_MEMORY_GROWTH_FEWEST_STEPS = 3
"""Steps after the first that a slope needs: through two points there is a line without any trend."""


MEMORY_GROWTH = Table(
    "memory_growth",
    "One row per step and device, in the order of steps: what is allocated at its end, and how that grew.",
    (
        RANK,
        Column("step", Kind.TEXT, "the step"),
        DEVICE,
        Column("start_bytes", Kind.INT, "allocated at its start"),
        Column("end_bytes", Kind.INT, "allocated at its end"),
        Column(
            "growth_bytes",
            Kind.INT,
            "at its end more than at the end of the step before; null: there is none",
        ),
        Column("kept_bytes", Kind.INT, "allocated in it and still alive at the trace's end"),
        Column("kept_allocations", Kind.INT, "their number"),
        Column(
            "slope_bytes_per_step",
            Kind.FLOAT,
            "least squares through `end_bytes` over the steps from the second on; null: fewer than 3 of them",
        ),
        DOUBTFUL,
    ),
)


@analysis(
    MEMORY_GROWTH,
    Family.MEMORY,
    needs=(Need.ALLOCATIONS, Need.STEPS),
    shown=("start_bytes end_bytes growth_bytes! kept_bytes kept_allocations slope_bytes_per_step"),
    formula=(
        "Allocated at the start and the end of each step; slope: least-squares line through the ends from"
        " the second step on."
    ),
    on_page=OnPage(),
    stored=Stored.OF_FEW_EVENTS,
)
def memory_growth(linked: LinkedTrace) -> pl.DataFrame:
    """Does allocated memory grow from step to step?

    What is allocated at each step's end, and its trend over the steps.

    The slope is the least-squares line through (number of the step, bytes at its end), without the first step, in
    which
    optimizers make their state. `memory_kept` says what it is.

    Args:
        linked: one rank.

    Raises:
        InputError: the Execution Trace is needed and cannot be read.
    """
    changes = usage_by_step(linked, per_step=True)
    key = ["window", "step", "device"]
    ends = changes.group_by(key, maintain_order=True).agg(
        (pl.col("allocated_bytes").first() - pl.col("size_bytes").first()).alias("start_bytes"),
        pl.col("allocated_bytes").last().alias("end_bytes"),
    )
    growth = pl.col("end_bytes") - pl.col("end_bytes").shift(1).over("device")
    found = (
        ends.with_columns(growth.alias("growth_bytes"))
        .join(_kept(linked), on=["window", "device"], how="left", maintain_order="left")
        .join(_slopes(ends), on="device", how="left", maintain_order="left")
        .with_columns(pl.col("kept_bytes", "kept_allocations").fill_null(0))
    )
    return answer(MEMORY_GROWTH, found, linked)


def _kept(linked: LinkedTrace) -> pl.DataFrame:
    """Allocations of each step that are never released."""
    windows = step_windows(linked).with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("window"))
    never = blocks(linked).filter(pl.col("begin_ns").is_not_null() & pl.col("end_ns").is_null())
    inside = in_windows(never.drop("step", "end_ns"), "begin_ns", windows)
    return inside.group_by("window", "device").agg(
        pl.col("size_bytes").sum().alias("kept_bytes"), pl.len().cast(pl.Int64).alias("kept_allocations")
    )


def _slopes(ends: pl.DataFrame) -> pl.DataFrame:
    x, y = pl.col("window").cast(pl.Float64), pl.col("end_bytes").cast(pl.Float64)
    centred = x - x.mean()
    slope = (centred * (y - y.mean())).sum() / (centred * centred).sum()
    return (
        ends.filter(pl.col("window") > 0)
        .group_by("device")
        .agg(pl.when(pl.len() >= _MEMORY_GROWTH_FEWEST_STEPS).then(slope).alias("slope_bytes_per_step"))
    )


_LEAST_BYTES = 16 * 1024
"""Minimum growth per step that counts."""
_EVEN = 0.25
"""Minimum growth of a step relative to the median: a one-time cache is not a trend."""


class _Trend(Struct, frozen=True):
    """Thresholds of growth: number of steps, bytes, and each step's share of the median."""

    steps: int
    least_bytes: int
    even: float


_OF_DEVICE = _Trend(3, _LEAST_BYTES, _EVEN)
_OF_PROCESS = _Trend(5, 512 * 1024, 0.5)
"""The process takes pages from the system by and by, whatever it computes."""


def growth_by_step(linked: LinkedTrace) -> Growth | None:
    """Memory that each step leaves allocated; None: no growth, or unknown."""
    if not lacking_of((Need.MEMORY,), linked):
        return _of_allocations(linked)
    facts = linked.capture_facts
    return _even(linked, facts.device_bytes, _OF_DEVICE) or _even(linked, facts.resident_bytes, _OF_PROCESS)


def _even(linked: LinkedTrace, values: Sequence[int], trend: _Trend) -> Growth | None:
    """The growth over the last steps, if each of them grows about as much."""
    more = [after - before for before, after in pairwise(values)][-trend.steps :]
    each = median(more) if len(more) == trend.steps else 0
    if each < trend.least_bytes or min(more) < trend.even * each:
        return None
    return Growth(linked.rank, each, trend is _OF_DEVICE)


def _of_allocations(linked: LinkedTrace) -> Growth | None:
    """Memory that several steps leave on the device with the most, and the op that allocates most of it."""
    kept = memory_kept(linked)
    by_device = kept.group_by("device").agg(pl.col("bytes_per_step").sum(), pl.col("op").first())
    most = by_device.sort("bytes_per_step", "device", descending=[True, False]).head(1).rows(named=True)
    if not most:
        return _of_few_steps(linked)
    if most[0]["bytes_per_step"] < _LEAST_BYTES or not _goes_on(linked, most[0]["device"]):
        return None
    return Growth(linked.rank, most[0]["bytes_per_step"], most[0]["device"] != "cpu", most[0]["op"] or "")


def _goes_on(linked: LinkedTrace, device: str) -> bool:
    """Return whether the later half of the steps grows, too: what fills a cache ends."""
    grown = memory_growth(linked).filter((pl.col("device") == device) & pl.col("growth_bytes").is_not_null())
    later = grown.get_column("growth_bytes").to_list()[grown.height // 2 :]
    return bool(later) and median(later) >= _LEAST_BYTES


def _of_few_steps(linked: LinkedTrace) -> Growth | None:
    """Memory that each step but the first leaves, if steps are too few to find common allocations."""
    grown = memory_growth(linked).filter(pl.col("growth_bytes").is_not_null())
    by_device = grown.group_by("device").agg(
        pl.col("growth_bytes").median().alias("each"), pl.col("growth_bytes").min().alias("least"), pl.len()
    )
    even = (
        (pl.col("each") >= _LEAST_BYTES) & (pl.col("least") >= _EVEN * pl.col("each")) & (pl.col("len") > 1)
    )
    most = by_device.filter(even).sort("each", "device", descending=[True, False]).head(1).rows(named=True)
    return Growth(linked.rank, most[0]["each"], most[0]["device"] != "cpu") if most else None
