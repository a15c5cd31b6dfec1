"""Process groups over all ranks, with matches of their collectives by method: `MATCHED_GROUPS`."""

from __future__ import annotations

import polars as pl

from tracebraid.model.analysis import Family, Need, OnPage, Rows, job_analysis
from tracebraid.model.collectives import CollectiveType, MatchMethod, ranks_listed
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.linked_ranks import LinkedRanks

_KEY = ["group", "type"]

_METHODS = {
    "by_sequence": [MatchMethod.COMMUNICATOR_SEQUENCE.value, MatchMethod.GROUP_SEQUENCE.value],
    "by_order": [MatchMethod.GROUP_ORDER.value],
    "by_alignment": [MatchMethod.ALIGNED_ORDER.value],
    "by_time": [MatchMethod.TIME.value],
}

_OF_A_PAIR = [CollectiveType.SEND.value, CollectiveType.RECEIVE.value]


MATCHED_GROUPS = Table(
    "matched_groups",
    "One row per process group and type of collective; groups in the order of their first collective, of theirs the "
    "type with the most members first.",
    (
        Column("group", Kind.TEXT, "the group: the same text for all ranks"),
        Column("names", Kind.TEXT, "the names that ranks have for it, by `, `; null: they name none"),
        Column("description", Kind.TEXT, "its description; null: unknown"),
        Column("group_size", Kind.INT, "ranks of the group; null: unknown"),
        Column("ranks", Kind.TEXT, "ranks that have such a member: `0-3, 7`"),
        Column(
            "missing",
            Kind.TEXT,
            "ranks of the group that have none; null: there are none, or the group's ranks are unknown",
        ),
        Column("type", Kind.TEXT, "type of communication (`CollectiveType`); null: unknown"),
        Column("members", Kind.INT, "collectives, sends and receives of all ranks: `matched + unmatched`"),
        Column("matched", Kind.INT, "members that were matched with a member of another rank"),
        Column("unmatched", Kind.INT, "members that were not: `alone + open`"),
        Column("alone", Kind.INT, "of these, members whose group has no other rank that was read"),
        Column(
            "open",
            Kind.INT,
            "of these, members that another rank may have lost, or that nothing tells from others",
        ),
        Column("collectives", Kind.INT, "collectives, or pairs of a send and a receive, that were matched"),
        Column("complete", Kind.INT, "collectives with a member on all ranks of the group"),
        Column("by_sequence", Kind.INT, "collectives that numbers matched"),
        Column("by_order", Kind.INT, "collectives that the order of equal members matched"),
        Column("by_alignment", Kind.INT, "collectives that an alignment of different windows matched"),
        Column("by_time", Kind.INT, "collectives matched by times"),
        Column("disagreeing", Kind.INT, "collectives whose members differ in type, size or element type"),
        Column("confidence", Kind.FLOAT, "the least confidence of a match, 0 to 1; null: there is none"),
    ),
)


@job_analysis(
    MATCHED_GROUPS,
    Family.COLLECTIVES,
    needs=(Need.COMMUNICATION,),
    uses=(Need.SEVERAL_RANKS, Need.COLLECTIVES),
    shown=(
        "group type members matched! unmatched! alone open collectives complete by_sequence by_order "
        "by_alignment by_time disagreeing confidence group_size missing ranks description names"
    ),
    formula=(
        "Members of all ranks are matched by communicator, sequence number, order or time, the best "
        "first; members = matched + unmatched."
    ),
    on_page=OnPage(Rows.JOB_ROWS, by=("members",)),
)
def matched_groups(ranks: LinkedRanks) -> pl.DataFrame:
    """Which process groups are there, and what was matched?

    Process groups over all ranks, with matches of their collectives by method: `MATCHED_GROUPS`.

    A send that was matched with a receive counts as a collective in the rows of both.

    Args:
        ranks: the ranks of a job.
    """
    members = ranks.members
    several = (pl.col("rank").n_unique().over("group") > 1) & pl.col("group").is_not_null()
    frame = (
        members.with_columns(several.alias("several"))
        .group_by(_KEY, maintain_order=True)
        .agg(
            pl.col("start_ns").min().alias("first_ns"),
            pl.col("process_group").drop_nulls().unique().sort().alias("names"),
            pl.col("description").drop_nulls().first(),
            pl.col("group_size").drop_nulls().max(),
            pl.col("group_ranks").drop_nulls().first(),
            pl.col("rank").unique().sort().alias("ranks"),
            pl.len().alias("members"),
            pl.col("collective").count().alias("matched"),
            (pl.col("collective").is_null() & ~pl.col("several")).sum().alias("alone"),
            (pl.col("collective").is_null() & pl.col("several")).sum().alias("open"),
        )
    )
    found = ranks_listed(frame).join(
        _collectives(ranks), on=_KEY, how="left", nulls_equal=True, maintain_order="left"
    )
    counts = ["collectives", "complete", "disagreeing", *_METHODS]
    found = found.with_columns(
        pl.col(counts).fill_null(0),
        (pl.col("members") - pl.col("matched")).alias("unmatched"),
        pl.col("group_ranks").list.set_difference("ranks").list.sort().alias("missing"),
        pl.when(pl.col("names").list.len() > 0).then(pl.col("names").list.join(", ")).alias("names"),
        pl.col("first_ns").min().over("group").alias("began_ns"),
    ).sort("began_ns", "group", "members", "type", descending=[False, False, True, False])
    return MATCHED_GROUPS.conform(found.with_columns(_listed("ranks", found), _listed("missing", found)))


def _collectives(ranks: LinkedRanks) -> pl.DataFrame:
    """Count matches by group and type of the members."""
    types = ranks.members.select("collective", *_KEY).drop_nulls("collective").unique()
    joined = types.join(ranks.collectives.drop(_KEY), on="collective", how="left")
    size = pl.when(pl.col("type").is_in(_OF_A_PAIR)).then(2).otherwise("group_size")
    method = pl.col("method")
    return joined.group_by(_KEY).agg(
        pl.len().alias("collectives"),
        (pl.col("ranks").list.len().cast(pl.Int64) == size).sum().alias("complete"),
        (~pl.col("agrees")).sum().alias("disagreeing"),
        pl.col("confidence").min(),
        *(method.is_in(methods).sum().alias(name) for name, methods in _METHODS.items()),
    )


def _listed(column: str, numbers: pl.DataFrame) -> pl.Series:
    """Format ascending numbers: `0-3, 7`; null if there are none."""
    return pl.Series(column, [_text(row) for row in numbers.get_column(column).to_list()], dtype=pl.String)


def _text(numbers: list[int] | None) -> str | None:
    runs: list[list[int]] = []
    for number in numbers or ():
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{low}-{high}" if high > low else str(low) for low, high in runs) or None
