"""Where does a rank enter its collectives in another order than the others, so that the job hangs?"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tracebraid.linking.ranks.matching.signatures import is_between_two
from tracebraid.model.collectives.codes import CollectiveType
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode

__all__ = ["order_findings"]

_T = CollectiveType
_EQUAL_SIZES = [kind.value for kind in (_T.ALL_REDUCE, _T.BROADCAST, _T.REDUCE)]
"""Types whose ranks all give as many bytes."""
_LONGEST = 64
"""Members between two matched collectives that are compared with those of another rank."""


def order_findings(members: pl.DataFrame, ranks: pl.DataFrame) -> tuple[Finding, ...]:
    """The first collective of each group at which some rank has another one than most.

    Where traces have numbers, it is the first number with members of several types or sizes; else the first stretch
    between matched collectives that holds the same members on two ranks, in another order.

    Args:
        members: in the order of issue, with `rank`, `_group`, `group`, `type`, `token`, `sequence`, `in_bytes`,
            `stream`, `issued_ns`, `event_id`, `match` (null: not matched).
        ranks: `RANKS`.
    """
    paths = dict(ranks.select("rank", "path").iter_rows())
    together = members.filter(~is_between_two() & pl.col("type").is_not_null())
    numbered = _first_of_groups(_by_number(together))
    groups = pl.Series([row["_group"] for row in numbered], dtype=pl.Int64).implode()
    unnumbered = _first_of_groups(_by_stretch(together.filter(~pl.col("_group").is_in(groups))))
    return tuple(_findings([*numbered, *unnumbered], paths))


def _first_of_groups(frame: pl.DataFrame) -> list[dict[str, object]]:
    return list(frame.unique("_group", keep="first", maintain_order=True).iter_rows(named=True))


def _findings(rows: list[dict[str, object]], paths: dict[int, str | None]) -> Iterator[Finding]:
    for row in rows:
        rank = row["rank"]
        path = paths.get(rank) if isinstance(rank, int) else None
        yield Finding.of(
            FindingCode.COLLECTIVES_DISORDERED,
            path or "",
            f"event {row['event_id']}",
            rank=rank,
            group=row["group"],
            number=row["number"],
            here=row["here"],
            others=row["others"],
            there=row["there"],
        )


def _described() -> pl.Expr:
    """A collective in words: its type and what it gives."""
    size = pl.when(pl.col("in_bytes").is_not_null()).then(
        pl.concat_str(pl.lit(" of "), pl.col("in_bytes"), pl.lit(" bytes"))
    )
    return pl.concat_str("type", size.fill_null(""))


def _by_number(members: pl.DataFrame) -> pl.DataFrame:
    """Members that differ in type or size from those of most ranks at a number, in the order of numbers."""
    at = ["_group", "sequence"]
    falls = (pl.col("sequence") < pl.col("sequence").shift(1).over("_group", "rank")).fill_null(value=False)
    single = pl.len().over("_group", "rank", "sequence") == 1
    size = pl.when(pl.col("type").is_in(_EQUAL_SIZES)).then("in_bytes")
    rows = members.filter(pl.col("sequence").is_not_null()).filter(~falls.any().over("_group"))
    rows = rows.filter(single.all().over(at)).with_columns(size.alias("size"), _described().alias("said"))
    # An unknown size differs from none.
    differ = pl.col("type").n_unique().over(at) + pl.col("size").drop_nulls().n_unique().over(at).clip(1) > 2
    rows = rows.filter(differ)
    if rows.is_empty():
        return _none()
    votes = rows.group_by(*at, "said").agg(pl.col("rank").sort())
    votes = votes.with_columns(pl.col("rank").list.len().alias("votes")).sort(
        *at, "votes", pl.col("rank").list.first(), descending=[False, False, True, False]
    )
    most = votes.group_by(at, maintain_order=True).agg(
        pl.col("said").first().alias("there"), pl.col("rank").first().alias("with")
    )
    others = pl.col("with").cast(pl.List(pl.String)).list.join(", ").alias("others")
    return (
        rows.join(most.with_columns(others), on=at, how="inner")
        .filter(pl.col("said") != pl.col("there"))
        .sort(*at, "rank")
        .select(
            "_group",
            "group",
            "rank",
            "event_id",
            pl.col("sequence").alias("number"),
            here="said",
            others="others",
            there="there",
        )
    )


def _by_stretch(members: pl.DataFrame) -> pl.DataFrame:
    """Members that lie between the same matched collectives as those of another rank, in another order.

    Each rank is compared with the one of its group of which the most members are matched.
    """
    # The order of issue is known on a single stream, or where the host's calls are.
    ordered = pl.col("issued_ns").is_not_null().all() | (pl.col("stream").n_unique() == 1)
    rows = members.filter(ordered.over("_group", "rank")).with_columns(
        pl.int_range(pl.len()).over("_group", "rank").alias("number"), _described().alias("said")
    )
    counts = rows.group_by("_group", "rank").agg(pl.col("match").count().alias("matched"))
    most = counts.sort("_group", "matched", "rank", descending=[False, True, False])
    reference = most.unique("_group", keep="first", maintain_order=True).select(
        "_group", pl.col("rank").alias("usual")
    )
    rows = rows.join(reference, on="_group", how="inner", maintain_order="left")
    known = rows.filter(pl.col("rank") == pl.col("usual"))
    own = rows.filter(pl.col("rank") != pl.col("usual"))
    # The reference once for each other rank: as many rows as the ranks have members.
    others = own.select("_group", "rank").unique(maintain_order=True)
    known = others.join(known.drop("rank"), on="_group", how="inner", maintain_order="left_right")
    held = own.select("_group", "rank", "match", pl.lit(value=True).alias("common")).drop_nulls("match")
    has = known.select("_group", "rank", "match", pl.lit(value=True).alias("common")).drop_nulls("match")
    key = ["_group", "rank", "match"]
    stretches = _stretches(own.join(has, on=key, how="left", maintain_order="left"))
    usual = _stretches(known.join(held, on=key, how="left", maintain_order="left"))
    return _first_differences(stretches, usual)


def _stretches(rows: pl.DataFrame) -> pl.DataFrame:
    """The members between collectives in common, as lists."""
    track = ["_group", "rank"]
    common = pl.when("common").then("match")
    after, before = common.forward_fill().over(track), common.backward_fill().over(track)
    found = rows.with_columns(after.alias("after"), before.alias("before")).filter(pl.col("common").is_null())
    # Windows begin and end anywhere: what lies before or behind all that is in common says nothing.
    found = found.drop_nulls(["after", "before"])
    return found.group_by(*track, "after", maintain_order=True).agg(
        pl.col("token", "said", "event_id", "number", "match"), pl.col("group", "usual").first()
    )


def _first_differences(stretches: pl.DataFrame, usual: pl.DataFrame) -> pl.DataFrame:
    key = ["_group", "rank", "after"]
    there = usual.select(*key, pl.col("token").alias("expected"), pl.col("said").alias("there"))
    both = stretches.join(there, on=key, how="full", coalesce=True, maintain_order="left_right")
    same = (pl.col("token").list.sort() == pl.col("expected").list.sort()).fill_null(value=False)
    # Where members are lost as well, equal stretches may be chance.
    both = both.filter(same.all().over("_group", "rank"))
    both = both.filter(
        pl.col("token").list.len().is_between(2, _LONGEST) & (pl.col("token") != pl.col("expected"))
    )
    if both.is_empty():
        return _none()
    members = both.explode("token", "said", "event_id", "number", "match", "expected", "there")
    return (
        members.filter(pl.col("token") != pl.col("expected"))
        .sort("_group", "number", "rank")
        .select(
            "_group",
            "group",
            "rank",
            "event_id",
            "number",
            here="said",
            others=pl.col("usual").cast(pl.String),
            there="there",
        )
    )


def _none() -> pl.DataFrame:
    return pl.DataFrame(schema={"_group": pl.Int64})
