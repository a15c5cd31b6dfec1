"""The detectors of anti-patterns between ranks."""

from __future__ import annotations

from tracebraid.analysis.antipatterns.ranks.imbalance import RANKS_DETECTOR, STAGES_DETECTOR
from tracebraid.analysis.antipatterns.ranks.late import LATE_DETECTOR
from tracebraid.model.questions.detector import JobDetector

__all__ = ["DETECTORS"]

DETECTORS: tuple[JobDetector, ...] = (RANKS_DETECTOR, STAGES_DETECTOR, LATE_DETECTOR)
