"""Two stages of a pipeline that pass one batch forward and backward: one waits while the other computes."""

from __future__ import annotations

from tests.planted import Scene
from tests.planted.jobs import PlannedJob

_STAGE_NS = 1_200_000
SAVING_NS = (_STAGE_NS // 2, 2 * _STAGE_NS)
"""At least a quarter of what each rank waits, at most all that it waits, on both ranks."""


def planted() -> list[Scene]:
    """The ranks."""
    job = PlannedJob(2)
    job.compute(_STAGE_NS // 2, ranks=[0], name="gemm")
    job.send(0, 1)
    job.compute(_STAGE_NS, ranks=[1], name="gemm")
    job.send(1, 0)
    job.compute(_STAGE_NS // 2, ranks=[0], name="gemm")
    return job.finished()
