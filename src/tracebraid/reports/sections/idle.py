"""Idle time: why devices are idle, and what the host did meanwhile."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from tracebraid.model.analysis import Answer, JobAnalysis, Need
from tracebraid.model.answer_sentences import code_name
from tracebraid.model.answers.time import HostActivity, IdleCause
from tracebraid.model.quantities import duration, number, percent
from tracebraid.model.report import (
    Chart,
    ChartKind,
    DataTable,
    Missing,
    Note,
    Part,
    RunResults,
    Section,
    sampled,
)

_TABLE_ROWS = 1_000
"""Maximum rows of the table beside a chart."""


def frame_of(results: RunResults, name: str) -> pl.DataFrame | None:
    """Return the rows of an answer; None if it was not computed or is empty."""
    answer = results.answers.get(name)
    return None if answer is None or answer.frame.is_empty() else answer.frame


def lacking(results: RunResults, name: str) -> tuple[Need, ...]:
    """Return the needs of an analysis that no rank meets."""
    answer = results.answers.get(name)
    if answer is None or not answer.lacks:
        return ()
    return tuple(need for need in answer.analysis.needs if _lack_of_all(answer, need))


def _lack_of_all(answer: Answer, need: Need) -> bool:
    return all(need in lacks for lacks in answer.lacks.values())


def missing(results: RunResults, name: str, title: str) -> list[Missing]:
    """Explain missing content by the unmet needs of an analysis; nothing if all are met."""
    return [Missing.of(title, need) for need in lacking(results, name)[:1]]


def answer_table(
    results: RunResults,
    name: str,
    title: str,
    columns: Iterable[str],
    frame: pl.DataFrame | None = None,
) -> DataTable:
    """Build a table from rows of an answer; without a rank column for a single rank."""
    answer = results.answers[name]
    rows = answer.frame if frame is None else frame
    return DataTable(
        f"{name.replace('_', '-')}-table",
        title,
        rows.head(_TABLE_ROWS),
        answer.analysis.table,
        columns=tuple(column for column in columns if column != "rank" or len(results.ranks) > 1),
        left_out=max(0, rows.height - _TABLE_ROWS) + results.left_out.get(name, 0),
        start_ns=results.start_ns,
        starts={} if isinstance(answer.analysis, JobAnalysis) else results.starts,
    )


_MOST_BARS = 16
"""Maximum streams of the chart: those with the most work."""
_MOST_MOMENTS = 800
"""Maximum points of a line over time: about the width of a page in pixels."""

_LENGTHS = "rank device stream count mean mean_over_time p50 max p25 p75 min std"
_SERIES = ("rank", "device", "stream", "ts_ns", "length", "launches")
_FORMULA = (
    "The queue of a stream holds the device events that were launched and have not started. The bar is its mean length "
    "over time, the range from its shortest to its longest (analysis queue_lengths)."
)
_SERIES_FORMULA = "The longest of each of up to {moments} equal spans of time (analysis queue_series)."


def queue_parts(results: RunResults) -> list[Part]:
    """Chart queue lengths by stream, and over time for the busiest stream."""
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


_IDLE_FORMULA = (
    "Time in which nothing computes, communicates or is copied on the device, between the first and the last event of "
    "the device or in the steps, by what kept the next work from starting: of the launch that came late what the host "
    "did meanwhile. Summed over devices and ranks (analysis idle_causes)."
)
_COLUMNS = ("cause", "host_activity", "size", "idle_ns", "count", "after_sync_ns")


def idle(results: RunResults) -> Section | None:
    """Build the section; None without answers about idle time or queues."""
    if results.answers.get("idle_causes") is None and results.answers.get("queue_lengths") is None:
        return None
    parts: list[Part] = [
        *missing(results, "idle_causes", "Idle time"),
        *_causes(results),
        *queue_parts(results),
    ]
    lead = "A device is idle when its next work was not launched in time, or waits for another stream."
    return Section("idle-time", "Idle devices and queues", parts, lead) if parts else None


def _causes(results: RunResults) -> list[Part]:
    causes = frame_of(results, "idle_causes")
    if causes is None:
        answer = results.answers.get("idle_causes")
        return (
            [Note("No device is idle between its events.")] if answer and not answer.is_unanswerable else []
        )
    whole = causes.filter(pl.col("step").is_null())
    rows = causes if whole.is_empty() else whole
    keys = ("cause", "host_activity", "size")
    summed = (
        rows.group_by(keys)
        .agg(pl.col("idle_ns", "count", "after_sync_ns").sum())
        .sort("idle_ns", *keys, descending=[True, False, False, False])
    )
    bars, total = _bars(summed), int(summed.get_column("idle_ns").sum())
    first = bars.row(0, named=True)
    share = percent((first["micro"] + first["macro"]) / total) if total else percent(0)
    summary = f"Devices are idle for {duration(total)} in all; {share} of it: {first['label']}."
    series = [
        {"column": "macro", "name": "long gaps", "colour": "idle"},
        {"column": "micro", "name": "gaps of the size of a launch", "colour": "host"},
    ]
    options = {"unit": "ns", "title": "idle time", "series": series}
    table = answer_table(results, "idle_causes", "Why devices are idle", _COLUMNS, summed.select(_COLUMNS))
    title = "Why devices are idle"
    return [
        Chart(
            "idle-causes",
            ChartKind.STACKED_BARS,
            title,
            summary,
            {"bars": bars},
            options,
            _IDLE_FORMULA,
            table,
        )
    ]


def _bars(summed: pl.DataFrame) -> pl.DataFrame:
    """Chart idle time by cause and host activity, in short and long gaps."""
    sizes = [
        pl.col("idle_ns").filter(pl.col("size") == size).sum().alias(size) for size in ("micro", "macro")
    ]
    grouped = summed.group_by("cause", "host_activity", maintain_order=True).agg(sizes)
    ordered = grouped.sort(pl.col("micro") + pl.col("macro"), descending=True, maintain_order=True)
    labels = [_label(cause, host) for cause, host in ordered.select("cause", "host_activity").iter_rows()]
    return ordered.select(pl.Series("label", labels, dtype=pl.String), "micro", "macro")


def _label(cause: str, host: str | None) -> str:
    causes = {code.value: code_name(code) for code in IdleCause}
    activities = {code.value: code_name(code) for code in HostActivity}
    said = causes.get(cause, cause)
    return said if host is None else f"{said}: {activities.get(host, host)}"
