"""What does this rank communicate: its part in each collective, send and receive?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.time.collective_events import collective_events
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.schema.ranks import MEMBERS
from tracebraid.model.step import PROFILER_STEP

__all__ = ["members"]


def members(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """The rank's rows of `MEMBERS`, on its own clock, not matched.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    return linked.derived(_members, annotation)


def _members(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    events = collective_events(linked).filter("counts")
    collectives = linked.timeline.collectives.select(
        "event_id",
        "pg_ranks",
        "group_size",
        "sequence",
        pl.col("comms_id").alias("communicator"),
    )
    found = events.join(collectives, on="event_id", how="left", maintain_order="left").with_columns(
        pl.lit(linked.rank, dtype=pl.Int64).alias("rank"),
        pl.col("pg_ranks").alias("group_ranks"),
        pl.col("message_bytes").alias("in_bytes"),
        pl.col("start_ns") if "start_ns" in events.columns else pl.col("ts_ns").alias("start_ns"),
    )
    steps = step_of_moments(found.select("ts_ns"), step_windows(linked, annotation)).get_column("step")
    return MEMBERS.conform(found.with_columns(steps), fill_missing=True)
