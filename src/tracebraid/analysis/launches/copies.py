"""Copies and fills: sums by kind, and their bandwidth over time."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import StepOptions, answer, by_step
from tracebraid.analysis.launches.copied import copied
from tracebraid.analysis.statistics import max_of, mean_of, min_of, quartiles_of, std_of
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.analysis import Family, Need, OnPage, Rows, Stored, analysis
from tracebraid.model.answers import COPIES, COPY_BANDWIDTH, COPY_BANDWIDTH_SERIES
from tracebraid.model.expressions import by_number
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.quantities import NS_PER_S, NS_PER_US

_KEY = ["kind", "direction", "source", "target", "pinned", "api", "host_wait", "op"]
"""Key of copies that share a row."""


@analysis(
    COPIES,
    Family.LAUNCHES,
    needs=(Need.DEVICE_WORK,),
    uses=(Need.HOST_OPS,),
    shown=(
        "kind direction source target bytes total_ns bandwidth_bytes_per_s count op host_wait awaited api"
    ),
    when_empty="nothing is copied or filled on a device",
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
