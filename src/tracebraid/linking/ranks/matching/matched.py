"""The members of all ranks, each with the collective that it is of."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracebraid.linking.ranks.matching.by_order import match_by_order
from tracebraid.linking.ranks.matching.by_sequence import match_by_sequence, restarts
from tracebraid.linking.ranks.matching.collectives import collectives_of
from tracebraid.linking.ranks.matching.groups import with_groups
from tracebraid.linking.ranks.matching.order_findings import order_findings
from tracebraid.linking.ranks.matching.rank_findings import of_another_run, rank_findings
from tracebraid.linking.ranks.matching.signatures import (
    is_between_two,
    is_of_all,
    is_of_unnamed,
    may_be_of_several,
    with_signatures,
)
from tracebraid.model.collectives.codes import CollectiveType
from tracebraid.model.finding import Finding
from tracebraid.model.schema.ranks import MATCHED_COLLECTIVES

__all__ = ["MatchedMembers", "match_members"]

_HOST = "cpu"
"""The device of members on the host."""
_OF_SEVERAL_GROUPS = 0.5
"""Share of the confidence that a match by order keeps where nothing names the group and there are several: chosen."""


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
    pair; a kernel of several sends and receives whose peers are unknown stays unmatched. So do sends and receives on
    the host, which buffers: they may end long before, or after, those that they meet, and would say wrong things of
    clocks.

    Args:
        members: `MEMBERS` of all ranks, on their own clocks.
        ranks: `RANKS`.
    """
    strangers = of_another_run(ranks, members)
    if members.is_empty():
        return MatchedMembers(members, MATCHED_COLLECTIVES.empty(), rank_findings(members, ranks, strangers))
    prepared = _prepared(members)
    usable = prepared.filter(~pl.col("rank").is_in(list(strangers)))
    by_sequence = match_by_sequence(usable)
    numbered = pl.col("row").is_in(by_sequence.get_column("row").implode())
    # Numbers have the last word in the groups that have them: what they leave is in no other's collective.
    of_numbered = usable.filter(numbered).get_column("_group").unique().implode()
    rest = usable.filter(~numbered & (~pl.col("_group").is_in(of_numbered) | is_between_two()))
    clocks = _clocks(usable.join(by_sequence, on="row", how="inner", maintain_order="left"))
    by_order = match_by_order(_with_channels(rest), clocks)
    matches = pl.concat(
        [by_sequence, _with_less_confidence(by_order, usable.filter(may_be_of_several(ranks)))]
    )
    found, collectives = collectives_of(prepared.sort("row"), matches)
    match = found.get_column("collective").gather(prepared.get_column("row")).cast(pl.String).alias("match")
    order = order_findings(prepared.with_columns(match), ranks)
    return MatchedMembers(found, collectives, (*rank_findings(found, ranks, strangers), *order))


def _prepared(members: pl.DataFrame) -> pl.DataFrame:
    """The members in the order of issue, with `row`, `step_number`, `_group`, `group` and `token`."""
    rows = members.with_row_index("row").with_columns(
        pl.col("row").cast(pl.Int64),
        pl.col("step").rank("dense").cast(pl.Int64).fill_null(-1).alias("step_number"),
    )
    issued = rows.sort("rank", pl.coalesce("issued_ns", "start_ns"), "event_id")
    return with_signatures(with_groups(issued))


def _clocks(numbered: pl.DataFrame) -> dict[int, int]:
    """What to add to each rank's times to be on the clock of a rank of the largest group that numbers matched."""
    if numbered.is_empty():
        return {}
    largest = (
        numbered.group_by("_group").len().sort("len", "_group", descending=[True, False]).item(0, "_group")
    )
    rows = numbered.filter(pl.col("_group") == largest)
    first = rows.get_column("rank").min()
    of_first = rows.filter(pl.col("rank") == first).select("key", pl.col("end_ns").alias("reference_ns"))
    apart = rows.join(of_first, on="key", how="inner").group_by("rank")
    medians = apart.agg((pl.col("reference_ns") - pl.col("end_ns")).sort().get(pl.len() // 2).alias("offset"))
    return dict(medians.select("rank", "offset").iter_rows())


def _with_channels(members: pl.DataFrame) -> pl.DataFrame:
    """With `channel` and `track`: within a channel, the members of a rank meet those of the others in their order."""
    together = pl.col("type") == CollectiveType.SEND_RECEIVE.value
    pair = pl.concat_str("_group", "source", "destination", separator=" ")
    group = pl.concat_str(pl.col("_group").cast(pl.String), _stream_of_unnamed())
    channel = pl.when(is_between_two()).then(pair).otherwise(group)
    found = members.with_columns(
        channel.alias("channel"), pl.col("rank").alias("track"), is_of_all().alias("meets")
    )
    # Numbers that restart tell collectives apart that types and sizes do not.
    number = pl.when(restarts() & ~is_between_two()).then("sequence")
    token = pl.struct("token", number.alias("number")).rank("dense").cast(pl.Int64).alias("token")
    meets_none = together | (is_between_two() & (pl.col("device") == _HOST))
    return found.with_columns(token).filter(
        pl.col("channel").is_not_null() & meets_none.ne_missing(other=True)
    )


def _with_less_confidence(matches: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """Matches by order, of some members with less confidence: of several groups each rank has an order of its own."""
    few = pl.col("row").is_in(members.get_column("row").implode())
    least = pl.col("confidence") * _OF_SEVERAL_GROUPS
    return matches.with_columns(pl.when(few).then(least).otherwise("confidence").alias("confidence"))


def _stream_of_unnamed() -> pl.Expr:
    """The stream where groups have no name: each communicator of NCCL has its own, on all ranks the same.

    Not where each rank has a single one, which may be another on each.
    """
    several = (pl.col("stream").n_unique().over("_group", "rank") > 1).any().over("_group")
    on_device = pl.col("device") != _HOST
    stream = pl.concat_str(pl.lit(" on stream "), pl.col("stream"))
    return pl.when(is_of_unnamed() & several & on_device).then(stream).otherwise(pl.lit("")).fill_null("")
