"""The frames of the flame graphs of a report: of each rank, and merged over ranks."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from tracebraid.analysis.flames.flame_frames import flame_frames, merged_ranks
from tracebraid.analysis.flames.limited import flame_names, limited
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.report.flame_views import FLAME_FRAMES_VIEW, FLAME_NAMES_VIEW
from tracebraid.model.step import PROFILER_STEP

__all__ = ["FRAMES_ON_PAGE", "NAMES_ON_PAGE", "flames_of_rank", "flames_of_ranks"]

FRAMES_ON_PAGE = 4_000
"""Frames of a tree that a page draws: more are narrower than a pixel; beside these each may have one of what is
smaller."""
NAMES_ON_PAGE = 200
"""Names of a tree in the table beside the graph."""


def flames_of_rank(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> Mapping[str, pl.DataFrame]:
    """What is taken of a rank, by its name in `RunResults.views`.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    return {FLAME_FRAMES_VIEW: flame_frames(linked, annotation)}


def flames_of_ranks(frames: pl.DataFrame) -> Mapping[str, pl.DataFrame]:
    """What a page shows, by its name in `RunResults.views`: the greatest frames of all ranks, and the names of all.

    Args:
        frames: `FLAME_FRAMES` of several ranks.
    """
    merged = merged_ranks([rows for _, rows in frames.group_by(["rank"], maintain_order=True)])
    names = flame_names(merged).filter(pl.int_range(pl.len()).over("tree") < NAMES_ON_PAGE)
    return {FLAME_FRAMES_VIEW: limited(merged, FRAMES_ON_PAGE), FLAME_NAMES_VIEW: names}
