"""Four ranks of which one begins each collective later than its work explains, and all others wait for it."""

from __future__ import annotations

from tests.planted import Scene
from tests.planted.jobs import PlannedJob

_RANKS, _ROUNDS, _NS, _LATE_NS = 4, 3, 1_000_000, 400_000
SAVING_NS = (_ROUNDS * _LATE_NS * 9 // 10, _ROUNDS * (_LATE_NS + _NS // 10))


def planted() -> list[Scene]:
    """The ranks."""
    job = PlannedJob(_RANKS)
    for _ in range(_ROUNDS):
        job.compute(_NS, name="gemm")
        job.collective(nelems=1024 * 1024, skew={2: _LATE_NS})
    return job.finished()
