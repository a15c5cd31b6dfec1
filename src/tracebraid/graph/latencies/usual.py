"""The latency that is usual for each group of edges, and how it was learned."""

from __future__ import annotations

import polars as pl

from tracebraid.model.graph.codes import LatencySource

__all__ = ["LONGEST_NS", "MIN_SAMPLES", "usual_latencies"]

MIN_SAMPLES = 5
"""Samples from which a median is taken: fewer, and a single late moment would pass as usual."""

LONGEST_NS = 100_000
"""What is longer is no latency unless many samples say so: of launches, gaps, waits and syncs 1 to 50 µs are usual on
V100, A100, H100, MI250, MI300X and MTIA (`DependencyGraph.latencies` of public traces)."""

_LOW, _HIGH = 0.1, 0.9

_SPREAD = 4.0
"""Samples above that many times the 10th percentile are no latency: the moment waited for what is not recorded.

Of launches, gaps and syncs on V100, A100, H100 and MI300X the 90th percentile is 1.1 to 3.2 times the 10th, where
nothing else is waited for.
"""

_GROUP = ["code", "key"]
_SOURCES = (LatencySource.GROUP, LatencySource.KIND, LatencySource.LOWEST)


def usual_latencies(rows: pl.DataFrame) -> pl.DataFrame:
    """A row for each group: code, key, edges, samples, typical_ns, low_ns, high_ns, source, most_ns.

    The typical latency is the median of the samples of the group, without those that are no latency; of fewer than
    `MIN_SAMPLES` that of the kind; where the kind has too few as well, the lowest sample of the kind, 0 if that is too
    long for a latency; without any sample 0: how long an edge has waited that never decided says nothing. `most_ns`
    is what the latency hardly exceeds: the 90th percentile of the samples that it was learned from, 0 where there is
    none.

    Args:
        rows: `code`, `key`, `slack_ns` and `is_sample` of each edge.
    """
    every = pl.col("slack_ns").filter("is_sample")
    sample = every.filter(every <= _SPREAD * every.quantile(_LOW, "nearest"))
    lowest = every.min()
    of_kind = rows.group_by("code").agg(
        pl.col("is_sample").sum().alias("kind_samples"),
        sample.median().alias("kind_typical_ns"),
        sample.quantile(_HIGH, "nearest").alias("kind_most_ns"),
        pl.when(lowest <= LONGEST_NS).then(lowest).otherwise(0).cast(pl.Float64).alias("lowest_ns"),
        every.min().clip(upper_bound=LONGEST_NS).fill_null(0).cast(pl.Float64).alias("lowest_sample_ns"),
    )
    found = rows.group_by(_GROUP).agg(
        pl.len().alias("edges"),
        pl.col("is_sample").sum().alias("samples"),
        sample.median().alias("own_ns"),
        sample.quantile(_HIGH, "nearest").alias("own_most_ns"),
        every.quantile(_LOW, "nearest").alias("low_ns"),
        every.quantile(_HIGH, "nearest").alias("high_ns"),
    )
    chosen = [
        _by_samples("own_ns", "kind_typical_ns", "lowest_ns").alias("typical_ns"),
        _by_samples("own_most_ns", "kind_most_ns", "lowest_sample_ns").alias("most_ns"),
        pl.when(pl.col("kind_samples") == 0)
        .then(pl.lit(LatencySource.NONE.value))
        .otherwise(_by_samples(*(pl.lit(source.value) for source in _SOURCES)))
        .alias("source"),
    ]
    return (
        found.join(of_kind, on="code", how="left").with_columns(chosen).sort("code", "key", nulls_last=False)
    )


def _by_samples(own: str | pl.Expr, of_kind: str | pl.Expr, lowest: str | pl.Expr) -> pl.Expr:
    """What is learned from the group's own samples, from those of its kind where they are few, or from neither."""
    enough, enough_of_kind = (pl.col(name) >= MIN_SAMPLES for name in ("samples", "kind_samples"))
    return pl.when(enough).then(own).when(enough_of_kind).then(of_kind).otherwise(lowest)
