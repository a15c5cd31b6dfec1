"""All detectors, in the order in which they are listed."""

from __future__ import annotations

from tracebraid.model.detector import Detector, JobDetector

__all__ = ["DETECTORS", "JOB_DETECTORS"]

DETECTORS: tuple[Detector, ...] = ()

JOB_DETECTORS: tuple[JobDetector, ...] = ()
