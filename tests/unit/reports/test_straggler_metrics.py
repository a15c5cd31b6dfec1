"""Straggler metrics for people."""

from __future__ import annotations

import polars as pl
import pytest
from rich.text import Text

from tracebraid.model.answers import STRAGGLER_METRICS
from tracebraid.model.answers.graph.stragglers import StragglerMetric
from tracebraid.reports.straggler_metrics import straggler_parts


def _metrics(slowdown: float) -> pl.DataFrame:
    rows = [
        {"metric": StragglerMetric.SLOWDOWN.value, "value": slowdown},
        {"metric": StragglerMetric.SLOWEST_WORKERS.value, "group": "17", "value": 0.875},
    ]
    return STRAGGLER_METRICS.conform(
        pl.DataFrame(
            [{"group_by": None, "group": None, "step_ns": 1e6, "ideal_ns": 1e6, **row} for row in rows]
        )
    )


@pytest.mark.parametrize(("slowdown", "shown"), [(1.2, True), (1.0001, False), (0.99, False)])
def test_a_share_of_nothing_is_not_printed(slowdown: float, shown: bool) -> None:
    parts = straggler_parts(_metrics(slowdown), 10, 100)
    text = "\n".join(part.plain for part in parts if isinstance(part, Text))
    assert ("87.5" in text) == shown
