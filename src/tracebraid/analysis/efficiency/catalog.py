"""The analyses of efficiency."""

from __future__ import annotations

from tracebraid.analysis.efficiency.mfu import mfu
from tracebraid.analysis.efficiency.op_costs import op_costs
from tracebraid.analysis.efficiency.recomputation import recomputation
from tracebraid.analysis.efficiency.roofline import roofline
from tracebraid.model.answers import MFU, OP_COSTS, RECOMPUTATION, ROOFLINE
from tracebraid.model.questions.analysis import Analysis, Family, Need

__all__ = ["ANALYSES"]

_SHAPES, _PEAKS, _DEVICE = Need.SHAPES_OF_EITHER, Need.DEVICE_PEAKS, Need.DEVICE_WORK

ANALYSES = (
    Analysis(
        "op_costs",
        Family.EFFICIENCY,
        op_costs,
        OP_COSTS,
        needs=(Need.HOST_OPS, _SHAPES),
        uses=(_DEVICE, _PEAKS),
    ),
    Analysis("roofline", Family.EFFICIENCY, roofline, ROOFLINE, needs=(_SHAPES, _PEAKS)),
    Analysis("mfu", Family.EFFICIENCY, mfu, MFU, needs=(Need.HOST_OPS, _SHAPES), uses=(Need.STEPS, _PEAKS)),
    Analysis(
        "recomputation",
        Family.EFFICIENCY,
        recomputation,
        RECOMPUTATION,
        needs=(Need.HOST_OPS,),
        uses=(_SHAPES, _DEVICE),
    ),
)
