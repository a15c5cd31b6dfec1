"""What linking found to depend on each other, as edges between moments."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.graph.activities import RankActivities
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.codes import EdgeKind
from tracebraid.model.graph.rank_graph import EdgeList, moment

__all__ = ["dependency_edges"]

_KINDS = {
    "launch": EdgeKind.LAUNCH,
    "stream_order": EdgeKind.STREAM_ORDER,
    "event_wait": EdgeKind.EVENT_WAIT,
    "sync": EdgeKind.SYNC,
    "inter_thread": EdgeKind.THREAD,
    "forward_backward": EdgeKind.FORWARD_BACKWARD,
}
_END = "end"


def dependency_edges(dependencies: pl.DataFrame, activities: RankActivities) -> EdgeList:
    """The dependencies of a linked trace as edges without work.

    Args:
        dependencies: `DEPENDENCIES`.
        activities: of the same rank.
    """
    kinds = {kind: int(code) for kind, code in _KINDS.items()}
    codes = dependencies.select(
        as_text("kind").replace_strict(kinds, default=None, return_dtype=pl.UInt8)
    ).to_series()
    before, after = (_moments(dependencies, point, activities) for point in ("before", "after"))
    known = codes.is_not_null().to_numpy() & (before >= 0) & (after >= 0)
    found = EdgeList(
        before, after, np.zeros(len(before), dtype=np.int64), codes.fill_null(0).to_numpy(), after // 2
    )
    return found[known]


def _moments(dependencies: pl.DataFrame, which: str, activities: RankActivities) -> NDArray[np.int64]:
    activity = activities.of_event[dependencies.get_column(f"{which}_event").to_numpy()]
    is_end = dependencies.select(as_text(f"{which}_moment") == _END).to_series().to_numpy()
    return np.where(activity < 0, -1, moment(activity, is_end.astype(np.int64)))
