"""Memory: how much is allocated over time and for what, and what is alive at the peak."""

from __future__ import annotations

import polars as pl

from tracebraid.model.answer_sentences import code_name
from tracebraid.model.answers.memory.memory_codes import MemoryCategory, MemorySource
from tracebraid.model.report.parts import Chart, ChartKind, Note, Part, Section
from tracebraid.model.report.run_results import RunResults
from tracebraid.reports.sections.asked import answer_table, frame_of, missing
from tracebraid.reports.sections.memory_over_time import memory_over_time
from tracebraid.reports.sections.rank_choice import different, rank_label
from tracebraid.reports.units import size

__all__ = ["memory"]

_MOST_BARS = 24
"""Bars that a chart has at most."""
_HOST = "cpu"

_PEAK = "rank device peak_ns peak_bytes reserved_bytes before_trace_bytes in_trace_bytes allocations op module source"
_ALIVE = "category op module bytes count share"
_PEAK_FORMULA = "The most that is allocated on the device at a moment (analysis memory_peak)."
_ALIVE_FORMULA = (
    "Sizes of the allocations that are alive at the device's peak, by what they are for: what decides a category "
    "stands in the column `rule` of analysis allocations (analysis memory_at_peak)."
)
_LOWER_BOUND = (
    "No allocations were recorded: figures are of the storages of the Execution Trace, each from its first use to its "
    "last, and lower bounds."
)


def memory(results: RunResults) -> Section | None:
    """The section; None where no question on memory was asked."""
    if results.answers.get("memory_peak") is None:
        return None
    lead = "How much is allocated, for what, and what is alive when it is the most."
    lacks = missing(results, "memory_peak", "Memory")
    if lacks:
        return Section("memory", "Memory", lacks, lead)
    peaks = frame_of(results, "memory_peak")
    if peaks is None:
        return Section("memory", "Memory", [Note("Nothing is allocated in the traces.")], lead)
    whole = peaks.filter(pl.col("step").is_null())
    worst = _worst(peaks if whole.is_empty() else whole)
    parts: list[Part] = [*memory_over_time(results, worst), *_peaks(results, whole), *_alive(results, worst)]
    if worst["source"] == MemorySource.STORAGES.value:
        parts.insert(0, Note(_LOWER_BOUND))
    return Section("memory", "Memory", parts, lead)


def _worst(peaks: pl.DataFrame) -> dict[str, object]:
    """The peak of the device with the most memory; the host's only where no device has any."""
    on_device = peaks.filter(pl.col("device") != _HOST, pl.col("peak_bytes") > 0)
    rows = peaks if on_device.is_empty() else on_device
    found: dict[str, object] = rows.sort("peak_bytes", descending=True, maintain_order=True).row(
        0, named=True
    )
    return found


def _peaks(results: RunResults, peaks: pl.DataFrame) -> list[Part]:
    """The peak of each rank's device."""
    if peaks.height < 2:
        return []
    kept = different(peaks, ["peak_bytes"], ["device"], _MOST_BARS)
    shown = peaks.filter(pl.col("rank").is_in(kept)).head(_MOST_BARS)
    labels = [rank_label(rank, device) for rank, device in shown.select("rank", "device").iter_rows()]
    parts = [pl.col("before_trace_bytes", "in_trace_bytes").fill_null(0)]
    bars = shown.select(pl.Series("label", labels, dtype=pl.String), *parts)
    series = [
        {"column": "before_trace_bytes", "name": "from before the trace", "colour": "host"},
        {"column": "in_trace_bytes", "name": "allocated in the trace", "colour": "memory"},
    ]
    options = {"unit": "bytes", "title": "allocated at the peak", "series": series}
    most = size(peaks.get_column("peak_bytes").max())  # type: ignore[arg-type]
    title = "Peak of allocated memory, by device"
    if shown.height < peaks.height:
        title += f": {shown.height} of {peaks.height:,} that differ most"
    table = answer_table(results, "memory_peak", "Peaks of memory", _PEAK.split(), peaks)
    summary = f"The highest peak is {most}."
    return [
        Chart(
            "memory-peaks",
            ChartKind.STACKED_BARS,
            title,
            summary,
            {"bars": bars},
            options,
            _PEAK_FORMULA,
            table,
        )
    ]


def _alive(results: RunResults, worst: dict[str, object]) -> list[Part]:
    """What is alive at the peak of a device."""
    alive = frame_of(results, "memory_at_peak")
    if alive is None:
        return []
    rows = alive.filter(
        pl.col("rank") == worst["rank"], pl.col("device") == worst["device"], pl.col("step").is_null()
    ).sort("bytes", descending=True, maintain_order=True)
    if rows.is_empty():
        return []
    names = {category.value: code_name(category) for category in MemoryCategory}
    summed = (
        rows.group_by("category", maintain_order=True)
        .agg(pl.col("bytes").sum())
        .sort("bytes", descending=True, maintain_order=True)
    )
    labels = [names.get(category, category) for category in summed.get_column("category")]
    bars = summed.select(pl.Series("label", labels, dtype=pl.String), pl.col("bytes").alias("value"))
    options = {"unit": "bytes", "title": "alive at the peak", "colour": "memory"}
    title = f"Alive at the peak of {rank_label(int(str(worst['rank'])), str(worst['device']))}"
    first = summed.item(0, "bytes")
    summary = f"Of {size(int(str(worst['peak_bytes'])))} the most, {size(first)}, is {labels[0]}."
    table = answer_table(results, "memory_at_peak", title, _ALIVE.split(), rows)
    return [
        Chart("memory-alive", ChartKind.BARS, title, summary, {"bars": bars}, options, _ALIVE_FORMULA, table)
    ]
