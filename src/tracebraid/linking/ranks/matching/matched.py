"""The members of all ranks, each with the collective that it is of."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracebraid.linking.ranks.matching.by_order import match_by_order
from tracebraid.linking.ranks.matching.by_sequence import match_by_sequence
from tracebraid.linking.ranks.matching.collectives import collectives_of
from tracebraid.linking.ranks.matching.groups import with_groups
from tracebraid.linking.ranks.matching.signatures import is_between_two, with_signatures
from tracebraid.model.collective_codes import CollectiveType
from tracebraid.model.finding import Finding

__all__ = ["MatchedMembers", "match_members"]


@dataclass(frozen=True, eq=False)
class MatchedMembers:
    """What matching found.

    Args:
        members: `MEMBERS` of all ranks, with `collective`.
        collectives: `MATCHED_COLLECTIVES`.
        findings: what was noticed.
    """

    members: pl.DataFrame
    collectives: pl.DataFrame
    findings: tuple[Finding, ...] = ()


def match_members(members: pl.DataFrame, ranks: pl.DataFrame) -> MatchedMembers:
    """Match the members of all ranks.

    Numbers come first, then the order of what they leave. Sends meet receives by their peers, in the order of each
    pair; a kernel of several sends and receives whose peers are unknown stays unmatched.

    Args:
        members: `MEMBERS` of all ranks, on their own clocks.
        ranks: `RANKS`.
    """
    rows = members.with_row_index("row").with_columns(
        pl.col("row").cast(pl.Int64),
        pl.col("step").rank("dense").cast(pl.Int64).fill_null(-1).alias("step_number"),
    )
    issued = rows.sort("rank", pl.coalesce("issued_ns", "start_ns"), "event_id")
    prepared = with_signatures(with_groups(issued))
    by_sequence = match_by_sequence(prepared)
    numbered = prepared.filter(pl.col("row").is_in(by_sequence.get_column("row").implode()))
    rest = prepared.filter(~pl.col("row").is_in(by_sequence.get_column("row").implode()))
    of_numbered = numbered.get_column("_group").unique().implode()
    by_order = match_by_order(
        _with_channels(rest.filter(~pl.col("_group").is_in(of_numbered) | is_between_two()))
    )
    found, collectives = collectives_of(prepared.sort("row"), pl.concat([by_sequence, by_order]))
    return MatchedMembers(found, collectives)


def _with_channels(members: pl.DataFrame) -> pl.DataFrame:
    """With `channel` and `track`: within a channel, the members of a rank meet those of the others in their order."""
    together = pl.col("type") == CollectiveType.SEND_RECEIVE.value
    pair = pl.concat_str("_group", "source", "destination", separator=" ")
    channel = pl.when(is_between_two()).then(pair).otherwise(pl.col("_group").cast(pl.String))
    found = members.with_columns(channel.alias("channel"), pl.col("rank").alias("track"))
    return found.filter(pl.col("channel").is_not_null() & together.ne_missing(other=True))
