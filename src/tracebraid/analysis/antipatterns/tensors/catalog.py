"""The detectors of anti-patterns of copies, optimizers and activations."""

from __future__ import annotations

from tracebraid.analysis.antipatterns.tensors import (
    costly_recomputation,
    dtype_bounces,
    layout_copies,
    stored_activations,
    unfused_optimizer,
)
from tracebraid.model.questions.detector import Detector

__all__ = ["DETECTORS"]

DETECTORS: tuple[Detector, ...] = (
    dtype_bounces.DETECTOR,
    layout_copies.DETECTOR,
    unfused_optimizer.DETECTOR,
    costly_recomputation.DETECTOR,
    stored_activations.DETECTOR,
)
