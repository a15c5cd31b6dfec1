"""Four ranks of which the last computes five times as much as the others, and all of them wait for it."""

from __future__ import annotations

from tests.planted import Scene
from tests.planted.jobs import PlannedJob

_RANKS, _ROUNDS, _NS, _MORE_NS = 4, 3, 100_000, 400_000
_BALANCED = _ROUNDS * (_MORE_NS - _MORE_NS // _RANKS)
SAVING_NS = (_BALANCED * 9 // 10, _BALANCED * 11 // 10)


def planted() -> list[Scene]:
    """The ranks."""
    job = PlannedJob(_RANKS)
    for _ in range(_ROUNDS):
        job.compute(_NS, name="gemm")
        job.compute(_MORE_NS, ranks=[_RANKS - 1], name="gemm")
        job.collective(nelems=1024 * 1024)
    return job.finished()
