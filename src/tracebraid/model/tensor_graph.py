"""`TensorGraph`: the tensor nodes of an Execution Trace and the edges through them."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

__all__ = ["TensorGraph", "devices_of"]


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


def devices_of(tensors: pl.DataFrame) -> frozenset[str]:
    """The names of the devices that tensors, or their uses, lie on: the column `device`."""
    return frozenset(tensors.get_column("device").unique().drop_nulls().cast(pl.String))
