"""How much of the device's peak the model's FLOPs reach."""

from __future__ import annotations

import polars as pl

from tracebraid.model.report.parts import Chart, ChartKind, Part
from tracebraid.model.report.run_results import RunResults
from tracebraid.reports.sections.asked import answer_table, frame_of
from tracebraid.reports.sections.rank_choice import different, rank_label, step_label
from tracebraid.reports.units import percent

__all__ = ["mfu_parts"]

_MOST_BARS = 24
"""Bars that a chart has at most."""

_COLUMNS = (
    "rank step span_ns mfu hfu model_flops model_flops_per_s hardware_flops peak_flops_per_s precision "
    "known_share"
)
_FORMULA = (
    "MFU: FLOPs of the model, without recomputation, over span times the device's dense peak at the precision of most "
    "of them. HFU: the same with recomputation (analysis mfu; Chowdhery et al., PaLM, 2022, appendix B)."
)


def mfu_parts(results: RunResults) -> list[Part]:
    """MFU by rank, or of a single rank by step; the table alone where the peak is unknown."""
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
