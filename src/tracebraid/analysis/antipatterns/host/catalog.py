"""The detectors of what the host does instead of launching work."""

from __future__ import annotations

from tracebraid.analysis.antipatterns.host.allocator_retry import ALLOCATOR_RETRY
from tracebraid.analysis.antipatterns.host.data_loader import DATA_LOADER
from tracebraid.analysis.antipatterns.host.graph_break import GRAPH_BREAK
from tracebraid.analysis.antipatterns.host.recompilation import RECOMPILATION
from tracebraid.analysis.antipatterns.host.recording import RECORDING
from tracebraid.analysis.antipatterns.host.step_boundary import STEP_BOUNDARY
from tracebraid.model.questions.detector import Detector

__all__ = ["DETECTORS"]

DETECTORS: tuple[Detector, ...] = (
    DATA_LOADER,
    STEP_BOUNDARY,
    RECORDING,
    ALLOCATOR_RETRY,
    RECOMPILATION,
    GRAPH_BREAK,
)
