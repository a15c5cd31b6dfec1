"""Wrappers that distribute a model over ranks, told by the names of their frames, annotations and ops."""

from __future__ import annotations

import polars as pl

from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions import Wrapper

_NAMES = {
    Wrapper.FSDP2: r"^FSDP::|^fsdp::|(^|/)torch/distributed/fsdp/_fully_shard/",
    Wrapper.FSDP: r"^FullyShardedDataParallel\.|(^|/)torch/distributed/fsdp/(fully_sharded_\w+|_runtime_utils)\.py",
    Wrapper.ZERO: r"ZeroRedundancyOptimizer|zero_redundancy_optimizer\.py|(^|/)deepspeed/runtime/zero/",
    Wrapper.PIPELINE: r"^(Forward|Backward) \d+$|^PP:"
    r"|(^|/)(torch/distributed/pipelining|deepspeed/runtime/pipe|pipeline_parallel)/",
    Wrapper.DDP: r"^DistributedDataParallel\.forward$|(^|/)torch/nn/parallel/distributed\.py",
}


def wrappers_of(linked: LinkedTrace) -> frozenset[Wrapper]:
    """What wraps the model of a rank."""
    names = linked.timeline.events.get_column("name").unique().cast(pl.String)
    return frozenset(wrapper for wrapper, pattern in _NAMES.items() if names.str.contains(pattern).any())
