"""Roofline: what ops reach against what the device could do, and how much of its peak the model uses."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.model.answer_sentences import code_name
from tracebraid.model.answers.efficiency import Bound
from tracebraid.model.device_peaks import Precision
from tracebraid.model.report.parts import Chart, ChartKind, Part, Section
from tracebraid.model.report.run_results import RunResults
from tracebraid.reports.sections.asked import answer_table, frame_of, missing
from tracebraid.reports.sections.efficiency import mfu_parts
from tracebraid.reports.units import duration, quantity

__all__ = ["roofline"]

_MOST_POINTS = 400
"""Ops with their shapes: those with the most device time."""

_COSTS = (
    "name input_dims precision count device_ns flops bytes flops_per_byte achieved_flops_per_s "
    "achieved_bytes_per_s bound"
)
_ROOFLINE = (
    "rank name input_dims precision count device_ns roofline_ns roofline_share lost_ns lost_share bound"
)
_FORMULA = (
    "A point is an op with its shapes and precision, over all ranks that were asked. Across: FLOP / bytes, the bytes "
    "being the least that must be read and written. Upwards: FLOP / device time. Area: device time. Ceiling: the "
    "lesser of the device's peak FLOP/s at a precision and its memory bandwidth times FLOP / byte (analyses op_costs, "
    "roofline; Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009)."
)
_KEYS = ("name", "input_dims", "precision", "bound")


def roofline(results: RunResults) -> Section | None:
    """The section; None where costs of ops were not asked."""
    if results.answers.get("op_costs") is None:
        return None
    lacks = missing(results, "op_costs", "Roofline")
    if lacks:
        return Section("roofline", "Efficiency", lacks)
    parts: list[Part] = [*_chart(results), *missing(results, "roofline", "The device's ceiling")]
    if frame_of(results, "roofline") is not None:
        parts.append(_lost(results))
    parts += mfu_parts(results)
    lead = "What ops reach of what the device could do: a point far below the ceiling loses time."
    return Section("roofline", "Efficiency", parts, lead) if parts else None


def _chart(results: RunResults) -> list[Part]:
    costs = _costs(results)
    if costs is None or costs.is_empty():
        return []
    shown = costs.head(_MOST_POINTS)
    ceilings = _ceilings(results, costs)
    best = costs.sort("achieved_flops_per_s", descending=True).row(0, named=True)
    first = costs.row(0, named=True)
    summary = (
        f"{costs.height:,} ops with their shapes; {first['name']} takes the most device time, "
        f"{duration(first['device_ns'])}; {best['name']} reaches the most, "
        f"{quantity(best['achieved_flops_per_s'])}FLOP/s."
    )
    options = {
        "x_unit": "flops_per_byte",
        "x_title": "FLOP per byte",
        "unit": "flops_per_s",
        "title": "FLOP/s",
        "size_unit": "ns",
        "size_title": "device time",
        "series": [
            *({"column": bound.value, "name": f"bound by {code_name(bound)}"} for bound in Bound),
            {"column": "unknown", "name": "bound unknown"},
        ],
    }
    title = "Roofline" if not ceilings.is_empty() else "FLOP/s of ops"
    if costs.height > shown.height:
        title += f": the {shown.height:,} of {costs.height:,} with the most device time"
    table = answer_table(results, "op_costs", "Costs of ops", _COSTS.split(), costs)
    frames = {"points": _points(shown), "curves": ceilings}
    return [Chart("roofline-chart", ChartKind.SCATTER, title, summary, frames, options, _FORMULA, table)]


def _costs(results: RunResults) -> pl.DataFrame | None:
    """Costs of ops over all ranks, the most device time first."""
    costs = frame_of(results, "op_costs")
    if costs is None:
        return None
    flops, time, moved = pl.col("flops"), pl.col("device_ns"), pl.col("bytes")
    return (
        costs.filter(pl.col("step").is_null(), flops > 0, moved > 0, time > 0)
        .group_by(_KEYS, maintain_order=True)
        .agg(pl.col("count", "flops", "bytes", "device_ns").sum())
        .with_columns(
            (flops / time * 1e9).alias("achieved_flops_per_s"),
            (moved / time * 1e9).alias("achieved_bytes_per_s"),
            (flops / moved).alias("flops_per_byte"),
        )
        .sort("device_ns", descending=True, maintain_order=True)
    )


def _points(costs: pl.DataFrame) -> pl.DataFrame:
    notes = [
        f"{row['input_dims'] or 'shapes unknown'}, {row['precision'] or 'precision unknown'}, {row['count']:,} times"
        for row in costs.iter_rows(named=True)
    ]
    return costs.select(
        pl.col("flops_per_byte").alias("x"),
        pl.col("achieved_flops_per_s").alias("y"),
        pl.col("device_ns").alias("size"),
        pl.col("bound").fill_null("unknown").alias("series"),
        pl.col("name").alias("label"),
        pl.Series("note", [note[:_NOTE] for note in notes], dtype=pl.String),
    )


_NOTE = 160
"""Characters of what is said of an op; the table has all."""


def _ceilings(results: RunResults, costs: pl.DataFrame) -> pl.DataFrame:
    """For each precision the slope of the memory's bandwidth and the flat of its peak, as points of a curve."""
    schema = {"name": pl.String, "x": pl.Float64, "y": pl.Float64, "series": pl.String}
    found = frame_of(results, "roofline")
    if found is None:
        return pl.DataFrame(schema=schema)
    peaks = (
        found.select("precision", "peak_flops_per_s", "peak_bytes_per_s")
        .drop_nulls()
        .unique()
        .sort("peak_flops_per_s", "precision", "peak_bytes_per_s", descending=[True, False, False])
    )
    known = {precision.value: code_name(precision) for precision in Precision}
    least, most = costs.select(
        pl.col("flops_per_byte").min().alias("a"), pl.col("flops_per_byte").max().alias("b")
    ).row(0)
    rows: list[tuple[str, float, float, None]] = []
    for precision, flops, bandwidth in peaks.iter_rows():
        ridge = flops / bandwidth
        name = f"{known.get(precision, precision)}: {quantity(flops)}FLOP/s, {quantity(bandwidth)}B/s"
        corners = np.array([min(least, ridge / 2), ridge, max(most, ridge * 4)])
        rows += [
            (name, x, y, None)
            for x, y in zip(corners.tolist(), np.minimum(flops, bandwidth * corners).tolist(), strict=True)
        ]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _lost(results: RunResults) -> Part:
    rows = results.answers["roofline"].frame
    whole = rows.filter(pl.col("step").is_null()).sort("lost_ns", descending=True, nulls_last=True)
    return answer_table(
        results, "roofline", "Ops that lose the most time against the roofline", _ROOFLINE.split(), whole
    )
