"""A later step compiles for a new shape."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.training_loop import training_loop

_COMPILE_NS = 200_000_000
_STEP = 3
SAVING_NS = 150_000_000, _COMPILE_NS


def planted() -> Scene:
    """The first step compiles, as is usual, and so does a later one."""
    return training_loop(_compile)


def _compile(host: Thread, _: Stream, number: int) -> None:
    if number in (1, _STEP):
        with host.annotation("_compile.compile_inner (dynamo_timed)"):
            host.spend(_COMPILE_NS)
