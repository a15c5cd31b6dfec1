"""Is it the same program?"""

from __future__ import annotations

import hashlib

import numpy as np
import polars as pl

from tracebraid.linking.alignment.op_sequences import OpSequence

__all__ = ["program_of"]

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
    depth = np.zeros(len(parent), dtype=np.int64)
    at = parent
    while np.any(at >= 0):
        depth += at >= 0
        at = np.where(at >= 0, parent[np.maximum(at, 0)], -1)
    lines = rows.select("thread", pl.format("{} {}", pl.Series("depth", depth), "name").alias("line"))
    trees = lines.group_by("thread").agg(pl.col("line").str.join("\n"))
    threads = sorted(hashlib.sha256(tree.encode()).hexdigest() for tree in trees.get_column("line"))
    return hashlib.sha256("".join(threads).encode()).hexdigest()[:_DIGITS]
