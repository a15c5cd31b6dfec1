"""In which stacks of ops, functions and modules is the time of the host and the device spent?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tracebraid.analysis.flames.device_stacks import device_stacks
from tracebraid.analysis.flames.frame_table import Stacks, frame_table
from tracebraid.analysis.flames.host_stacks import host_stacks
from tracebraid.analysis.flames.module_stacks import module_stacks
from tracebraid.model.answers.flames import FLAME_FRAMES, FlameTree
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["flame_frames", "merged_ranks"]


def flame_frames(
    linked: LinkedTrace, annotation: str = PROFILER_STEP, step: str | None = None
) -> pl.DataFrame:
    """The frames of the flame graphs of a rank, tree by tree: `model.answers.FLAME_FRAMES`.

    Every host event's own time is in the self time of exactly one frame, and so is every device event's duration, once
    by its launching stack and once by its module. Work of several threads or streams at once counts for each.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.
        step: the name of the step: only host events that start in it, and device events launched in it; None: all.
    """
    stacks = [
        host_stacks(linked, annotation, step),
        device_stacks(linked, annotation, step),
        *module_stacks(linked, annotation, step),
    ]
    return pl.concat([FLAME_FRAMES.empty(), *(frame_table(tree, linked.rank) for tree in stacks)])


def merged_ranks(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The frames of several ranks merged, as those of one rank are: `model.answers.FLAME_FRAMES`.

    Args:
        frames: `flame_frames` of each rank.
    """
    merged = [FLAME_FRAMES.empty()]
    for tree in FlameTree:
        own = [rows for some in frames if not (rows := some.filter(tree=tree.value)).is_empty()]
        if own:
            merged.append(frame_table(_stacked(tree, own), None))
    return pl.concat(merged)


def _stacked(tree: FlameTree, frames: Sequence[pl.DataFrame]) -> Stacks:
    offset = np.cumsum([0, *(rows.height for rows in frames[:-1])])
    parents = [
        rows.select((pl.col("parent") + int(first)).fill_null(-1)).to_series().to_numpy()
        for rows, first in zip(frames, offset, strict=True)
    ]
    rows = pl.concat(frames)
    return Stacks(
        tree,
        np.concatenate(parents),
        rows.select("name", "kind"),
        rows.get_column("self_ns").to_numpy(),
        rows.get_column("count"),
        np.ones(rows.height, dtype=np.bool_),
    )
