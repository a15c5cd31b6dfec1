"""Two stages of a pipeline of which the second takes four times as long as the first."""

from __future__ import annotations

from tests.planted import Scene
from tests.planted.jobs import PlannedJob

_ROUNDS, _FAST_NS, _SLOW_NS = 4, 100_000, 400_000
_TENSORS = 2
"""What stages exchange counts as a microbatch each: enough of them for two stages."""
SAVING_NS = (_ROUNDS * (_SLOW_NS - _FAST_NS) // 4, _ROUNDS * (_SLOW_NS + _FAST_NS))
"""At least what the slow stage is above the mean in a schedule without bubbles, at most all of the time."""


def planted() -> list[Scene]:
    """The ranks."""
    job = PlannedJob(2)
    for _ in range(_ROUNDS):
        job.compute(_FAST_NS, ranks=[0], name="gemm")
        for _ in range(_TENSORS):
            job.send(0, 1)
        job.compute(_SLOW_NS, ranks=[1], name="gemm")
        for _ in range(_TENSORS):
            job.send(1, 0)
    return job.finished()
