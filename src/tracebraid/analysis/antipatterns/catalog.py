"""All detectors, in the order in which they are listed."""

from __future__ import annotations

from tracebraid.analysis.antipatterns.communication import catalog as communication
from tracebraid.analysis.antipatterns.host.allocator_retry import ALLOCATOR_RETRY
from tracebraid.analysis.antipatterns.host.data_loader import DATA_LOADER
from tracebraid.analysis.antipatterns.host.graph_break import GRAPH_BREAK
from tracebraid.analysis.antipatterns.host.recompilation import RECOMPILATION
from tracebraid.analysis.antipatterns.host.recording import RECORDING
from tracebraid.analysis.antipatterns.host.step_boundary import STEP_BOUNDARY
from tracebraid.analysis.antipatterns.launches.launch_bound_stretch import LAUNCH_BOUND_STRETCH
from tracebraid.analysis.antipatterns.launches.pageable_copy import PAGEABLE_COPY
from tracebraid.analysis.antipatterns.matmuls import catalog as matmuls
from tracebraid.analysis.antipatterns.ranks import catalog as ranks
from tracebraid.analysis.antipatterns.syncs.explicit_sync import EXPLICIT_SYNC
from tracebraid.analysis.antipatterns.syncs.item_sync import ITEM_SYNC
from tracebraid.analysis.antipatterns.syncs.read_sync import READ_SYNC
from tracebraid.analysis.antipatterns.syncs.size_sync import SIZE_SYNC
from tracebraid.analysis.antipatterns.tensors import catalog as tensors
from tracebraid.model.questions.detector import Detector, JobDetector

__all__ = ["DETECTORS", "JOB_DETECTORS"]

DETECTORS: tuple[Detector, ...] = (
    ITEM_SYNC,
    SIZE_SYNC,
    READ_SYNC,
    EXPLICIT_SYNC,
    PAGEABLE_COPY,
    LAUNCH_BOUND_STRETCH,
    DATA_LOADER,
    STEP_BOUNDARY,
    RECORDING,
    ALLOCATOR_RETRY,
    RECOMPILATION,
    GRAPH_BREAK,
    *communication.DETECTORS,
    *matmuls.DETECTORS,
    *tensors.DETECTORS,
)

JOB_DETECTORS: tuple[JobDetector, ...] = (*ranks.DETECTORS,)
