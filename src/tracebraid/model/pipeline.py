"""Work of a rank that stages of a pipeline do: which stage does what, and in which order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]

ALL_STAGES = -1
"""Stage of work that each does."""


class PipelineWork(Struct, frozen=True, eq=False):
    """Work of a rank by the host's time at which it is issued.

    Blocks are forward or backward passes of micro-batches, or what lies between those of two steps; they are numbered
    by time.

    Args:
        starts_ns: when intervals of the host begin, ascending, on the job's clock.
        block: the block of each interval.
        stage: the stage that does it, or `ALL_STAGES`.
        is_update: whether parameters are updated there: each stage does its share.
        micro_batch: of each block the number of its micro-batch over all steps; -1: it is no pass.
        is_forward: of each block whether it is a forward pass.
        order: of each stage the position of each block: 1F1B.
        share: of each stage its share of the parameters.
        message_bytes: what a stage gives the next one in a forward pass, and gets back in a backward pass.
        events: events of communication.
        requested: the interval in which each is requested.
        divided: whether each stage does its share of each, such as of a bucket of gradients.
    """

    starts_ns: _Ints
    block: _Ints
    stage: _Ints
    is_update: _Bools
    micro_batch: _Ints
    is_forward: _Bools
    order: _Ints
    share: tuple[float, ...] = ()
    message_bytes: int = 0
    events: _Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    requested: _Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    divided: _Bools = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    def interval_of(self, issued_ns: _Ints) -> _Ints:
        """The interval in which each work is issued; what comes before all belongs to the first."""
        return np.maximum(np.searchsorted(self.starts_ns, issued_ns, side="right") - 1, 0)


def passes_of_stage(stage: int, stages: int, micro_batches: int) -> Iterator[tuple[bool, int]]:
    """The passes of a stage in a step, in 1F1B order: whether it is a forward pass, and of which micro-batch.

    Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM (2021), 2.2.
    """
    ahead = min(stages - stage - 1, micro_batches)
    for number in range(ahead):
        yield True, number
    for number in range(ahead, micro_batches):
        yield True, number
        yield False, number - ahead
    for number in range(micro_batches - ahead, micro_batches):
        yield False, number


def positions_of_passes(stages: int, micro_batches: int) -> _Ints:
    """Of each stage the position of each pass; these are numbered as without stages, forward and backward in turn."""
    found = np.empty((stages, 2 * micro_batches), dtype=np.int64)
    for stage in range(stages):
        passes = [
            2 * number + (not forward) for forward, number in passes_of_stage(stage, stages, micro_batches)
        ]
        found[stage, passes] = np.arange(len(passes))
    return found
