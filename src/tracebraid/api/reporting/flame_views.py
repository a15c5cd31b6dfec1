"""The frames of the flame graphs of a report: of each rank, and merged over ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from tracebraid.analysis.flames.flame_frames import flame_frames, merged_ranks
from tracebraid.analysis.flames.limited import flame_names, limited
from tracebraid.model.answers import FLAME_FRAMES
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.report.flame_views import FLAME_FRAMES_VIEW, FLAME_NAMES_VIEW
from tracebraid.model.report.run_results import RunResults

if TYPE_CHECKING:
    from tracebraid.api.reporting.view_options import ViewOptions

__all__ = ["FRAMES_ON_PAGE", "NAMES_ON_PAGE", "flames_of_rank", "flames_of_ranks", "frames_on_page"]

FRAMES_ON_PAGE = 4_000
"""Frames of a tree that a page draws: more are narrower than a pixel; beside these each may have one of what is
smaller."""
NAMES_ON_PAGE = 200
"""Names of a tree in the table beside the graph."""


def flames_of_rank(linked: LinkedTrace, options: ViewOptions) -> Mapping[str, pl.DataFrame]:
    """What is taken of a rank, over all of its steps and what is in none, by its name in `RunResults.views`."""
    return {FLAME_FRAMES_VIEW: flame_frames(linked, options.annotation)}


def flames_of_ranks(results: RunResults, ranks: LinkedRanks) -> Mapping[str, pl.DataFrame]:
    """What a page shows: the greatest frames of all detailed ranks, merged, and the names of all of them."""
    return frames_on_page(results.views.get(FLAME_FRAMES_VIEW, FLAME_FRAMES.empty()))


def frames_on_page(frames: pl.DataFrame) -> Mapping[str, pl.DataFrame]:
    """The greatest frames, merged over ranks, and the names of all, by their names in `RunResults.views`.

    Args:
        frames: `FLAME_FRAMES` of several ranks.
    """
    merged = merged_ranks([rows for _, rows in frames.group_by(["rank"], maintain_order=True)])
    names = flame_names(merged)
    first = names.filter(pl.int_range(pl.len()).over("tree") < NAMES_ON_PAGE)
    return {FLAME_FRAMES_VIEW: limited(merged, FRAMES_ON_PAGE), FLAME_NAMES_VIEW: first}
