"""Number, host and clock of each rank."""

from __future__ import annotations

import polars as pl

from tracebraid.model.analysis import Family, Need, OnPage, job_analysis
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.printable import encodable
from tracebraid.model.process import process_of_timeline
from tracebraid.model.schema.links import CLOCKS, RANKS


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
        "path": encodable(timeline.path),
    }
    return pl.DataFrame([row], schema=RANKS.polars_schema())


@job_analysis(
    CLOCKS,
    Family.RANKS,
    needs=(Need.SEVERAL_RANKS, Need.COMMUNICATION),
    shown=(
        "host method offset_ns! offset_low_ns offset_high_ns drift_ppm! drift_low_ppm drift_high_ppm "
        "collectives"
    ),
    formula=(
        "Offset and drift from the ends of the collectives that ranks share; the interval from the fact "
        "that none ends before all have begun."
    ),
    on_page=OnPage(),
)
def clocks(ranks: LinkedRanks) -> pl.DataFrame:
    """How far apart are the clocks of the ranks?

    The offset and drift of each rank's clock: `CLOCKS`.

    Args:
        ranks: the ranks of a job.
    """
    return CLOCKS.conform(ranks.clocks)
