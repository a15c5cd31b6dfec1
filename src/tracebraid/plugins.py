"""Metrics and detectors of your own.

    from tracebraid.plugins import metric

    @metric(name="host_ops", unit="count", over_ranks="sum")
    def host_ops(linked):
        \"\"\"Host ops in the trace.\"\"\"
        return linked.timeline.host_ops.height

An installed package offers them by entry points of the groups `tracebraid.metrics` and `tracebraid.detectors`.
"""

from __future__ import annotations

from tracebraid.api.advising import detectors
from tracebraid.api.measuring import metric
from tracebraid.model.analysis import Need
from tracebraid.model.questions import Detector, JobDetector, Metric, OverRanks, Unit

__all__ = [
    "Detector",
    "JobDetector",
    "Metric",
    "Need",
    "OverRanks",
    "Unit",
    "detectors",
    "metric",
]
