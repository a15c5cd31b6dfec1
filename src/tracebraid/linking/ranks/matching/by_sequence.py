"""Members of one collective by the numbers that their traces give to collectives."""

from __future__ import annotations

import polars as pl

from tracebraid.linking.ranks.matching.signatures import is_between_two
from tracebraid.model.collectives.codes import CollectiveType, MatchMethod

__all__ = ["match_by_sequence", "restarts"]

_LEAST_AGREEING = 0.5
"""Share of the members with a number in common that have to be of one type: else the numbers count something else."""

_CONFIDENCE = {MatchMethod.COMMUNICATOR_SEQUENCE: 1.0, MatchMethod.GROUP_SEQUENCE: 0.98}


def match_by_sequence(members: pl.DataFrame) -> pl.DataFrame:
    """The members that numbers match: `row`, `key` (equal within a collective), `method`, `confidence`.

    Numbers of sends and receives count what a rank sends or receives, which is not the same on both, and are of no
    use. Where a rank's numbers restart, the order has to say which run of numbers is which. Members of one number,
    as coalesced collectives are, are told apart by type and size. Types that the most ranks of a number do not have
    stay out: their rank has other collectives in its order.

    Args:
        members: `row`, `rank`, `_group`, `communicator`, `sequence`, `type`, `token`, in the order of issue.
    """
    # Several sends and receives in a kernel have a number each rank's own, and unknown peers, unless there are but two.
    of_many = (pl.col("type") == CollectiveType.SEND_RECEIVE.value) & (pl.col("group_size") != 2)
    usable_type = ~is_between_two() & ~of_many.fill_null(value=False)
    together, track = members.filter(usable_type), ["_group", "rank"]
    has_numbers = pl.col("sequence").is_not_null()
    # Where a rank has no numbers at all, the order has to match it with the others.
    on_all = (has_numbers.any().over(track)).all().over("_group")
    numbered = together.filter(on_all).filter(has_numbers)
    usable = numbered.filter(~restarts())
    several = (pl.len().over("_group", "rank", "sequence") > 1).any().over("_group", "sequence")
    part = pl.when(several).then("token").otherwise(None).alias("part")
    kind = pl.col("type").fill_null("")
    keyed = usable.with_columns(part, kind.alias("kind")).with_columns(
        pl.int_range(pl.len()).over("_group", "rank", "sequence", "part", "kind").alias("nth")
    )
    keyed = _of_most(keyed)
    same = pl.col("communicator").drop_nulls().n_unique().over("_group", "sequence") == 1
    known = pl.col("communicator").is_not_null().all().over("_group", "sequence")
    first, second = MatchMethod.COMMUNICATOR_SEQUENCE, MatchMethod.GROUP_SEQUENCE
    return keyed.select(
        "row",
        pl.concat_str(
            pl.lit("s"), "_group", "sequence", "kind", pl.col("part").fill_null(-1), "nth", separator="|"
        ).alias("key"),
        pl.when(same & known).then(pl.lit(first.value)).otherwise(pl.lit(second.value)).alias("method"),
        pl.when(same & known)
        .then(pl.lit(_CONFIDENCE[first]))
        .otherwise(pl.lit(_CONFIDENCE[second]))
        .alias("confidence"),
    )


def restarts() -> pl.Expr:
    """Whether the numbers of a group restart on some rank."""
    falls = pl.col("sequence") < pl.col("sequence").shift(1).over("_group", "rank")
    return falls.fill_null(value=False).any().over("_group")


def _of_most(keyed: pl.DataFrame) -> pl.DataFrame:
    """Without members of a type that fewer ranks have at that number, and without groups whose numbers mislead."""
    at = ["_group", "sequence"]
    votes = keyed.group_by([*at, "kind"]).agg(pl.col("rank").n_unique().alias("votes"))
    votes = votes.with_columns(
        pl.col("votes").max().over(at).alias("most"), pl.col("votes").sum().over(at).alias("all")
    )
    # Where as many ranks have one type as another, nothing says which of them is right.
    tied = (pl.col("votes") == pl.col("most")).sum().over(at) > 1
    joined = keyed.join(
        votes.with_columns(tied.alias("tied")), on=[*at, "kind"], how="left", maintain_order="left"
    )
    is_of_most = (pl.col("votes") == pl.col("most")) & ~pl.col("tied")
    shared = pl.col("all") > 1
    agreeing = (is_of_most & shared).sum().over("_group") >= _LEAST_AGREEING * shared.sum().over("_group")
    several = pl.col("rank").n_unique().over(*at, "part") <= pl.col("all")
    return joined.filter((is_of_most | pl.col("part").is_not_null()) & agreeing & several)
