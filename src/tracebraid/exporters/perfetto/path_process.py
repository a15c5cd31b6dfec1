"""A critical path as a process of a timeline: its segments on a track of their own."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.exporters.perfetto.args import args_of_frame
from tracebraid.exporters.perfetto.content import Lane, Process, Slices
from tracebraid.exporters.perfetto.numbering import numbered
from tracebraid.model.graph.critical_path import CriticalPath

__all__ = ["path_process"]

_NAME = "critical path"
_BEFORE_ALL_RANKS = -1
_ARGS = (
    *("step", "order", "rank", "thread", "stream", "kind", "family", "op", "module", "node_id", "shapes"),
    *("work_ns", "residual_ns", "residual"),
)
_JSON = ("shapes",)


def path_process(path: CriticalPath, number: int) -> Process | None:
    """The segments of all steps, of which each begins where the one before it ends; None where there are none.

    Args:
        path: the critical path.
        number: the place of the process among all.
    """
    if path.segments.is_empty():
        return None
    segments = path.segments.sort("start_ns", "duration_ns", "order", descending=[False, True, False])
    count = segments.height
    args = segments.select(_ARGS).with_row_index("event_id")
    slices = Slices(
        np.zeros(count, dtype=np.int64),
        segments.get_column("start_ns").to_numpy(),
        segments.get_column("duration_ns").to_numpy(),
        np.zeros(count, dtype=np.bool_),
        numbered(segments.get_column("name").cast(pl.String).fill_null("")),
        numbered(segments.get_column("kind")),
        args_of_frame(args, np.arange(count), _JSON),
    )
    return Process(number, _NAME, (), [Lane(_NAME)], slices, order=_BEFORE_ALL_RANKS)
