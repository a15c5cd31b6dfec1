"""Compute metrics of a rank's steps, and select the steps that count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np
import polars as pl
from msgspec import Struct

from tracebraid.analysis.collectives.transfers import transfers, waits
from tracebraid.analysis.efficiency.roofline import mfu
from tracebraid.analysis.launches.launch_bound import launch_gaps
from tracebraid.analysis.metrics.memory import SAMPLE, ratio_values, values_over_ranks
from tracebraid.analysis.time.breakdown import breakdown, cover_of, without_start_skew, work_events
from tracebraid.analysis.time.step_times import step_times
from tracebraid.model.analysis import Family, Need
from tracebraid.model.answers.job import METRICS, MetricLack
from tracebraid.model.collectives import CollectiveType
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.quantities import NS_PER_S
from tracebraid.model.questions import VALUES, Metric, MetricOptions, OverRanks, Unit

_PARTS = (
    "compute_ns",
    "communication_ns",
    "overlap_ns",
    "exposed_communication_ns",
    "exposed_memory_ns",
    "idle_ns",
)


def measured_steps(linked: LinkedTrace) -> pl.DataFrame:
    """A row per occurrence of a step; of a trace without steps a row for the whole trace.

    Columns: rank, step (null: the whole trace), occurrence (of that name, from 0), start_ns, span_ns, device_span_ns
    (the sum of the spans of its devices), the times of `breakdown` and `launch_bound_ns` as sums over its devices,
    warmup, doubtful. `launch_bound_ns` is the part of `idle_ns` in which some stream waits for a launch in a stretch of
    `launch_bound`.
    """
    parts = breakdown(linked)
    parts = parts.with_columns(pl.Series("launch_bound_ns", _launch_bound(linked, parts)))
    by_step = parts.filter(pl.col("step").is_not_null())
    whole = by_step.is_empty()
    rows = (parts if whole else by_step).with_columns(pl.int_range(pl.len()).over("device").alias("window"))
    warmup = _warmup(linked)
    return (
        rows.group_by("window", maintain_order=True)
        .agg(
            pl.col("step").first(),
            pl.col("start_ns").min(),
            pl.col("span_ns").max(),
            pl.col("span_ns").sum().alias("device_span_ns"),
            pl.col(*_PARTS, "launch_bound_ns").sum(),
            pl.col("doubtful").first(),
        )
        .join(warmup, on="window", how="left", maintain_order="left")
        .select(
            pl.lit(linked.rank, dtype=pl.Int64).alias("rank"),
            "step",
            pl.int_range(pl.len(), dtype=pl.Int64).over("step").alias("occurrence"),
            "start_ns",
            "span_ns",
            "device_span_ns",
            *_PARTS,
            "launch_bound_ns",
            pl.col("warmup").fill_null(value=False),
            "doubtful",
        )
    )


def counted_steps(steps: pl.DataFrame, options: MetricOptions) -> pl.DataFrame:
    """Rows of `measured_steps` that count: no warm-up, and no doubtful steps unless requested."""
    return of_sound_steps(steps, options).filter(~pl.col("warmup"))


def of_sound_steps(rows: pl.DataFrame, options: MetricOptions) -> pl.DataFrame:
    """Drop rows of doubtful steps unless they are requested."""
    return rows if options.with_doubtful else rows.filter(~pl.col("doubtful"))


def _warmup(linked: LinkedTrace) -> pl.DataFrame:
    times = step_times(linked)
    return times.select(pl.int_range(pl.len()).over("device").alias("window"), "warmup").unique(
        "window", keep="first", maintain_order=True
    )


def _launch_bound(linked: LinkedTrace, parts: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Time of each row of `breakdown` in which its device is idle and a stream waits for a launch."""
    gaps, work = launch_gaps(linked), work_events(linked)
    start, span = (parts.get_column(name).to_numpy() for name in ("start_ns", "span_ns"))
    found = np.zeros(parts.height, dtype=np.int64)
    for device in gaps.get_column("device").unique().to_list():
        waits = gaps.filter(pl.col("device") == device).sort("start_ns")
        waiting = cover_of(waits.get_column("start_ns").to_numpy(), waits.get_column("end_ns").to_numpy())
        events = work.filter(pl.col("device") == device)
        starts, durations = (events.get_column(name).to_numpy() for name in ("ts_ns", "dur_ns"))
        busy = cover_of(starts, starts + durations)
        rows = (parts.get_column("device") == device).to_numpy()
        first, last = start[rows], start[rows] + span[rows]
        found[rows] = waiting.within(first, last) - waiting.shared_within(busy, first, last)
    return found


def _steps(ranks: LinkedRanks) -> pl.DataFrame:
    return ranks.of(measured_steps).filter(pl.col("step").is_not_null())


def _counted(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    steps = _steps(ranks)
    counted = counted_steps(steps, options).select("rank", pl.lit(True).alias("counts"))
    counts = counted.group_by("rank").agg(pl.len().alias("value"))
    found = steps.select("rank").unique().join(counts, on="rank", how="left")
    return values_over_ranks(found.with_columns(pl.col("value").fill_null(0)), OverRanks.MIN)


def _doubtful(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    found = _steps(ranks).group_by("rank").agg(pl.col("doubtful").mean().alias("value"))
    return values_over_ranks(found, OverRanks.MAX)


_COUNTS = (
    Metric(
        "steps_counted",
        Unit.COUNT,
        "steps that are neither warm-up nor doubtful",
        OverRanks.MIN,
        _counted,
        (measured_steps,),
        (Need.STEPS,),
        family=Family.VALIDITY,
    ),
    Metric(
        "doubtful_share",
        Unit.SHARE,
        "steps about which `validity` has a doubt / all steps",
        OverRanks.MAX,
        _doubtful,
        (measured_steps,),
        (Need.STEPS,),
        family=Family.VALIDITY,
    ),
)


def _per_step(ranks: LinkedRanks, options: MetricOptions, column: str) -> pl.DataFrame:
    """Compute for each rank, and summed over ranks; null with members of unknown size, for the rank and the job."""
    steps = _steps_of_communication(ranks, options)
    members = ranks.members.join(steps, on=["rank", "step"], how="semi")
    is_barrier = (pl.col("type") == CollectiveType.BARRIER.value).fill_null(value=False)
    size = pl.when(is_barrier).then(0).otherwise(pl.col("in_bytes"))
    amounts = members.group_by("rank", "step").agg(
        size.sum().alias("bytes"), pl.len().alias("members"), size.is_null().any().alias("unknown")
    )
    samples = steps.join(amounts, on=["rank", "step"], how="left", maintain_order="left").with_columns(
        pl.col(column).fill_null(0).alias("amount"),
        pl.lit(0, dtype=pl.Int64).alias("occurrence"),
        (pl.col("unknown").fill_null(value=False) & (column == "bytes")).any().over("rank").alias("unknown"),
    )
    known = samples.filter(
        ~pl.col("unknown") & pl.col("rank").is_in(ranks.members.get_column("rank").implode())
    )
    values = ratio_values(known, OverRanks.SUM)
    return values if not samples.get_column("unknown").any() else values.filter(pl.col("rank").is_not_null())


def _steps_of_communication(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    """The steps that count, by name: `base` is how many have it."""
    return (
        counted_steps(ranks.of(measured_steps), options)
        .filter(pl.col("step").is_not_null())
        .group_by("rank", "step", maintain_order=True)
        .agg(pl.len().alias("base"))
    )


_COMMUNICATION = (
    Metric(
        "communication_bytes_per_step",
        Unit.BYTES_PER_STEP,
        "sum of `in_bytes`, what a rank gives to collectives and sends / steps",
        OverRanks.SUM,
        partial(_per_step, column="bytes"),
        (measured_steps,),
        (Need.STEPS, Need.COMMUNICATION),
        MetricLack.SIZES_UNKNOWN,
        Family.COLLECTIVES,
    ),
    Metric(
        "collectives_per_step",
        Unit.PER_STEP,
        "collectives, sends and receives / steps; of a job those of each rank count",
        OverRanks.SUM,
        partial(_per_step, column="members"),
        (measured_steps,),
        (Need.STEPS, Need.COMMUNICATION),
        family=Family.COLLECTIVES,
    ),
)


_COLUMNS = ("rank", "step", "span_ns", "model_flops", "hardware_flops", "peak_flops_per_s", "doubtful")


def flops_of_steps(linked: LinkedTrace) -> pl.DataFrame:
    """Rows of steps of `mfu`, or of the whole trace if it has no steps."""
    found = mfu(linked).select(_COLUMNS)
    by_step = found.filter(pl.col("step").is_not_null())
    return found if by_step.is_empty() else by_step


def _samples(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    """The steps that count by their names, since FLOPs are summed where steps share one.

    A rank without any FLOPs is left out: what it computes is nothing that is counted, or hidden in graphs.
    """
    steps = counted_steps(ranks.of(measured_steps), options).select("rank", "step").unique()
    found = of_sound_steps(ranks.of(flops_of_steps), options)
    known = pl.col("model_flops").sum().over("rank") > 0
    return (
        found.filter(known)
        .join(steps, on=["rank", "step"], how="semi", nulls_equal=True)
        .with_columns(pl.lit(0, dtype=pl.Int64).alias("occurrence"))
        .sort("rank", maintain_order=True)
    )


def _utilisation(ranks: LinkedRanks, options: MetricOptions, flops: str) -> pl.DataFrame:
    peak = pl.col("peak_flops_per_s") if options.peak_flops is None else pl.lit(options.peak_flops)
    samples = _samples(ranks, options).with_columns(
        pl.col(flops).alias("amount"), (peak * pl.col("span_ns") / NS_PER_S).alias("base")
    )
    return ratio_values(samples, OverRanks.POOLED)


def _rate(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    samples = _samples(ranks, options).with_columns(
        pl.col("model_flops").alias("amount"), (pl.col("span_ns") / NS_PER_S).alias("base")
    )
    return ratio_values(samples, OverRanks.POOLED)


_GATHERS = (measured_steps, flops_of_steps)
_SHAPES = (Need.SHAPES_OF_EITHER,)

_EFFICIENCY = (
    Metric(
        "mfu",
        Unit.SHARE,
        "model FLOPs / (span x peak), sums over steps, of `mfu`",
        OverRanks.POOLED,
        partial(_utilisation, flops="model_flops"),
        _GATHERS,
        (*_SHAPES, Need.DEVICE_PEAKS),
        family=Family.EFFICIENCY,
    ),
    Metric(
        "hfu",
        Unit.SHARE,
        "hardware FLOPs / (span x peak), sums over steps, of `mfu`",
        OverRanks.POOLED,
        partial(_utilisation, flops="hardware_flops"),
        _GATHERS,
        (*_SHAPES, Need.DEVICE_PEAKS),
        family=Family.EFFICIENCY,
    ),
    Metric(
        "model_flops_per_second",
        Unit.FLOP_PER_S,
        "model FLOPs / span, sums over steps, of `mfu`; of a job the mean of a rank",
        OverRanks.POOLED,
        _rate,
        _GATHERS,
        _SHAPES,
        family=Family.EFFICIENCY,
    ),
)
"""MFU can be above 1 where the stated peak is below what the device reaches: it is not cut."""


def _load_imbalance(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    """Compute max / mean for the job, own compute / mean for a rank; over steps that count on every rank with steps."""
    steps = counted_steps(ranks.of(measured_steps), options)
    count = steps.get_column("rank").n_unique()
    if count < 2:
        return VALUES.empty()
    compute = pl.col("compute_ns")
    mean = compute.mean().over(*SAMPLE).alias("base")
    common = steps.filter(pl.len().over(*SAMPLE) == count).with_columns(mean)
    each = ratio_values(common.with_columns(compute.alias("amount")), OverRanks.POOLED)
    job = common.group_by(*SAMPLE, maintain_order=True).agg(
        pl.lit(0, dtype=pl.Int64).alias("rank"), compute.max().alias("amount"), pl.col("base").first()
    )
    of_job = ratio_values(job, OverRanks.POOLED, bounds=(1.0, None)).filter(pl.col("rank").is_null())
    of_job = of_job.with_columns(pl.lit(count, dtype=pl.Int64).alias("ranks"))
    return pl.concat([of_job, each.filter(pl.col("rank").is_not_null())])


def _wait_share(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    return ratio_values(_waiting(ranks, options).rename({"dur_ns": "base"}), OverRanks.POOLED, (0.0, 1.0))


def _wait_time(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    steps = _steps_by_name(ranks, options).filter(pl.col("step").is_not_null())
    with_waits = pl.col("rank").is_in(ranks.members.get_column("rank").implode())
    found = steps.filter(with_waits).join(
        _waiting(ranks, options).drop("occurrence"), on=["rank", "step"], how="left", maintain_order="left"
    )
    samples = found.with_columns(
        pl.col("amount").fill_null(0),
        pl.col("count").alias("base"),
        pl.lit(0, dtype=pl.Int64).alias("occurrence"),
    )
    return ratio_values(samples, OverRanks.POOLED)


def _waiting(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    """Waiting (`amount`) and duration (`dur_ns`) of members with known waiting, by rank and step.

    What is waited before the job's first step has begun on all ranks is waited for recordings that begin later.
    """
    steps = _steps_by_name(ranks, options).select("rank", "step")
    waiting = pl.col("waiting_ns")
    begin = pl.lit(aligned_steps(ranks).get_column("start_ns").min(), dtype=pl.Int64)
    before = waiting - pl.min_horizontal(
        waiting, (pl.col("arrival_ns") + waiting - begin).clip(lower_bound=0)
    )
    return (
        waits(ranks)
        .filter(waiting.is_not_null())
        .join(steps, on=["rank", "step"], how="semi", nulls_equal=True)
        .group_by("rank", "step", maintain_order=True)
        .agg((waiting - before).sum().alias("amount"), (pl.col("dur_ns") - before).sum())
        .with_columns(pl.lit(0, dtype=pl.Int64).alias("occurrence"))
    )


def aligned_steps(ranks: LinkedRanks) -> pl.DataFrame:
    """The rows of `measured_steps` that are steps, with `end_ns`, on aligned clocks: see `without_start_skew`."""
    steps = ranks.of(measured_steps).filter(pl.col("step").is_not_null())
    steps = steps.with_columns((pl.col("start_ns") + pl.col("span_ns")).alias("end_ns"))
    return without_start_skew(ranks.aligned(steps, "start_ns", "end_ns"), *SAMPLE)


def _steps_by_name(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    """The steps that count by rank and name, with the `count` of those that share it."""
    steps = counted_steps(ranks.of(measured_steps), options)
    return steps.group_by("rank", "step", maintain_order=True).agg(pl.len().alias("count"))


_BALANCE = (
    Metric(
        "load_imbalance",
        Unit.RATIO,
        "sum over steps of the greatest compute of a rank / sum over steps of the ranks' mean compute; of a rank its "
        "own compute instead of the greatest",
        OverRanks.BETWEEN,
        _load_imbalance,
        (measured_steps,),
        (Need.SEVERAL_RANKS,),
        family=Family.RANKS,
    ),
    Metric(
        "wait_time_per_step",
        Unit.NS,
        "sum of `waiting_ns` of members, the time until the last rank has arrived / steps; of a job the mean of a rank",
        OverRanks.POOLED,
        _wait_time,
        (measured_steps,),
        (Need.SEVERAL_RANKS, Need.COMMUNICATION, Need.STEPS),
        family=Family.RANKS,
    ),
    Metric(
        "wait_share",
        Unit.SHARE,
        "sum of `waiting_ns` / sum of durations, of members whose waiting is known",
        OverRanks.POOLED,
        _wait_share,
        (measured_steps,),
        (Need.SEVERAL_RANKS, Need.COMMUNICATION),
        family=Family.RANKS,
    ),
)


_TYPES = (
    CollectiveType.ALL_REDUCE,
    CollectiveType.ALL_GATHER,
    CollectiveType.REDUCE_SCATTER,
    CollectiveType.ALL_TO_ALL,
    CollectiveType.BROADCAST,
    CollectiveType.SEND_RECEIVE,
)
_FORMULA = (
    "sum of bus bandwidth x transfer / sum of transfers, of collectives of that type whose transfer is no bound (see "
    "`collectives`); of a rank those in which it takes part"
)


def _bandwidth(ranks: LinkedRanks, options: MetricOptions, kind: CollectiveType) -> pl.DataFrame:
    return _values(_known(ranks, options).filter(pl.col("type") == kind.value), NS_PER_S)


def _peak_share(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    if options.peak_bandwidth is None:
        return VALUES.empty()
    return _values(_known(ranks, options), NS_PER_S / options.peak_bandwidth)


def _known(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    """The collectives of steps that count of which size and transfer are known."""
    steps = counted_steps(ranks.of(measured_steps), options).select("step").unique()
    is_bound = pl.col("is_bound").fill_null(value=True)
    return (
        transfers(ranks)
        .join(steps, on="step", how="semi", nulls_equal=True, maintain_order="left")
        .filter(~is_bound & (pl.col("transfer_ns") > 0) & pl.col("bus_bytes_per_s").is_not_null())
    )


def _values(found: pl.DataFrame, factor: float) -> pl.DataFrame:
    """Values of the collectives of each rank, and of all, each collective once."""
    amount = pl.col("bus_bytes_per_s") * pl.col("transfer_ns") / NS_PER_S * factor
    counted = found.select(
        "ranks",
        "step",
        pl.lit(0, dtype=pl.Int64).alias("occurrence"),
        amount.alias("amount"),
        pl.col("transfer_ns").alias("base"),
    )
    of_ranks = counted.explode("ranks").rename({"ranks": "rank"})
    count = of_ranks.get_column("rank").n_unique()
    job = ratio_values(_by_step(counted.with_columns(rank=pl.lit(0, dtype=pl.Int64))), OverRanks.POOLED)
    job = job.filter(pl.col("rank").is_null()).with_columns(pl.lit(count, dtype=pl.Int64).alias("ranks"))
    each = ratio_values(_by_step(of_ranks), OverRanks.POOLED)
    return pl.concat([job, each.filter(pl.col("rank").is_not_null())])


def _by_step(rows: pl.DataFrame) -> pl.DataFrame:
    key = ["rank", "step", "occurrence"]
    return rows.group_by(key, maintain_order=True).agg(pl.col("amount", "base").sum())


def _metric(kind: CollectiveType) -> Metric:
    return Metric(
        f"{kind.value}_bus_bandwidth",
        Unit.BYTES_PER_S,
        _FORMULA,
        OverRanks.BETWEEN,
        partial(_bandwidth, kind=kind),
        (measured_steps,),
        (Need.SEVERAL_RANKS, Need.COMMUNICATION),
        MetricLack.RANKS_MISSING,
        Family.COLLECTIVES,
    )


_BANDWIDTH = (
    *map(_metric, _TYPES),
    Metric(
        "bus_bandwidth_peak_share",
        Unit.RATIO,
        "the same of collectives of all types / the stated peak bandwidth",
        OverRanks.BETWEEN,
        _peak_share,
        (measured_steps,),
        (Need.SEVERAL_RANKS, Need.COMMUNICATION),
        MetricLack.PEAK_NOT_STATED,
        Family.COLLECTIVES,
    ),
)
"""GB = 10^9 bytes, as in nccl-tests."""


class RankLacks(Struct, frozen=True, eq=False):
    """Unmet needs of the ranks.

    Args:
        needs: unmet needs of each rank.
        failed: ranks on which a user's metric failed; all ranks, where it failed over them.
    """

    needs: Mapping[int, frozenset[Need]]
    failed: frozenset[int] = frozenset()

    def first(self, metric: Metric, rank: int) -> Need | None:
        """Return a rank's first unmet need; None if all are met."""
        return next((need for need in metric.needs if need in self.needs[rank]), None)

    def able(self, metric: Metric) -> list[int]:
        """Return the ranks that meet all needs and on which it did not fail."""
        return [rank for rank in self.needs if self.first(metric, rank) is None and rank not in self.failed]


def rows_of_metric(
    metric: Metric, ranks: LinkedRanks, options: MetricOptions, lacks: RankLacks
) -> pl.DataFrame:
    """The rows of `METRICS` of a metric: all ranks together, then each.

    Ranks with unmet needs, or on which it failed, are excluded. A value that is not finite is null. If it
    failed on a rank, there is no value over all.
    """
    able = lacks.able(metric)
    values = metric.measure(_of_ranks(ranks, able), options) if able else VALUES.empty()
    of_able = pl.col("rank").is_null() | pl.col("rank").is_in(able)
    values = VALUES.conform(values, fill_missing=True).filter(pl.col("value").is_finite() & of_able)
    if lacks.failed:
        values = values.filter(pl.col("rank").is_not_null())
    doubtful = _with_doubtful_steps(ranks)
    reasons: dict[int | None, str] = {
        rank: _reason(metric, rank, lacks, rank in doubtful) for rank in lacks.needs
    }
    reasons = {None: _most_common_reason(reasons.values()), **reasons}
    every = pl.DataFrame(
        {"rank": list(reasons), "lacks": list(reasons.values())},
        schema={"rank": pl.Int64, "lacks": pl.String},
    )
    found = every.join(
        values.unique("rank", keep="first", maintain_order=True),
        on="rank",
        how="left",
        nulls_equal=True,
        maintain_order="left",
    ).with_columns(
        pl.lit(metric.name).alias("metric"),
        pl.lit(metric.unit_text).alias("unit"),
        pl.when(pl.col("value").is_null()).then("lacks").alias("lacks"),
    )
    return METRICS.conform(found)


def _of_ranks(ranks: LinkedRanks, able: Iterable[int]) -> LinkedRanks:
    """Restrict parts to some ranks; members of all remain, since the others show who waits."""
    is_able = pl.col("rank").is_in(list(able))
    parts = {
        gather: frame.filter(is_able) if "rank" in frame.columns else frame
        for gather, frame in ranks.parts.items()
    }
    return ranks.with_parts(parts)


def _with_doubtful_steps(ranks: LinkedRanks) -> set[int]:
    """The ranks that have steps, all of them doubtful."""
    steps = ranks.of(measured_steps).group_by("rank").agg(pl.col("doubtful").all())
    return set(steps.filter("doubtful").get_column("rank").to_list())


def _reason(metric: Metric, rank: int, lacks: RankLacks, is_doubtful: bool) -> str:
    if rank in lacks.failed:
        return MetricLack.METRIC_FAILED.value
    need = Need.LOST if Need.LOST in lacks.needs[rank] else lacks.first(metric, rank)
    if need is not None:
        return str(need.value)
    return (MetricLack.DOUBTFUL_STEPS if is_doubtful else metric.otherwise).value


def _most_common_reason(reasons: Iterable[str]) -> str:
    """The reason of most ranks, the first of ties. A failure of a rank is one of the job."""
    counts: dict[str, int] = {}
    for reason in reasons:
        counts[reason] = counts.get(reason, 0) + 1
    failed = MetricLack.METRIC_FAILED.value
    return failed if failed in counts else max(counts, key=lambda reason: counts[reason])
