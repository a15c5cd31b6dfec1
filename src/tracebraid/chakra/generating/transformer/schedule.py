"""The order of a stage's passes: one forward, one backward.

Narayanan et al., "Memory-efficient pipeline-parallel DNN training", 2021 (PipeDream-Flush): each stage runs
as many forward passes ahead as there are stages behind it, then alternates.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["passes_of_stage"]


def passes_of_stage(stage: int, stages: int, micro_batches: int) -> Iterator[tuple[bool, int]]:
    """The passes of a stage in a step, in order: whether it is a forward pass, and of which micro-batch."""
    ahead = min(stages - stage - 1, micro_batches)
    for number in range(ahead):
        yield True, number
    for number in range(ahead, micro_batches):
        yield True, number
        yield False, number - ahead
    for number in range(micro_batches - ahead, micro_batches):
        yield False, number
