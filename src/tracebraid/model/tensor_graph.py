"""`TensorGraph`: the tensor nodes of an Execution Trace and the edges through them."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

__all__ = ["TensorGraph"]


@dataclass(frozen=True)
class TensorGraph:
    """Tensor nodes, their uses, and the edges through them.

    Args:
        tensors: tensor nodes, see `model.schema.ET_TENSORS`.
        uses: which node takes or gives which tensor, see `model.schema.ET_TENSOR_USES`.
        edges: producer to consumer, see `model.schema.ET_TENSOR_EDGES`.
    """

    tensors: pl.DataFrame
    uses: pl.DataFrame
    edges: pl.DataFrame
