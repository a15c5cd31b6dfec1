"""How long does each node's op take over all iterations?"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.linking.alignment.intervals import Interval
from tracebraid.linking.alignment.sequences import NONE, align
from tracebraid.model.schema import NODE_TIMES
from tracebraid.model.timeline import Timeline

__all__ = ["node_times"]

_Ints = NDArray[np.int64]


def node_times(interval: Interval, pairs: pl.DataFrame, timeline: Timeline) -> pl.DataFrame:
    """The table `node_times`, by aligning every iteration with the one that was matched, thread by thread.

    Args:
        interval: one iteration of a longer Kineto trace.
        pairs: `node_id` and `event_id` of that iteration.
        timeline: the Kineto trace.
    """
    if interval.longer is None or interval.of_row is None or interval.count != 1:
        return NODE_TIMES.empty()
    rows = interval.longer.rows.with_columns(
        pl.Series("iteration", interval.of_row), pl.col("name").rank("dense").cast(pl.Int64).alias("code")
    ).join(
        pairs.select(pl.col("event_id").alias("id"), "node_id"), on="id", how="left", maintain_order="left"
    )
    found = [
        _of_thread(thread, interval.chosen) for thread in rows.partition_by("thread", maintain_order=True)
    ]
    duration = pl.col("dur_ns")
    return (
        pl.concat(found)
        .join(timeline.events.select("event_id", "dur_ns"), on="event_id")
        .group_by("node_id")
        .agg(
            pl.len().alias("iterations"),
            duration.min().alias("min_ns"),
            duration.median().alias("median_ns"),
            duration.mean().alias("mean_ns"),
            duration.max().alias("max_ns"),
            duration.std().alias("std_ns"),
        )
        .pipe(NODE_TIMES.conform)
        .sort("node_id")
    )


def _of_thread(thread: pl.DataFrame, chosen: int) -> pl.DataFrame:
    """The events of all iterations by node: of each iteration those at the positions of the matched one's."""
    iterations = {int(key[0]): part for key, part in thread.partition_by("iteration", as_dict=True).items()}
    matched = iterations.get(chosen, thread.clear())
    codes = matched.get_column("code").to_numpy()
    nodes = matched.get_column("node_id").fill_null(NONE).to_numpy()
    events: list[_Ints] = [np.empty(0, np.int64)]
    of_nodes: list[_Ints] = [np.empty(0, np.int64)]
    for number, part in iterations.items():
        if number < 0:
            continue
        there = align(codes, part.get_column("code").to_numpy()).unambiguous
        both = (there != NONE) & (nodes != NONE)
        events.append(part.get_column("id").to_numpy()[there[both]])
        of_nodes.append(nodes[both])
    return pl.DataFrame({"node_id": np.concatenate(of_nodes), "event_id": np.concatenate(events)})
