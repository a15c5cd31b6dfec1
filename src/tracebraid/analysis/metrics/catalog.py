"""The declared metrics: each `Metric` that a module of this package holds."""

from __future__ import annotations

from functools import cache

from tracebraid.analysis import metrics
from tracebraid.model.analysis import Family
from tracebraid.model.declared import declared
from tracebraid.model.questions import Metric


@cache
def built_in_metrics() -> tuple[Metric, ...]:
    """Return the metrics that come with the package, by family."""
    families = list(Family)
    return tuple(sorted(declared(metrics, Metric), key=lambda metric: families.index(metric.family)))
