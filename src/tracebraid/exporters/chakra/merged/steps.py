"""The step of each node of a rank with one compute lane."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.exporters.chakra.merged.lane import Lane
from tracebraid.exporters.chakra.merged.nodes import Ordered
from tracebraid.exporters.chakra.nodes.step_marks import step_marks
from tracebraid.exporters.chakra.nodes.tasks import NONE
from tracebraid.model.graph.rank_graph import RankGraph

__all__ = ["steps_of"]


def steps_of(graph: RankGraph, lane: Lane, nodes: Ordered, issued: pl.Series) -> pl.Series:
    """The step of each node: of device work, of communication and of delays before these that in which it was issued.

    All else is of the step in which it ends, and so are delays before what was issued in none. What lies between two
    steps is of the second: the time of a step is counted from the end of the one before it.

    Args:
        graph: of one rank.
        lane: its lane.
        nodes: its nodes.
        issued: of each node the step in which its activity was issued.
    """
    stream = np.r_[graph.activities.get_column("stream").is_not_null().to_numpy(), False]
    before_work = (lane.moment != NONE) & stream[lane.moment // 2]
    on_device = np.where(lane.activity != NONE, stream[lane.activity], before_work)
    by_time = (nodes.issued == NONE) & ~np.r_[on_device, False][nodes.entry]
    is_delay = np.r_[lane.activity, 0][nodes.entry] == NONE
    by_time |= is_delay & issued.is_null().to_numpy()
    end_ns = np.r_[lane.end_ns, NONE][nodes.entry]
    marks = step_marks(graph).sort("end_ns", maintain_order=True)
    row = np.searchsorted(marks.get_column("end_ns").to_numpy(), end_ns, side="left")
    is_before = end_ns <= marks.get_column("start_ns").to_numpy().min(initial=np.iinfo(np.int64).max)
    names = np.array([*marks.get_column("step").to_list(), None], dtype=object)
    found = np.where(by_time, names[np.where(is_before, -1, row)], issued.cast(pl.String).to_numpy())
    steps: pl.Series = pl.Series("step", found.tolist(), dtype=pl.String).cast(issued.dtype)
    return steps
