"""The analyses of ops."""

from __future__ import annotations

from tracebraid.analysis.ops.ops import ops
from tracebraid.model.analysis import Analysis, Family, Need
from tracebraid.model.answers import OPS

__all__ = ["ANALYSES"]

ANALYSES = (
    Analysis("ops", Family.OPS, ops, OPS, needs=(Need.HOST_OPS,), uses=(Need.DEVICE_WORK, Need.SHAPES)),
)
