"""Which rank is this, on which host?"""

from __future__ import annotations

import polars as pl

from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.process import process_of_timeline
from tracebraid.model.schema.ranks import RANKS

__all__ = ["rank_facts"]


def rank_facts(linked: LinkedTrace) -> pl.DataFrame:
    """The row of `RANKS` of a rank."""
    timeline = linked.timeline
    process = process_of_timeline(timeline)
    start, end = timeline.span_ns or (None, None)
    row = {
        "rank": linked.rank,
        "host": process.host or None,
        "process_id": min(process.pids) if len(process.pids) == 1 else None,
        "world_size": timeline.world_size,
        "groups": timeline.process_groups.height,
        "start_ns": start,
        "end_ns": end,
        "path": timeline.path,
    }
    return pl.DataFrame([row], schema=RANKS.polars_schema())
