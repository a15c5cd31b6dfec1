"""Copies and fills: sums by kind, and their bandwidth over time."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import StepOptions, answer, by_step
from tracebraid.analysis.launches.copied import copied
from tracebraid.analysis.statistics import max_of, mean_of, min_of, quartiles_of, std_of
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.analysis import Family, Need, OnPage, Rows, Stored, analysis
from tracebraid.model.answers import DOUBTFUL, RANK, STEP_OF_LAUNCH
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.expressions import by_number
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.quantities import NS_PER_S, NS_PER_US

_KEY = ["kind", "direction", "source", "target", "pinned", "api", "host_wait", "op"]
"""Key of copies that share a row."""


COPIES = Table(
    "copies",
    "One row per sort of copy or fill, the most device time first.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("kind", Kind.TEXT, "`copy` or `fill`: see `CopyKind`"),
        Column("direction", Kind.TEXT, "`HtoD`, `DtoH`, ...: see `Direction`; null: a fill, or unknown"),
        Column(
            "source", Kind.TEXT, "memory that is read (`Pageable`, `Pinned`, `Device`, ...); null: unknown"
        ),
        Column("target", Kind.TEXT, "memory that is written; null: unknown"),
        Column(
            "pinned",
            Kind.BOOL,
            "whether the host's memory is pinned; null: no host memory, or the trace says not",
        ),
        Column("api", Kind.TEXT, "the call; null: no call is in the trace"),
        Column(
            "host_wait",
            Kind.TEXT,
            "wait of the call: `complete`, `staged` or `none`, see `HostWait`; null: no call or direction known",
        ),
        Column("op", Kind.TEXT, "innermost op or annotation that encloses the call; null: none"),
        Column("count", Kind.INT, "how often"),
        Column("awaited", Kind.INT, "those whose call returned only after they had ended"),
        Column("sized", Kind.INT, "those whose size is known"),
        Column("bytes", Kind.INT, "sum of these sizes; null: none is known"),
        Column(
            "mean_bytes", Kind.FLOAT, "mean of these sizes; null: none is known outside of doubtful steps"
        ),
        Column("total_ns", Kind.INT, "sum of durations"),
        Column(
            "bandwidth_bytes_per_s",
            Kind.FLOAT,
            "bytes by time of those with a size and a duration, doubtful steps left out (`copy_bandwidth` has the mean "
            "over its changes instead, not weighted by time); null: none",
        ),
        Column("max_bandwidth_bytes_per_s", Kind.FLOAT, "highest of a single one of these; null: none"),
        Column("kineto_bandwidth_bytes_per_s", Kind.FLOAT, "mean of Kineto's bandwidths; null: none"),
        Column("kineto_max_bandwidth_bytes_per_s", Kind.FLOAT, "highest of Kineto's bandwidths; null: none"),
        DOUBTFUL,
    ),
)


@analysis(
    COPIES,
    Family.LAUNCHES,
    needs=(Need.DEVICE_WORK,),
    uses=(Need.HOST_OPS,),
    shown=(
        "kind direction source target bytes total_ns bandwidth_bytes_per_s count op host_wait awaited api"
    ),
    when_empty="no copy or fill of a device is in the trace",
    formula=(
        "bandwidth = bytes / time, over the copies that have both. host wait: what the API documents for "
        "such a copy; awaited: calls that returned at the copy's end or later."
    ),
    on_page=OnPage(Rows.TABLE_ROWS, by=("total_ns",)),
    stored=Stored.ALWAYS,
)
def copies(linked: LinkedTrace, per_step: bool = False, with_doubtful: bool = False) -> pl.DataFrame:
    """What is copied, where to, how fast, and by which op?

    Copies and fills by direction, memories, call and op, the most device time first.

    Bandwidth is the sum of the bytes by the sum of the durations of the copies whose size and duration are known and
    not 0; 1 GB/s is 10^9 bytes/s. `host_wait` is what the API documents, `awaited` counts what the trace shows.

    Args:
        linked: one rank.
        per_step: a row for each step in which they were launched, instead of one over all.
        with_doubtful: whether means over all steps include doubtful steps.
    """
    events = copied(linked)
    if events.is_empty():
        return COPIES.empty()
    return (
        by_step(events, linked, StepOptions(per_step, with_doubtful))
        .drop("kind")
        .rename({"copy_kind": "kind"})
        .group_by("step", *_KEY)
        .agg(_sums())
        .with_columns(
            pl.when(pl.col("sized") > 0).then("bytes").alias("bytes"),
            pl.when(pl.col("timed_ns") > 0)
            .then(pl.col("timed_bytes") / pl.col("timed_ns") * NS_PER_S)
            .alias("bandwidth_bytes_per_s"),
        )
        .sort("total_ns", *_KEY, descending=[True, *([False] * len(_KEY))])
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(COPIES, frame, linked))
    )


def _sums() -> list[pl.Expr]:
    size = pl.col("size_bytes")
    timed = pl.col("in_means") & pl.col("bandwidth").is_not_null()
    kineto = pl.col("kineto_bandwidth").filter("in_means")
    return [
        pl.len().alias("count"),
        (pl.col("returned_ns") >= pl.col("end_ns")).sum().alias("awaited"),
        size.is_not_null().sum().alias("sized"),
        size.sum().alias("bytes"),
        size.filter("in_means").mean().alias("mean_bytes"),
        pl.col("dur_ns").sum().alias("total_ns"),
        size.filter(timed).sum().alias("timed_bytes"),
        pl.col("dur_ns").filter(timed).sum().alias("timed_ns"),
        pl.col("bandwidth").filter("in_means").max().alias("max_bandwidth_bytes_per_s"),
        kineto.mean().alias("kineto_bandwidth_bytes_per_s"),
        kineto.max().alias("kineto_max_bandwidth_bytes_per_s"),
    ]


SORT_OF_COPY = ["device", "name"]
"""Key of a series."""

_NAME = r"^(Memset|Memcpy \w{4})"
"""HTA's names: `Memset`, `Memcpy HtoD`. Others are named so by their direction, where that is known."""

_SHORTEST_NS = NS_PER_US
"""Assumed duration of a copy without length: in a trace in µs it took less than one; as in HTA."""


def bandwidth_changes(linked: LinkedTrace) -> pl.DataFrame:
    """Changes by device, name and time: device, name, step, ts_ns, running, bytes_per_s.

    A copy adds its bandwidth when it starts and takes it away when it ends; at one moment copies end before others
    start. The bandwidth is Kineto's, which knows the duration to the ns in traces in µs too; where there is none, the
    size by the duration. Copies of which neither is known are left out.
    """
    return linked.derived(_bandwidth_changes)


def _bandwidth_changes(linked: LinkedTrace) -> pl.DataFrame:
    known = copied(linked).with_columns(
        pl.coalesce("kineto_bandwidth", "bandwidth").alias("bandwidth"),
        pl.coalesce(pl.col("name").str.extract(_NAME), pl.format("Memcpy {}", "direction"), "name").alias(
            "name"
        ),
        (pl.col("ts_ns") + pl.when(pl.col("dur_ns") > 0).then("dur_ns").otherwise(_SHORTEST_NS)).alias(
            "end_ns"
        ),
    )
    known = known.filter(pl.col("bandwidth").is_not_null())
    ends = known.select(
        *SORT_OF_COPY,
        "step",
        "event_id",
        pl.col("end_ns").alias("ts_ns"),
        pl.lit(-1, dtype=pl.Int64).alias("change"),
        (-pl.col("bandwidth")).alias("bandwidth"),
    )
    starts = known.select(
        *SORT_OF_COPY, "step", "event_id", "ts_ns", pl.lit(1, dtype=pl.Int64).alias("change"), "bandwidth"
    )
    running = pl.col("change").cum_sum().over(SORT_OF_COPY)
    total = pl.col("bandwidth").cum_sum().over(SORT_OF_COPY)
    return (
        pl.concat([starts, ends])
        .sort(*SORT_OF_COPY, "ts_ns", "change", "event_id")
        .with_columns(running.alias("running"))
        # Sums of floats do not come back to 0: where nothing runs, nothing is left of them.
        .with_columns(pl.when(pl.col("running") > 0).then(total).otherwise(0.0).alias("bytes_per_s"))
        .select(*SORT_OF_COPY, "step", "ts_ns", "running", "bytes_per_s")
    )


_NAME_COLUMN = Column("name", Kind.TEXT, "`Memcpy` and the direction, or `Memset`; else the event's name")

COPY_BANDWIDTH_SERIES = Table(
    "copy_bandwidth_series",
    "One row per change of the bandwidth of a kind of copy, by device, kind and time; valid until the next row.",
    (
        RANK,
        Column("step", Kind.TEXT, "the step in which the copy was launched; null: in none"),
        Column("device", Kind.TEXT, "device"),
        _NAME_COLUMN,
        Column("ts_ns", Kind.INT, "the moment"),
        Column("running", Kind.INT, "copies that run from then on"),
        Column("bytes_per_s", Kind.FLOAT, "sum of their bandwidths"),
        DOUBTFUL,
    ),
)


@analysis(
    COPY_BANDWIDTH_SERIES,
    Family.LAUNCHES,
    needs=(Need.DEVICE_WORK,),
    shown="name ts_ns bytes_per_s running",
    when_empty="no copy or fill has a size and a duration",
)
def copy_bandwidth_series(linked: LinkedTrace) -> pl.DataFrame:
    """How does copy bandwidth change over time?

    The sum of the bandwidths of running copies, by sort of copy.

    HTA's `get_memory_bw_time_series`, by device. Of changes at one moment the last row holds.

    Args:
        linked: one rank.
    """
    return answer(COPY_BANDWIDTH_SERIES, bandwidth_changes(linked), linked)


COPY_BANDWIDTH = Table(
    "copy_bandwidth",
    "One row per device and sort of copy: how much bandwidth the copies that run at a time have together.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("device", Kind.TEXT, "device"),
        _NAME_COLUMN,
        Column("count", Kind.INT, "changes of the bandwidth after which some copy runs"),
        Column(
            "mean_bytes_per_s",
            Kind.FLOAT,
            "mean over these, each the same however long it lasts: not bytes by time, as `copies` has it",
        ),
        Column("std_bytes_per_s", Kind.FLOAT, "standard deviation of a sample; null for a single change"),
        Column("min_bytes_per_s", Kind.FLOAT, "lowest of all"),
        Column("p25_bytes_per_s", Kind.FLOAT, "lower quartile"),
        Column("p50_bytes_per_s", Kind.FLOAT, "median"),
        Column("p75_bytes_per_s", Kind.FLOAT, "upper quartile"),
        Column("max_bytes_per_s", Kind.FLOAT, "highest of all"),
        DOUBTFUL,
    ),
)


@analysis(
    COPY_BANDWIDTH,
    Family.LAUNCHES,
    needs=(Need.DEVICE_WORK,),
    shown=("name count mean_bytes_per_s p50_bytes_per_s min_bytes_per_s max_bytes_per_s std_bytes_per_s"),
    when_empty="no copy or fill has a size and a duration",
    formula=(
        "Over the changes of the sum of bandwidths of the copies of a sort that run at a moment, as HTA "
        "defines it: not weighted by time. What a link achieves is in `copies`."
    ),
    on_page=OnPage(),
    stored=Stored.ALWAYS,
)
def copy_bandwidth(linked: LinkedTrace, per_step: bool = False, with_doubtful: bool = False) -> pl.DataFrame:
    """How fast are copies and fills, by direction?

    Statistics of the bandwidth while copies run, by device and sort of copy.

    They are HTA's (`get_memory_bw_summary`): over the values of `copy_bandwidth_series` above 0, not weighted by time
    or size; copies that overlap add up. `copies` has bytes by time.

    Args:
        linked: one rank.
        per_step: a row for each step in which the copies were launched, instead of one over all.
        with_doubtful: whether means and quartiles over all steps include doubtful steps.
    """
    changes = bandwidth_changes(linked).filter(pl.col("bytes_per_s") > 0)
    if changes.is_empty():
        return COPY_BANDWIDTH.empty()
    rate = pl.col("bytes_per_s").filter("in_means")
    return (
        by_step(changes, linked, StepOptions(per_step, with_doubtful))
        .group_by("step", *SORT_OF_COPY)
        .agg(
            pl.len().alias("count"),
            mean_of(rate, "mean_bytes_per_s"),
            std_of(rate, "std_bytes_per_s"),
            min_of(pl.col("bytes_per_s"), "min_bytes_per_s"),
            *quartiles_of(rate, "_bytes_per_s"),
            max_of(pl.col("bytes_per_s"), "max_bytes_per_s"),
        )
        .sort(*by_number("device"), *SORT_OF_COPY[1:])
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(COPY_BANDWIDTH, frame, linked))
    )
