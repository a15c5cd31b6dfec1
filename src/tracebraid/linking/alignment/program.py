"""Is it the same program?"""

from __future__ import annotations

import hashlib

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.linking.alignment.op_sequences import OpSequence

__all__ = ["depths_of", "program_of"]


def depths_of(parent: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many rows are around each row, in as many passes as the largest number has bits.

    Args:
        parent: the row around each row, -1 where there is none; no row is its own ancestor.
    """
    depth = (parent >= 0).astype(np.int64)
    ancestor = parent
    # Pointers are doubled: after k passes each row knows its 2^k nearest ancestors.
    while len(rows := np.flatnonzero(ancestor >= 0)):
        above = ancestor[rows]
        depth[rows], ancestor = depth[rows] + depth[above], ancestor.copy()
        ancestor[rows] = ancestor[above]
    return depth


_DIGITS = 16
"""Hexadecimal digits of a hash: 64 bits, so that no two of a million programs have one by chance (birthday bound)."""


def program_of(sequence: OpSequence) -> str:
    """A hash of the op trees of all threads: names and nesting in order; numbers of annotations do not count.

    Two traces with the same hash hold the same program, whatever their threads are called.
    """
    rows = sequence.rows.with_row_index("row")
    enclosing = rows.select("parent").join(
        rows.select("id", pl.col("row").cast(pl.Int64)),
        left_on="parent",
        right_on="id",
        how="left",
        maintain_order="left",
    )
    parent = enclosing.get_column("row").fill_null(-1).to_numpy()
    lines = rows.select(
        "thread", pl.format("{} {}", pl.Series("depth", depths_of(parent)), "name").alias("line")
    )
    trees = lines.group_by("thread").agg(pl.col("line").str.join("\n"))
    threads = sorted(hashlib.sha256(tree.encode()).hexdigest() for tree in trees.get_column("line"))
    return hashlib.sha256("".join(threads).encode()).hexdigest()[:_DIGITS]
