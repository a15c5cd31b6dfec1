"""Roofline: what ops reach against what the device could do, and how much of its peak the model uses."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.model.answer_sentences import code_name
from tracebraid.model.answers.efficiency import Bound
from tracebraid.model.device_peaks import Precision
from tracebraid.model.quantities import duration, percent, quantity
from tracebraid.model.report import Chart, ChartKind, Part, RunResults, Section
from tracebraid.reports.sections.idle import answer_table, frame_of, missing
from tracebraid.reports.sections.memory import different, rank_label, step_label

_MOST_BARS = 24
"""Maximum bars of a chart."""

_COLUMNS = (
    "rank step span_ns mfu hfu model_flops model_flops_per_s hardware_flops peak_flops_per_s precision "
    "known_share"
)
_FORMULA = (
    "MFU: FLOPs of the model, without recomputation, over span times the device's dense peak at the precision of most "
    "of them. HFU: the same with recomputation (analysis mfu; Chowdhery et al., PaLM, 2022, appendix B)."
)


def mfu_parts(results: RunResults) -> list[Part]:
    """Chart MFU by rank, or by step for a single rank; only a table if the peak is unknown."""
    found = frame_of(results, "mfu")
    if found is None:
        return []
    table = answer_table(results, "mfu", "FLOPs of the model", _COLUMNS.split())
    known = found.filter(pl.col("mfu").is_not_null())
    if known.is_empty():
        return [table]
    steps = known.filter(pl.col("step").is_not_null())
    if known.get_column("rank").n_unique() == 1 and not steps.is_empty():
        shown = steps.head(_MOST_BARS)
        labels = [f"step {step_label(step)}" for step in shown.get_column("step")]
    else:
        whole = known.filter(pl.col("step").is_null())
        shown = whole.filter(pl.col("rank").is_in(different(whole, ["mfu"], [], _MOST_BARS)))
        labels = [rank_label(rank) for rank in shown.get_column("rank")]
    bars = shown.select(
        pl.Series("label", labels, dtype=pl.String),
        pl.col("mfu").alias("value"),
        pl.Series("note", [_note(row) for row in shown.iter_rows(named=True)], dtype=pl.String),
    )
    most = known.get_column("mfu").max()
    summary = f"The highest MFU is {percent(most)}." if isinstance(most, float) else ""
    options = {"unit": "share", "title": "MFU", "colour": "compute"}
    return [
        Chart(
            "mfu",
            ChartKind.BARS,
            "Model FLOPs utilisation",
            summary,
            {"bars": bars},
            options,
            _FORMULA,
            table,
        )
    ]


def _note(row: dict[str, float]) -> str:
    known = row["known_share"]
    hardware = "" if row["hfu"] is None else f"HFU {percent(row['hfu'])}"
    return (
        hardware
        if known is None
        else f"{hardware}; FLOPs are known of {percent(known)} of the ops' device time"
    )


_MOST_POINTS = 400
"""Maximum ops with shapes: those with the most device time."""

_COSTS = (
    "name input_dims precision count device_ns flops bytes flops_per_byte achieved_flops_per_s "
    "achieved_bytes_per_s bound"
)
_ROOFLINE = (
    "rank name input_dims precision count device_ns roofline_ns roofline_share lost_ns lost_share bound"
)
_ROOFLINE_FORMULA = (
    "A point is an op with its shapes and precision, over all ranks that were asked. Across: FLOP / bytes, the bytes "
    "being the least that must be read and written. Upwards: FLOP / device time. Area: device time. Ceiling: the "
    "lesser of the device's peak FLOP/s at a precision and its memory bandwidth times FLOP / byte (analyses op_costs, "
    "roofline; Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009)."
)
_KEYS = ("name", "input_dims", "precision", "bound")


def roofline(results: RunResults) -> Section | None:
    """Build the section; None without costs of ops."""
    if results.answers.get("op_costs") is None:
        return None
    lacks = missing(results, "op_costs", "Roofline")
    if lacks:
        return Section("roofline", "Efficiency", lacks)
    parts: list[Part] = [*_chart(results), *missing(results, "roofline", "The device's ceiling")]
    if frame_of(results, "roofline") is not None:
        parts.append(_lost(results))
    parts += mfu_parts(results)
    lead = "Performance of ops against the device's peaks: a point far below the ceiling loses time."
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
    return [
        Chart("roofline-chart", ChartKind.SCATTER, title, summary, frames, options, _ROOFLINE_FORMULA, table)
    ]


def _costs(results: RunResults) -> pl.DataFrame | None:
    """Return costs of ops over all ranks, most device time first."""
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
"""Maximum characters of an op's description; the table has all."""


def _ceilings(results: RunResults, costs: pl.DataFrame) -> pl.DataFrame:
    """Return the roofline of each precision as points: the slope of memory bandwidth and the peak."""
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
