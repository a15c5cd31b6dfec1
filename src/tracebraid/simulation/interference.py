"""Slowdown of kernels beside communication, as the trace shows it."""

from __future__ import annotations

from enum import Enum

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.graph import ActivityKind, DependencyGraph, EdgeKind, Point
from tracebraid.simulation.replay import replayed_times

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]


def communication_shares(graph: DependencyGraph, times_ns: _Ints) -> NDArray[np.float64]:
    """Share of each activity's time in which its rank communicates on a device; 0: none, or not on a device.

    Communication includes the time in which it waits for others, as its kernel occupies the device.
    """
    columns = graph.activities.select(
        pl.col("rank").rank("dense").fill_null(0).cast(pl.Int64),
        pl.col("stream").is_not_null().alias("device"),
        (pl.col("kind").cast(pl.String) == ActivityKind.COMMUNICATION.value).alias("communicates"),
    )
    rank, device, communicates = (columns.get_column(name).to_numpy() for name in columns.columns)
    earliest = times_ns.min(initial=0)
    length = times_ns.max(initial=0) - earliest + 1
    # The ranks one behind the other, so that one pass serves all.
    start, end = (
        times_ns[graph.moment_of[:, point]] - earliest + rank * length for point in (Point.START, Point.END)
    )
    low, high = _union(start[device & communicates], end[device & communicates])
    duration = end - start
    covered = _covered(end, low, high) - _covered(start, low, high)
    return np.where(device & ~communicates & (duration > 0), covered / np.maximum(duration, 1), 0.0)


def _union(start: _Ints, end: _Ints) -> tuple[_Ints, _Ints]:
    """Intervals that cover the same time, without overlap, in order."""
    order = np.argsort(start, kind="stable")
    start, latest = start[order], np.maximum.accumulate(end[order])
    new = np.ones(len(start), dtype=np.bool_)
    new[1:] = start[1:] > latest[:-1]
    last = np.append(np.flatnonzero(new)[1:] - 1, len(start) - 1) if len(start) else np.flatnonzero(new)
    return start[new], latest[last]


def _covered(moment: _Ints, low: _Ints, high: _Ints) -> _Ints:
    """Part of the time before each moment that the intervals cover."""
    if not len(low):
        return np.zeros_like(moment)
    total = np.concatenate([[0], np.cumsum(high - low)])
    begun = np.searchsorted(low, moment, side="right")
    last = np.maximum(begun - 1, 0)
    return np.where(begun > 0, total[last] + np.minimum(moment, high[last]) - low[last], 0)


_LEAST_SAMPLES = 4
"""Minimum steps with a kernel beside communication, and without. With three each, all slower
beside it is chance in one of 20 cases; of four each in one of 70."""

_LEAST_SCORE = 2.0
"""Standard deviations by which the ranks of the durations beside communication must exceed what chance gives on
average (Mann-Whitney test, normal approximation, 2.3 % one-sided)."""

_MOST_SPREAD = 0.25
"""Spread of the durations without communication, 10th to 90th percentile, as share of their median, up to which
a kernel does the same work in all steps."""

_LEAST_SHARE = 0.5
"""Share of its time from which a kernel ran beside communication; one without has none."""

_MOST_PASSES = 5
"""Maximum replays of a graph: each moves kernels, which changes their overlap."""

_SAME_SHARE = 0.01
"""Change of the share of a kernel's time that does not count as one."""

_ALIKE = ("rank", "lane", "family", "name", "op", "module", "shapes")


class InterferenceData(Enum):
    """Whether the trace shows how much slower kernels are beside communication."""

    MEASURED = "measured"
    NO_OVERLAP = "no_overlap"
    """No kernel runs beside communication: durations are unchanged."""
    NO_COMPARISON = "no_comparison"
    """Kernels run beside communication, but none is clearly slower: not modelled."""


class Interference(Struct, frozen=True, eq=False):
    """Slowdown of kernels beside communication.

    Args:
        table: `INTERFERENCE`.
        data: whether it was measured.
        slowdown: factor of each activity under continuous communication; 1 if unknown.
        share: of each activity, the share of its measured time in which there was communication.
    """

    table: pl.DataFrame
    data: InterferenceData
    slowdown: _Floats
    share: _Floats


def interference_of(graph: DependencyGraph) -> Interference:
    """Estimate from the measured durations.

    A kernel's duration is taken as `alone * (1 + (slowdown - 1) * share)`, where `share` is that of its time in which
    its rank communicates on its device. `alone` is the median of the same kernel in the steps where it ran without.
    """
    share = communication_shares(graph, graph.moments.time_ns)
    kernels = graph.activities.select(
        *_ALIKE, "step", "start_ns", "kind", (pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns")
    )
    kernels = kernels.with_columns(pl.Series("share", share)).filter(
        (pl.col("kind").cast(pl.String) == ActivityKind.KERNEL.value) & (pl.col("dur_ns") > 0)
    )
    table = _by_family(_groups(kernels))
    slowdown = graph.activities.select(pl.col("family").cast(pl.String)).join(
        table.select(pl.col("family").cast(pl.String), "slowdown"),
        on="family",
        how="left",
        maintain_order="left",
    )
    kinds = graph.activities.get_column("kind").cast(pl.String) == ActivityKind.KERNEL.value
    factor = np.where(kinds.to_numpy(), slowdown.get_column("slowdown").fill_null(1.0).to_numpy(), 1.0)
    return Interference(table, _data(table, kernels), factor, share)


def _groups(kernels: pl.DataFrame) -> pl.DataFrame:
    """Measure the slowdown of equal kernels of several steps beside communication."""
    beside, alone = pl.col("share") >= _LEAST_SHARE, pl.col("share") == 0
    own = kernels.filter(pl.col("step").is_not_null() & pl.col("shapes").is_not_null())
    own = own.sort("start_ns", maintain_order=True).with_columns(
        pl.int_range(pl.len()).over(*_ALIKE, "step").alias("order"),
        pl.len().over(*_ALIKE, "step").alias("of"),
    )
    same = (*_ALIKE, "order", "of")
    compared = own.filter(beside | alone).with_columns(pl.col("dur_ns").rank().over(same).alias("position"))
    groups = compared.group_by(same, maintain_order=True).agg(
        beside.sum().cast(pl.Int64).alias("beside"),
        alone.sum().cast(pl.Int64).alias("alone"),
        pl.col("dur_ns").filter(alone).median().alias("alone_ns"),
        pl.col("dur_ns").filter(beside).median().alias("beside_ns"),
        pl.col("share").filter(beside).median(),
        spread_ns=pl.col("dur_ns").filter(alone).quantile(0.9) - pl.col("dur_ns").filter(alone).quantile(0.1),
        ranks=pl.col("position").filter(beside).sum(),
    )
    enough = (pl.col("beside") >= _LEAST_SAMPLES) & (pl.col("alone") >= _LEAST_SAMPLES)
    same_work = pl.col("spread_ns") <= _MOST_SPREAD * pl.col("alone_ns")
    return groups.filter(enough & same_work).with_columns(
        slowdown=1 + ((pl.col("beside_ns") / pl.col("alone_ns") - 1) / pl.col("share")).clip(0),
        slower=_score() >= _LEAST_SCORE,
    )


def _score() -> pl.Expr:
    """The Mann-Whitney statistic of the durations beside communication, in standard deviations above its mean."""
    beside, alone = pl.col("beside"), pl.col("alone")
    ranks_more = beside + alone + 1
    return (pl.col("ranks") - beside * ranks_more / 2) / (beside * alone * ranks_more / 12).sqrt()


INTERFERENCE = Table(
    "interference",
    "One row per kind of kernel that is clearly slower beside communication of its device than without.",
    (
        Column("family", Kind.NAME, "family of the kernel (`KernelFamily`)"),
        Column("groups", Kind.INT, "kernels, each the same in several steps, that ran in both ways"),
        Column("beside", Kind.INT, "how often these ran beside communication"),
        Column("alone", Kind.INT, "how often without"),
        Column(
            "slowdown",
            Kind.FLOAT,
            "by what factor a kernel lasts longer if there is communication all the time that it runs: median of the "
            "groups, by how often they ran beside it",
        ),
        Column("low", Kind.FLOAT, "the least of the groups"),
        Column("high", Kind.FLOAT, "the greatest of the groups"),
    ),
)


def _by_family(groups: pl.DataFrame) -> pl.DataFrame:
    rows = groups.sort("slowdown", maintain_order=True).group_by("family", maintain_order=True)
    halfway = pl.col("beside").cum_sum() * 2 >= pl.col("beside").sum()
    table = rows.agg(
        pl.len().alias("groups"),
        pl.col("beside").sum(),
        pl.col("alone").sum(),
        low=pl.col("slowdown").min(),
        high=pl.col("slowdown").max(),
        # The median, in which each group counts as often as it ran beside communication.
        median=pl.col("slowdown").filter(halfway).first(),
        slower=pl.col("beside").filter("slower").sum() * 2 > pl.col("beside").sum(),
    )
    # A family is slower if most of its kernels are: chance makes a few of many exceed the least score.
    found = table.filter("slower").drop("slower")
    return INTERFERENCE.conform(found.rename({"median": "slowdown"}).sort(pl.col("family").cast(pl.String)))


def _data(table: pl.DataFrame, kernels: pl.DataFrame) -> InterferenceData:
    if table.height:
        return InterferenceData.MEASURED
    beside = kernels.select((pl.col("share") > 0).any()).item()
    return InterferenceData.NO_COMPARISON if beside else InterferenceData.NO_OVERLAP


def with_interference(graph: DependencyGraph, interference: Interference) -> DependencyGraph:
    """Adjust kernel durations to their overlap with communication.

    The graph is replayed up to `_MOST_PASSES` times, each time with the durations that follow from the times before.
    """
    edges = graph.edges
    slowdown, share = _of_all(graph, interference.slowdown, 1.0), _of_all(graph, interference.share, 0.0)
    own = np.flatnonzero((edges.kind == EdgeKind.DEVICE) & (slowdown[edges.activity] > 1))
    if not len(own):
        return graph
    activity = edges.activity[own]
    before = 1 + (slowdown[activity] - 1) * share[activity]
    found = graph
    for _ in range(_MOST_PASSES - 1):
        now = communication_shares(graph, replayed_times(found))
        if np.abs(now - share).max(initial=0) < _SAME_SHARE:
            break
        work = edges.work_ns.copy()
        work[own] = np.rint(work[own] * (1 + (slowdown[activity] - 1) * now[activity]) / before)
        found, share = replace(graph, edges=replace(edges, work_ns=work)), now
    return found


def overlap_changes(graph: DependencyGraph, interference: Interference) -> bool:
    """Return whether the set of kernels beside communication differs from the measured one in a replay."""
    now = communication_shares(graph, replayed_times(graph))
    share = _of_all(graph, interference.share, 0.0)
    works = np.zeros(len(share), dtype=np.bool_)
    works[graph.edges.activity[(graph.edges.kind == EdgeKind.DEVICE) & (graph.edges.work_ns > 0)]] = True
    return bool(np.abs(now - share)[works].max(initial=0) >= _SAME_SHARE)


def _of_all(graph: DependencyGraph, values: _Floats, filler: float) -> _Floats:
    """The values of all activities; those that were added have the filler."""
    return np.pad(values, (0, graph.activities.height - len(values)), constant_values=filler)
