"""A flame graph in the order of its stacks: each frame before those in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.op_tree import OpTree

__all__ = ["Walk", "walk_of"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Walk:
    """A walk through a tree.

    Args:
        order: its rows, parents before children.
        first: for each row its number in that order.
        size: for each row the number of frames in it, itself included.
    """

    order: _Ints
    first: _Ints
    size: _Ints


def walk_of(frames: pl.DataFrame) -> Walk:
    """The walk through the frames of a tree, siblings by total time.

    Args:
        frames: `FLAME_FRAMES` of a single tree and rank, in order.
    """
    itself = np.arange(frames.height, dtype=np.int64)
    parent = frames.get_column("parent").fill_null(-1).to_numpy()
    tree = OpTree(itself, np.where(parent < 0, itself, parent), frames.get_column("depth").to_numpy())
    first, last = tree.spans
    return Walk(np.argsort(first, kind="stable"), first, last - first)
