"""All analyses, in the order in which they are listed."""

from __future__ import annotations

from tracebraid.analysis.efficiency.catalog import ANALYSES as EFFICIENCY
from tracebraid.analysis.inference.catalog import ANALYSES as INFERENCE
from tracebraid.analysis.kernels.catalog import ANALYSES as KERNELS
from tracebraid.analysis.launches.catalog import ANALYSES as LAUNCHES
from tracebraid.analysis.memory.catalog import ANALYSES as MEMORY
from tracebraid.analysis.ops.catalog import ANALYSES as OPS
from tracebraid.analysis.time.catalog import ANALYSES as TIME
from tracebraid.analysis.validity.catalog import ANALYSES as VALIDITY
from tracebraid.model.questions.analysis import Analysis

__all__ = ["ANALYSES"]

ANALYSES: tuple[Analysis, ...] = (
    *VALIDITY,
    *TIME,
    *KERNELS,
    *OPS,
    *LAUNCHES,
    *EFFICIENCY,
    *MEMORY,
    *INFERENCE,
)
