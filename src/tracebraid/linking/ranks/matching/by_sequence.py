"""Members of one collective by the numbers that their traces give to collectives."""

from __future__ import annotations

import polars as pl

from tracebraid.linking.ranks.matching.signatures import is_between_two
from tracebraid.model.collectives.codes import CollectiveType, MatchMethod

__all__ = ["match_by_sequence", "restarts"]

_LEAST_AGREEING = 0.5
"""Share of the members with a number in common that have to be of one type: else the numbers count something else."""

_AT = ["_group", "sequence"]
"""A number of a group."""
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
    keyed = _of_most(_with_parts(usable))
    ids = pl.col("communicator")
    certain = (ids.min() == ids.max()).fill_null(value=False) & (ids.null_count() == 0)
    of_numbers = keyed.group_by(_AT).agg(certain.alias("certain"))
    keyed = keyed.join(of_numbers, on=_AT, how="left", maintain_order="left")
    first, second = MatchMethod.COMMUNICATOR_SEQUENCE, MatchMethod.GROUP_SEQUENCE
    return keyed.select(
        "row",
        pl.concat_str(
            pl.lit("s"), "_group", "sequence", "kind", pl.col("part").fill_null(-1), "nth", separator="|"
        ).alias("key"),
        pl.when("certain").then(pl.lit(first.value)).otherwise(pl.lit(second.value)).alias("method"),
        pl.when("certain")
        .then(pl.lit(_CONFIDENCE[first]))
        .otherwise(pl.lit(_CONFIDENCE[second]))
        .alias("confidence"),
    )


def restarts() -> pl.Expr:
    """Whether the numbers of a group restart on some rank."""
    falls = pl.col("sequence") < pl.col("sequence").shift(1).over("_group", "rank")
    return falls.fill_null(value=False).any().over("_group")


def _with_parts(usable: pl.DataFrame) -> pl.DataFrame:
    """With `kind`, and of numbers that a rank has several times `part` (the token) and `nth` of its kind and part."""
    rows = usable.with_columns(pl.col("type").fill_null("").alias("kind"))
    repeated = rows.filter(rows.select("_group", "rank", "sequence").is_duplicated()).select(_AT).unique()
    several = rows.join(repeated, on=_AT, how="semi", maintain_order="left")
    several = several.with_columns(pl.col("token").cast(pl.Int64).alias("part"))
    nth = pl.int_range(pl.len()).over("_group", "rank", "sequence", "part", "kind")
    once = rows.join(repeated, on=_AT, how="anti", maintain_order="left").with_columns(
        pl.lit(None, dtype=pl.Int64).alias("part"), pl.lit(0, dtype=pl.Int64).alias("nth")
    )
    return pl.concat([once, several.with_columns(nth.cast(pl.Int64).alias("nth"))])


def _of_most(keyed: pl.DataFrame) -> pl.DataFrame:
    """Without members of a type that fewer ranks have at that number, and without groups whose numbers mislead."""
    of_ranks = keyed.select(*_AT, "kind", "rank").unique()
    votes = of_ranks.group_by(*_AT, "kind").agg(pl.len().alias("votes"))
    # Where as many ranks have one type as another, nothing says which of them is right.
    tied = (pl.col("votes") == pl.col("votes").max()).sum() > 1
    of_numbers = votes.group_by(_AT).agg(
        pl.col("votes").max().alias("most"), pl.col("votes").sum().alias("all"), tied.alias("tied")
    )
    votes = votes.join(of_numbers, on=_AT, how="left")
    joined = keyed.join(votes, on=[*_AT, "kind"], how="left", maintain_order="left")
    is_of_most = (pl.col("votes") == pl.col("most")) & ~pl.col("tied")
    shared = pl.col("all") > 1
    agreeing = (is_of_most & shared).sum().over("_group") >= _LEAST_AGREEING * shared.sum().over("_group")
    return joined.filter((is_of_most | pl.col("part").is_not_null()) & agreeing)
