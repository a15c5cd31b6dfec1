"""The detectors of anti-patterns of communication."""

from __future__ import annotations

from tracebraid.analysis.antipatterns.communication import hidable, small_collectives, unbalanced_buckets
from tracebraid.model.questions.detector import Detector

__all__ = ["DETECTORS"]

DETECTORS: tuple[Detector, ...] = (
    small_collectives.DETECTOR,
    unbalanced_buckets.DETECTOR,
    hidable.DETECTOR,
)
