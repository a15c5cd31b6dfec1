"""All detectors, in the order in which they are listed."""

from __future__ import annotations

from tracebraid.analysis.antipatterns.communication import catalog as communication
from tracebraid.analysis.antipatterns.host import catalog as host
from tracebraid.analysis.antipatterns.launches import catalog as launches
from tracebraid.analysis.antipatterns.matmuls import catalog as matmuls
from tracebraid.analysis.antipatterns.ranks import catalog as ranks
from tracebraid.analysis.antipatterns.syncs import catalog as syncs
from tracebraid.analysis.antipatterns.tensors import catalog as tensors
from tracebraid.model.questions.detector import Detector, JobDetector

__all__ = ["DETECTORS", "JOB_DETECTORS"]

DETECTORS: tuple[Detector, ...] = (
    *syncs.DETECTORS,
    *launches.DETECTORS,
    *host.DETECTORS,
    *communication.DETECTORS,
    *matmuls.DETECTORS,
    *tensors.DETECTORS,
)

JOB_DETECTORS: tuple[JobDetector, ...] = (*ranks.DETECTORS,)
