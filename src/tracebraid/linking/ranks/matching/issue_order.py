"""Which members of a rank have another place in the order of their group than on the rank it is compared with?"""

from __future__ import annotations

import polars as pl

__all__ = ["differences_of_order"]

_LONGEST = 64
"""Members behind a matched collective that are compared with those of another rank."""
_TRACK = ["_group", "rank"]
_FOUND = ["_group", "group", "rank", "event_id", "number", "here", "others", "there"]


def differences_of_order(members: pl.DataFrame) -> pl.DataFrame:
    """Members in another order than on the rank of their group of which the most members are matched.

    Either they are matched crosswise, or they lie behind the same matched collective as the same members of the other
    rank, in another order. Ranks that lost members between matched collectives are left out.

    Args:
        members: with `rank`, `_group`, `group`, `token`, `said` (what they are, in words), `stream`, `issued_ns`,
            `start_ns`, `event_id`, `match` (null: not matched).

    Returns:
        `_group`, `group`, `rank`, `event_id`, `number` (in the rank's order), `here`, `others`, `there`, in the order
        of groups and numbers.
    """
    own, known = _compared(_in_order(members))
    key = [*_TRACK, "match"]
    held, has = (
        frame.select(*key, pl.col("number").alias("position"), pl.col("said").alias("other")).drop_nulls(
            "match"
        )
        for frame in (own, known)
    )
    own = own.join(has, on=key, how="left", maintain_order="left")
    known = known.join(held, on=key, how="left", maintain_order="left")
    both = _compared_stretches(own, known)
    lossy = both.filter(~pl.col("is_last") & ~pl.col("same")).select(_TRACK).unique()
    found = pl.concat([_first_differences(both), _crossed(own)]).join(lossy, on=_TRACK, how="anti")
    return found.sort("_group", "number", "rank").select(_FOUND)


def _in_order(members: pl.DataFrame) -> pl.DataFrame:
    """The members of ranks whose order of issue is known, with `number`: their place in it."""
    # It is known where the host's calls are, or on a single stream.
    has_calls = pl.col("issued_ns").is_not_null().all().over(_TRACK)
    is_single = (pl.col("stream").n_unique() == 1).over(_TRACK)
    issued = pl.when(has_calls).then("issued_ns").otherwise("start_ns").alias("_issued")
    rows = members.filter(has_calls | is_single).with_columns(issued)
    rows = rows.sort(*_TRACK, "_issued", "event_id")
    return rows.with_columns(pl.int_range(pl.len()).over(_TRACK).alias("number"))


def _compared(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The members of each rank, and for each rank those of the rank that it is compared with."""
    counts = rows.group_by(_TRACK).agg(pl.col("match").count().alias("matched"))
    most = counts.sort("_group", "matched", "rank", descending=[False, True, False])
    reference = most.unique("_group", keep="first", maintain_order=True).select(
        "_group", pl.col("rank").alias("usual")
    )
    rows = rows.join(reference, on="_group", how="inner", maintain_order="left")
    known = rows.filter(pl.col("rank") == pl.col("usual"))
    own = rows.filter(pl.col("rank") != pl.col("usual"))
    # The reference once for each other rank: as many rows as the ranks have members.
    others = own.select(_TRACK).unique(maintain_order=True)
    return own, others.join(known.drop("rank"), on="_group", how="inner", maintain_order="left_right")


def _crossed(own: pl.DataFrame) -> pl.DataFrame:
    """Matched members which the other rank has behind one that comes later here."""
    matched = own.drop_nulls("position")
    later = pl.col("position").cum_min(reverse=True).over(_TRACK)
    rows = matched.with_columns(later.alias("least")).filter(pl.col("position") > pl.col("least"))
    there = matched.select(*_TRACK, pl.col("position").alias("least"), pl.col("other").alias("there"))
    rows = rows.join(there, on=[*_TRACK, "least"], how="left", maintain_order="left")
    return rows.select(*_said())


def _compared_stretches(own: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """What lies behind each collective in common, of both ranks; `same`: both have the same members."""
    key = [*_TRACK, "after"]
    there = _stretches(known).select(
        *key,
        pl.col("token").alias("expected"),
        pl.col("said").alias("there"),
        pl.col("is_last").alias("_last"),
    )
    both = _stretches(own).join(there, on=key, how="full", coalesce=True, maintain_order="left_right")
    same = (pl.col("token").list.sort() == pl.col("expected").list.sort()).fill_null(value=False)
    return both.with_columns(same.alias("same"), pl.coalesce("is_last", "_last").alias("is_last"))


def _stretches(rows: pl.DataFrame) -> pl.DataFrame:
    """The members between collectives in common, as lists; `is_last`: behind the last of them.

    Windows begin anywhere: what lies before all that is in common says nothing.
    """
    common = pl.when(pl.col("position").is_not_null()).then("match")
    after, before = common.forward_fill().over(_TRACK), common.backward_fill().over(_TRACK)
    found = rows.with_columns(after.alias("after"), before.is_null().alias("is_last"))
    found = found.filter(pl.col("position").is_null()).drop_nulls("after")
    return found.group_by(*_TRACK, "after", maintain_order=True).agg(
        pl.col("token", "said", "event_id", "number"), pl.col("group", "usual", "is_last").first()
    )


def _first_differences(both: pl.DataFrame) -> pl.DataFrame:
    is_compared = pl.col("same") & pl.col("token").list.len().is_between(2, _LONGEST)
    rows = both.filter(is_compared & (pl.col("token") != pl.col("expected")))
    members = rows.explode("token", "said", "event_id", "number", "expected", "there")
    return members.filter(pl.col("token") != pl.col("expected")).select(*_said())


def _said() -> list[pl.Expr]:
    here, others = pl.col("said").alias("here"), pl.col("usual").cast(pl.String).alias("others")
    return [pl.col(*_TRACK, "group", "event_id", "number", "there"), here, others]
