"""Straggler metrics as a table."""

from __future__ import annotations

from typing import Any

import polars as pl

from tracebraid.model.answers.graph.stragglers import STRAGGLER_METRICS, StragglerMetric
from tracebraid.simulation.stragglers.metrics import StragglerMetrics

__all__ = ["straggler_table"]


def straggler_table(metrics: StragglerMetrics) -> pl.DataFrame:
    """`STRAGGLER_METRICS`.

    Args:
        metrics: the metrics of a job.
    """
    rows: list[dict[str, Any]] = [
        {"metric": StragglerMetric.SLOWDOWN, "value": metrics.slowdown, "step_ns": metrics.step_ns}
    ]
    by = [
        {
            "metric": StragglerMetric.SLOWDOWN_BY,
            "group_by": name,
            "group": label,
            "value": value,
            "step_ns": metrics.step_ns_by[name][label],
        }
        for name, of_labels in metrics.by.items()
        for label, value in of_labels.items()
    ]
    rows += sorted(by, key=lambda row: -row["value"])
    if "stage" in metrics.by:
        rows.append({"metric": StragglerMetric.LAST_STAGE, "group_by": "stage", "value": metrics.last_stage})
    slowest = ", ".join(metrics.slowest) or None
    rows.append(
        {
            "metric": StragglerMetric.SLOWEST_WORKERS,
            "group_by": "rank",
            "group": slowest,
            "value": metrics.slowest_workers,
        }
    )
    found = [{**row, "metric": row["metric"].value, "ideal_ns": metrics.ideal_ns} for row in rows]
    return STRAGGLER_METRICS.conform(
        pl.DataFrame(found, schema=STRAGGLER_METRICS.polars_schema()), fill_missing=True
    )
