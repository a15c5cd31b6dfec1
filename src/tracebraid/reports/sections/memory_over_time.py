"""Allocated memory over time: by category where that is known, else as a whole."""

from __future__ import annotations

import polars as pl

from tracebraid.model.answer_sentences import code_name
from tracebraid.model.answers.memory.memory_codes import MemoryCategory
from tracebraid.model.report.parts import Chart, ChartKind, Part
from tracebraid.model.report.run_results import RunResults
from tracebraid.model.report.sampling import sampled
from tracebraid.reports.sections.asked import answer_table, frame_of
from tracebraid.reports.sections.rank_choice import rank_label
from tracebraid.reports.units import size

__all__ = ["memory_over_time"]

_MOST_MOMENTS = 800
"""Points of a line over time: about the pixels that a page has across."""

_COLUMNS = ["ts_ns", "size_bytes", "allocated_bytes", "reserved_bytes", "op", "step"]
_FORMULA = (
    "Allocated after each allocation and release (analysis memory_timeline), of the device with the highest peak. "
    "Of each of up to {moments} equal spans of time the moment with the most is drawn, so that the peak is exact."
)
_BY_CATEGORY = (
    " By category: the sizes of what is alive after all changes of a moment (analysis allocations); "
    "the rest is from before the trace."
)
_COLOURS = {
    MemoryCategory.PARAMETERS: "series-1",
    MemoryCategory.GRADIENTS: "series-2",
    MemoryCategory.OPTIMIZER_STATE: "series-3",
    MemoryCategory.ACTIVATIONS: "series-4",
    MemoryCategory.INPUTS: "series-5",
    MemoryCategory.TEMPORARIES: "series-6",
    MemoryCategory.COLLECTIVE_BUFFERS: "series-7",
    MemoryCategory.BEFORE_TRACE: "series-8",
    MemoryCategory.UNKNOWN: "series-9",
}
"""The same category has the same colour in every report."""


def memory_over_time(results: RunResults, worst: dict[str, object]) -> list[Part]:
    """The chart of a device.

    Args:
        results: has memory_timeline, and may have the view `memory_by_category`.
        worst: a row of memory_peak: the device that is shown.
    """
    found = frame_of(results, "memory_timeline")
    of_device = [pl.col("rank") == worst["rank"], pl.col("device") == worst["device"]]
    rows = None if found is None else found.filter(*of_device).sort("ts_ns", maintain_order=True)
    if rows is None or rows.height < 2:
        return []
    label = rank_label(int(str(worst["rank"])), str(worst["device"]))
    table = answer_table(results, "memory_timeline", f"Allocated memory of {label}", _COLUMNS, rows)
    peak = f"The peak is {size(int(str(worst['peak_bytes'])))}."
    options = {
        "x": "ts_ns",
        "x_unit": "ns",
        "x_title": "time",
        "unit": "bytes",
        "title": "allocated",
        "steps": True,
    }
    formula = _FORMULA.format(moments=_MOST_MOMENTS)
    view = results.views.get("memory_by_category")
    by_category = None if view is None else view.filter(*of_device)
    if by_category is not None and not by_category.is_empty():
        areas, series = _areas(by_category, results.start_ns)
        title = f"Memory of {label} by category"
        options |= {"series": series}
        formula += _BY_CATEGORY
        return [Chart("memory-time", ChartKind.AREAS, title, peak, {"areas": areas}, options, formula, table)]
    lines = sampled(rows, "allocated_bytes", _MOST_MOMENTS)
    lines = lines.select(pl.col("ts_ns") - results.start_ns, "allocated_bytes", "reserved_bytes")
    title = f"Memory of {label}"
    options |= {"series": _lines(lines)}
    return [Chart("memory-time", ChartKind.LINES, title, peak, {"lines": lines}, options, formula, table)]


def _areas(by_category: pl.DataFrame, start_ns: int) -> tuple[pl.DataFrame, list[dict[str, str]]]:
    """A column for each category that has memory at any moment."""
    wide = by_category.pivot("category", index="ts_ns", values="bytes", aggregate_function="sum").sort(
        "ts_ns"
    )
    used = [category for category in MemoryCategory if category.value in wide.columns]
    used = [category for category in used if wide.get_column(category.value).max()]
    series = [
        {"column": category.value, "name": code_name(category), "colour": _COLOURS[category]}
        for category in used
    ]
    columns = [pl.col(category.value).fill_null(0) for category in used]
    return wide.select(pl.col("ts_ns") - start_ns, *columns), series


def _lines(rows: pl.DataFrame) -> list[dict[str, str]]:
    series = [{"column": "allocated_bytes", "name": "allocated", "colour": "memory"}]
    if rows.get_column("reserved_bytes").is_not_null().any():
        series.append({"column": "reserved_bytes", "name": "reserved by the allocator", "colour": "host"})
    return series
