"""Work of a device stream to the work that ran before it there."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.linking.dependencies.edges import END_TO_START, edges, no_edges
from tracebraid.linking.dependencies.moments import Moments
from tracebraid.model.expressions import as_text
from tracebraid.model.timeline import Timeline

__all__ = ["stream_order"]


def stream_order(timeline: Timeline, moments: Moments) -> pl.DataFrame:
    """From each event of a stream the last one to end there before it starts, if any.

    Where events of one stream overlap (branches of a graph's launch), none waits for the other.
    """
    if timeline.device_work.is_empty():
        return no_edges()
    work = timeline.device_work.select("event_id").join(
        timeline.events.select("event_id", "lane"), on="event_id"
    )
    event, lane = work.get_column("event_id").to_numpy(), work.get_column("lane").to_numpy()
    count = len(event)
    position = np.concatenate([moments.start_position[event], moments.end_position[event]])
    order = np.lexsort((position, np.concatenate([lane, lane])))
    is_end = order >= count
    lanes = lane[order % count]
    last_end = np.maximum.accumulate(np.where(is_end, np.arange(2 * count), -1))
    started = np.flatnonzero(~is_end & (last_end >= 0))
    before = last_end[started]
    same = lanes[before] == lanes[started]
    pairs = pl.DataFrame(
        {
            "before_event": event[order[before[same]] % count],
            "after_event": event[order[started[same]]],
            "lane": lanes[started[same]],
        }
    ).join(timeline.lanes.select("lane", "tid", "tid_text"), on="lane", how="left")
    stream = pl.coalesce(as_text("tid"), "tid_text", pl.lit("of no number"))
    return edges(pairs, "stream_order", END_TO_START, pl.format("stream {}", stream))
