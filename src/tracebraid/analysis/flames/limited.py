"""Flame graphs as a page can hold them: the greatest frames, and what is smaller as such."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.model.answers.flames import FLAME_FRAMES, FLAME_NAMES, FlameKind
from tracebraid.model.op_tree import OpTree

__all__ = ["flame_names", "limited"]


def limited(frames: pl.DataFrame, most: int) -> pl.DataFrame:
    """At most so many frames of each tree, and in each of them the smaller ones that it had as one frame.

    No time is lost: a frame of what is smaller has the total of what it stands for as its self time. Its name says how
    many frames that is, those inside them included.

    Args:
        frames: `FLAME_FRAMES` of several trees, of one rank or merged.
        most: frames of a tree that are kept.
    """
    kept = [FLAME_FRAMES.empty()]
    kept += [_of_tree(rows, most) for (_,), rows in frames.group_by(["tree"], maintain_order=True)]
    return pl.concat(kept)


def _of_tree(rows: pl.DataFrame, most: int) -> pl.DataFrame:
    if rows.height <= most:
        return rows
    # A parent has no less time than what is in it, and a smaller number: no frame is kept without its parent.
    order = rows.sort("total_ns", "frame", descending=[True, False]).get_column("frame")
    found = rows.with_columns(pl.col("frame").is_in(order.head(most).implode()).alias("kept"), _sizes(rows))
    numbers = found.filter("kept").select(
        pl.col("frame").alias("parent"), pl.int_range(pl.len()).alias("number")
    )
    found = found.join(numbers, on="parent", how="left", maintain_order="left")
    kept = found.filter("kept").with_columns(
        pl.int_range(pl.len()).alias("frame"), pl.col("number").alias("parent")
    )
    smaller = _smaller(found.filter(~pl.col("kept")), kept.height)
    return pl.concat([FLAME_FRAMES.conform(kept), FLAME_FRAMES.conform(smaller)])


def _sizes(rows: pl.DataFrame) -> pl.Series:
    """The number of frames in each frame, itself included."""
    itself = np.arange(rows.height, dtype=np.int64)
    parent = rows.get_column("parent").fill_null(-1).to_numpy()
    tree = OpTree(itself, np.where(parent < 0, itself, parent), rows.get_column("depth").to_numpy())
    return pl.Series("size", tree.sums(np.ones(rows.height, dtype=np.int64)))


def _smaller(dropped: pl.DataFrame, first: int) -> pl.DataFrame:
    """A frame for each parent that loses some: all that was in them, at any depth.

    Args:
        dropped: frames that are not kept; `number` is that of the parent among the frames that are, null without one.
        first: the number of the first new frame.
    """
    outermost = dropped.filter((pl.col("depth") == 0) | pl.col("number").is_not_null())
    return (
        outermost.group_by("number", maintain_order=True)
        .agg(pl.col("rank", "tree", "depth").first(), pl.col("total_ns", "size").sum())
        .sort("depth", "number")
        .with_columns(
            (pl.int_range(pl.len()) + first).alias("frame"),
            pl.col("number").alias("parent"),
            pl.format("({} smaller)", "size").alias("name"),
            pl.lit(FlameKind.SMALLER.value).alias("kind"),
            pl.lit(None, dtype=pl.Int64).alias("count"),
            pl.col("total_ns").alias("self_ns"),
        )
    )


def flame_names(frames: pl.DataFrame) -> pl.DataFrame:
    """The names of the frames of each tree, the most self time first: `model.answers.FLAME_NAMES`.

    Args:
        frames: `FLAME_FRAMES` of several trees, of one rank or merged.
    """
    whole = pl.col("self_ns").sum().over("tree")
    count = pl.col("count")
    found = (
        frames.group_by("tree", "name", "kind", maintain_order=True)
        .agg(
            pl.col("self_ns").sum(),
            pl.when(count.count() > 0).then(count.sum()).alias("count"),
            pl.len().alias("frames"),
        )
        .with_columns(pl.when(whole > 0).then(pl.col("self_ns") / whole).alias("share"))
    )
    return FLAME_NAMES.conform(found.sort("self_ns", "name", "kind", descending=[True, False, False]))
