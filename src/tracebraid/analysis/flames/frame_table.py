"""Merged stacks as a table of frames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.flames.stack_paths import stack_paths
from tracebraid.model.answers.flames import FLAME_FRAMES, FlameTree
from tracebraid.model.op_tree import OpTree

__all__ = ["Stacks", "frame_table"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Stacks:
    """Rows that are stacked on each other, before they are merged.

    Args:
        tree: what their times are.
        parent: the row of each row's parent; -1 where it has none.
        names: `name` and `kind` of each row.
        self_ns: time of each row alone.
        count: how many events each row stands for; null: unknown.
        counts: whether a row is wanted, and with it the rows that it is in.
    """

    tree: FlameTree
    parent: _Ints
    names: pl.DataFrame
    self_ns: _Ints
    count: pl.Series
    counts: NDArray[np.bool_]


def frame_table(stacks: Stacks, rank: int | None) -> pl.DataFrame:
    """The frames of a tree: `model.answers.FLAME_FRAMES`.

    Args:
        stacks: the rows.
        rank: the rank; None for several.
    """
    codes, names = _coded(stacks.names)
    paths = stack_paths(stacks.parent, codes)
    frames = len(paths.parent)
    self_ns, wanted = (np.zeros(frames, dtype=np.int64) for _ in range(2))
    np.add.at(self_ns, paths.path, stacks.self_ns)
    np.add.at(wanted, paths.path, stacks.counts.astype(np.int64))
    itself = np.arange(frames, dtype=np.int64)
    tree = OpTree(itself, np.where(paths.parent < 0, itself, paths.parent), paths.depth)
    total = pl.col("count").sum()
    counts = (
        pl.DataFrame({"frame": paths.path, "count": stacks.count})
        .group_by("frame")
        .agg(pl.when(pl.col("count").count() > 0).then(total).alias("count"))
    )
    found = (
        names[paths.name]
        .with_columns(
            pl.lit(rank, dtype=pl.Int64).alias("rank"),
            pl.lit(stacks.tree.value).alias("tree"),
            pl.Series("frame", itself),
            pl.Series("parent", paths.parent),
            pl.Series("depth", paths.depth),
            pl.Series("self_ns", self_ns),
            pl.Series("total_ns", tree.sums(self_ns)),
            pl.Series("wanted", tree.sums(wanted)),
        )
        .join(counts, on="frame", how="left", maintain_order="left")
        .filter(pl.col("wanted") > 0)
    )
    return FLAME_FRAMES.conform(_numbered(found))


def _coded(names: pl.DataFrame) -> tuple[_Ints, pl.DataFrame]:
    """The number of each row's name and kind, in the order of their texts, and the names by number."""
    unique = names.unique().sort("name", "kind").with_row_index("code")
    codes = names.join(unique, on=["name", "kind"], how="left", maintain_order="left").get_column("code")
    return codes.cast(pl.Int64).to_numpy(), unique.drop("code")


def _numbered(frames: pl.DataFrame) -> pl.DataFrame:
    """Frames by depth, siblings by total time, numbered anew."""
    ordered = frames.sort(
        "depth", "total_ns", "name", "kind", "frame", descending=[False, True, False, False, False]
    )
    before = ordered.get_column("frame").to_numpy()
    # The last number stands for no parent, -1.
    number = np.full(int(before.max(initial=0)) + 2, -1, dtype=np.int64)
    number[before] = np.arange(ordered.height)
    parent = pl.Series(number[ordered.get_column("parent").to_numpy()])
    return ordered.with_columns(
        pl.Series("frame", np.arange(ordered.height, dtype=np.int64)),
        pl.when(parent >= 0).then(parent).alias("parent"),
    )
