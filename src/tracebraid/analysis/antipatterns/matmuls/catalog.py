"""The detectors of anti-patterns of matrix products."""

from __future__ import annotations

from tracebraid.analysis.antipatterns.matmuls import (
    eager_attention,
    full_precision_products,
    tiny_products,
    unaligned_products,
)
from tracebraid.model.questions.detector import Detector

__all__ = ["DETECTORS"]

DETECTORS: tuple[Detector, ...] = (
    tiny_products.DETECTOR,
    unaligned_products.DETECTOR,
    full_precision_products.DETECTOR,
    eager_attention.DETECTOR,
)
