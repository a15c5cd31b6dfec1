"""The ranks of a job, linked with each other: their collectives matched, their clocks aligned."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracebraid.linking.ranks.clocks.clocks import clocks_of
from tracebraid.linking.ranks.impossible import without_impossible
from tracebraid.linking.ranks.in_order import in_order
from tracebraid.linking.ranks.matching.matched import match_members
from tracebraid.model.linked_ranks import Gather, LinkedRanks, RankParts
from tracebraid.model.schema.ranks import MEMBERS, RANKS

__all__ = ["joined", "link_ranks"]


def link_ranks(parts: Sequence[RankParts]) -> LinkedRanks:
    """Link the ranks of a job with each other.

    Args:
        parts: what was kept of each rank, each rank once.
    """
    ranks = pl.concat([RANKS.empty(), *(part.facts for part in parts)]).sort("rank")
    members = pl.concat([MEMBERS.empty(), *(part.members for part in parts)]).sort(
        "rank", "start_ns", "event_id"
    )
    matched = match_members(members, ranks)
    clocks = clocks_of(matched.members, matched.collectives, ranks)
    linked = LinkedRanks(ranks, clocks, matched.members, matched.collectives, matched.findings, joined(parts))
    aligned = linked.aligned(matched.members, "issued_ns", "start_ns", "end_ns")
    aligned, collectives = in_order(*without_impossible(aligned, linked.collectives, clocks))
    return LinkedRanks(ranks, clocks, aligned, collectives, linked.findings, linked.parts)


def joined(parts: Sequence[RankParts]) -> dict[Gather, pl.DataFrame]:
    """What was gathered, of all ranks together in the order of ranks."""
    if not parts:
        return {}
    ordered = sorted(parts, key=lambda part: part.facts.item(0, "rank"))
    return {gather: pl.concat(part.gathered[gather] for part in ordered) for gather in ordered[0].gathered}
