"""A rank's times on the clock of the job's reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from tracebraid.analysis.collectives.members.members import members
from tracebraid.api.job.taking import facts_of_rank, gathering
from tracebraid.linking.ranks.link_ranks import link_ranks
from tracebraid.model.linked_ranks import Gather, LinkedRanks, RankParts
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["linked_parts", "on_reference_clock", "rank_parts"]


def rank_parts(
    linked: LinkedTrace,
    annotation: str = PROFILER_STEP,
    gathered: Mapping[Gather, pl.DataFrame] | None = None,
) -> RankParts:
    """What is kept of a rank, to link it with the others.

    Args:
        linked: one rank.
        annotation: what marks a step.
        gathered: what else was taken of it.
    """
    kept = {gather: linked.compacted(frame) for gather, frame in (gathered or {}).items()}
    own_members = gathering(members, annotation)(linked)
    return RankParts(linked.compacted(facts_of_rank(linked)), linked.compacted(own_members), kept)


def linked_parts(parts: Sequence[RankParts]) -> LinkedRanks:
    """The ranks linked with each other, each rank once."""
    return link_ranks(parts)


def on_reference_clock(linked: LinkedTrace, ranks: LinkedRanks) -> LinkedTrace:
    """The linked trace with its events' starts on the clock of the reference; as it is where its clock is unknown.

    Durations are as the rank's own clock has them, to which a drift of 100 ppm adds 0.1 µs for each ms.

    Args:
        linked: a rank.
        ranks: the ranks of the job, linked with each other.
    """
    timeline = linked.timeline
    own = timeline.events.with_columns(pl.lit(linked.rank, dtype=pl.Int64).alias("rank"))
    events = ranks.aligned(own, "ts_ns").select(timeline.events.columns)
    return LinkedTrace(replace(timeline, tables={**timeline.tables, "events": events}), linked.stages)
