"""The metrics that come with the package, in the order in which they are listed."""

from __future__ import annotations

from tracebraid.analysis.metrics.balance import METRICS as BALANCE
from tracebraid.analysis.metrics.bandwidth import METRICS as BANDWIDTH
from tracebraid.analysis.metrics.communication import METRICS as COMMUNICATION
from tracebraid.analysis.metrics.counts import METRICS as COUNTS
from tracebraid.analysis.metrics.efficiency import METRICS as EFFICIENCY
from tracebraid.analysis.metrics.inference import METRICS as INFERENCE
from tracebraid.analysis.metrics.memory import METRICS as MEMORY
from tracebraid.analysis.metrics.time import METRICS as TIME
from tracebraid.model.questions.metric import Metric

__all__ = ["METRICS"]

METRICS: tuple[Metric, ...] = (
    *TIME,
    *BALANCE,
    *COMMUNICATION,
    *BANDWIDTH,
    *EFFICIENCY,
    *MEMORY,
    *INFERENCE,
    *COUNTS,
)
