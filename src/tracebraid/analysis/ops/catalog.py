"""The analyses of ops, and of what they are part of: annotations, modules, Python functions."""

from __future__ import annotations

from tracebraid.analysis.ops.annotations.annotation_kernels import annotation_kernels
from tracebraid.analysis.ops.annotations.user_annotations import user_annotations
from tracebraid.analysis.ops.modules.modules import modules
from tracebraid.analysis.ops.ops import ops
from tracebraid.analysis.ops.python_frames import python_frames
from tracebraid.model.answers import ANNOTATION_KERNELS, MODULES, OPS, PYTHON_FRAMES, USER_ANNOTATIONS
from tracebraid.model.questions.analysis import Analysis, Family, Need

__all__ = ["ANALYSES"]

_HOST, _DEVICE = Need.HOST_OPS, Need.DEVICE_WORK

ANALYSES = (
    Analysis("ops", Family.OPS, ops, OPS, needs=(_HOST,), uses=(_DEVICE, Need.SHAPES)),
    Analysis(
        "user_annotations",
        Family.OPS,
        user_annotations,
        USER_ANNOTATIONS,
        needs=(Need.ANNOTATIONS,),
        uses=(_DEVICE,),
    ),
    Analysis(
        "annotation_kernels",
        Family.OPS,
        annotation_kernels,
        ANNOTATION_KERNELS,
        needs=(_DEVICE,),
        uses=(Need.ANNOTATIONS,),
    ),
    Analysis("modules", Family.OPS, modules, MODULES, needs=(Need.MODULES,), uses=(_DEVICE,)),
    Analysis(
        "python_frames", Family.OPS, python_frames, PYTHON_FRAMES, needs=(Need.STACKS,), uses=(_DEVICE,)
    ),
)
