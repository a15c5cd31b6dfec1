"""The analyses of kernels and other work of devices."""

from __future__ import annotations

from tracebraid.analysis.kernels.graphs.graph_kernels import graph_kernels
from tracebraid.analysis.kernels.kernel_durations import kernel_durations
from tracebraid.analysis.kernels.kernel_families import kernel_families
from tracebraid.analysis.kernels.kernel_pace import kernel_pace
from tracebraid.analysis.kernels.kernels import kernels
from tracebraid.analysis.kernels.kernels_by_op import kernels_by_op
from tracebraid.analysis.kernels.launchers import launchers
from tracebraid.analysis.kernels.sequences.kernel_sequences import kernel_sequences
from tracebraid.analysis.kernels.sequences.op_kernel_sequences import op_kernel_sequences
from tracebraid.analysis.kernels.short_kernels import short_kernels
from tracebraid.model.answers import (
    GRAPH_KERNELS,
    KERNEL_DURATIONS,
    KERNEL_FAMILIES,
    KERNEL_PACE,
    KERNEL_SEQUENCES,
    KERNELS,
    KERNELS_BY_OP,
    LAUNCHERS,
    OP_KERNEL_SEQUENCES,
    SHORT_KERNELS,
)
from tracebraid.model.questions.analysis import Analysis, Family, Need

__all__ = ["ANALYSES"]

_OF, _WORK, _OPS = Family.KERNELS, (Need.DEVICE_WORK,), (Need.HOST_OPS,)

ANALYSES = (
    Analysis("kernels", _OF, kernels, KERNELS, needs=_WORK),
    Analysis("kernel_families", _OF, kernel_families, KERNEL_FAMILIES, needs=_WORK, uses=_OPS),
    Analysis("kernels_by_op", _OF, kernels_by_op, KERNELS_BY_OP, needs=_WORK, uses=_OPS),
    Analysis("launchers", _OF, launchers, LAUNCHERS, needs=_WORK),
    Analysis("short_kernels", _OF, short_kernels, SHORT_KERNELS, needs=_WORK),
    Analysis("kernel_durations", _OF, kernel_durations, KERNEL_DURATIONS, needs=_WORK),
    Analysis("kernel_pace", _OF, kernel_pace, KERNEL_PACE, needs=_WORK),
    Analysis("kernel_sequences", _OF, kernel_sequences, KERNEL_SEQUENCES, needs=_WORK, uses=_OPS),
    Analysis("op_kernel_sequences", _OF, op_kernel_sequences, OP_KERNEL_SEQUENCES, needs=(*_WORK, *_OPS)),
    Analysis("graph_kernels", _OF, graph_kernels, GRAPH_KERNELS, needs=(Need.GRAPH_LAUNCHES,), uses=_OPS),
)
