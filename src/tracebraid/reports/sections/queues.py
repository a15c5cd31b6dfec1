"""Queues between host and device."""

from __future__ import annotations

import polars as pl

from tracebraid.model.report.parts import Chart, ChartKind, Part
from tracebraid.model.report.run_results import RunResults
from tracebraid.model.report.sampling import sampled
from tracebraid.reports.sections.asked import answer_table, frame_of
from tracebraid.reports.units import number

__all__ = ["queue_parts"]

_MOST_BARS = 16
"""Streams of the chart: those with the most work."""
_MOST_MOMENTS = 800
"""Points of a line over time: about the pixels that a page has across."""

_LENGTHS = "rank device stream count mean mean_over_time p50 max p25 p75 min std"
_SERIES = ("rank", "device", "stream", "ts_ns", "length", "launches")
_FORMULA = (
    "The queue of a stream holds the device events that were launched and have not started. The bar is its mean length "
    "over time, the range from its shortest to its longest (analysis queue_lengths)."
)
_SERIES_FORMULA = "The longest of each of up to {moments} equal spans of time (analysis queue_series)."


def queue_parts(results: RunResults) -> list[Part]:
    """Lengths of queues by stream, and over time of the stream with the most work."""
    lengths = frame_of(results, "queue_lengths")
    if lengths is None:
        return []
    whole = lengths.filter(pl.col("step").is_null())
    streams = (lengths if whole.is_empty() else whole).sort("count", descending=True, maintain_order=True)
    shown = streams.head(_MOST_BARS)
    labels = [f"rank {rank}, stream {stream}" for rank, stream in shown.select("rank", "stream").iter_rows()]
    bars = shown.select(
        pl.Series("label", labels, dtype=pl.String),
        pl.col("mean_over_time").alias("value"),
        pl.col("min").alias("low"),
        pl.col("max").alias("high"),
    )
    first = shown.row(0, named=True)
    mean = "unknown" if first["mean_over_time"] is None else number(first["mean_over_time"])
    summary = f"The queue of {labels[0]} is {mean} long on average, {first['max']:,} at most."
    title = "Length of queues"
    if streams.height > shown.height:
        title += f": the {shown.height} of {streams.height:,} streams with the most work"
    options = {"unit": "count", "title": "mean length", "range": "shortest to longest", "colour": "host"}
    table = answer_table(results, "queue_lengths", "Length of queues", _LENGTHS.split(), streams)
    chart = Chart("queue-lengths", ChartKind.BARS, title, summary, {"bars": bars}, options, _FORMULA, table)
    return [chart, *_over_time(results, first)]


def _over_time(results: RunResults, stream: dict[str, object]) -> list[Part]:
    series = frame_of(results, "queue_series")
    if series is None:
        return []
    same = [pl.col(name) == stream[name] for name in ("rank", "device", "stream")]
    moments = series.filter(*same).sort("ts_ns")
    if moments.height < 2:
        return []
    lines = sampled(moments, "length", _MOST_MOMENTS).select(
        (pl.col("ts_ns") - results.start_ns).alias("ts_ns"), "length"
    )
    options = {
        "x": "ts_ns",
        "x_unit": "ns",
        "x_title": "time",
        "unit": "count",
        "title": "queued",
        "steps": True,
        "series": [{"column": "length", "name": "queued", "colour": "host"}],
    }
    title = f"Queue of rank {stream['rank']}, stream {stream['stream']}, over time"
    longest = int(moments.select(pl.col("length").max()).item())
    summary = f"Up to {longest:,} device events are queued."
    table = answer_table(results, "queue_series", title, _SERIES, moments)
    formula = _SERIES_FORMULA.format(moments=_MOST_MOMENTS)
    return [Chart("queue-series", ChartKind.LINES, title, summary, {"lines": lines}, options, formula, table)]
