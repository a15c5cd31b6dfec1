"""The detectors of anti-patterns of launches and copies."""

from __future__ import annotations

from tracebraid.analysis.antipatterns.launches.launch_bound_stretch import LAUNCH_BOUND_STRETCH
from tracebraid.analysis.antipatterns.launches.pageable_copy import PAGEABLE_COPY
from tracebraid.model.questions.detector import Detector

__all__ = ["DETECTORS"]

DETECTORS: tuple[Detector, ...] = (
    PAGEABLE_COPY,
    LAUNCH_BOUND_STRETCH,
)
