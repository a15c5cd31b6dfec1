"""How much bandwidth the copies that run at a time have together: its changes, one after the other."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.launches.copies.copied import copied
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.units import NS_PER_US

__all__ = ["SORT_OF_COPY", "bandwidth_changes"]

SORT_OF_COPY = ["device", "name"]
"""What makes one series."""

_NAME = r"^(Memset|Memcpy \w{4})"
"""HTA's names: `Memset`, `Memcpy HtoD`. Others are named so by their direction, where that is known."""

_SHORTEST_NS = NS_PER_US
"""How long a copy without length lasts: in a trace in µs it took less than one; HTA's too."""


def bandwidth_changes(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Changes by device, name and time: device, name, step, ts_ns, running, bytes_per_s.

    A copy adds its bandwidth when it starts and takes it away when it ends; at one moment copies end before others
    start. The bandwidth is Kineto's, which knows the duration to the ns in traces in µs too; where there is none, the
    size by the duration. Copies of which neither is known are left out.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    return linked.derived(_bandwidth_changes, annotation)


def _bandwidth_changes(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    known = copied(linked, annotation).with_columns(
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
