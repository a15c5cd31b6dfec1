"""The detectors of waits of the host for the device."""

from __future__ import annotations

from tracebraid.analysis.antipatterns.syncs.explicit_sync import EXPLICIT_SYNC
from tracebraid.analysis.antipatterns.syncs.item_sync import ITEM_SYNC
from tracebraid.analysis.antipatterns.syncs.read_sync import READ_SYNC
from tracebraid.analysis.antipatterns.syncs.size_sync import SIZE_SYNC
from tracebraid.model.questions.detector import Detector

__all__ = ["DETECTORS"]

DETECTORS: tuple[Detector, ...] = (
    ITEM_SYNC,
    SIZE_SYNC,
    READ_SYNC,
    EXPLICIT_SYNC,
)
