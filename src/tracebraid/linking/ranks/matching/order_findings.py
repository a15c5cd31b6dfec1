"""Where does a rank enter its collectives in another order than the others, so that the job hangs?"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tracebraid.linking.ranks.matching.signatures import is_between_two
from tracebraid.model.collective_codes import CollectiveType
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
    """Members that lie between the same matched collectives as those of another rank, in another order."""
    # The order of issue is known on a single stream, or where the host's calls are.
    track = ["_group", "rank"]
    ordered = pl.col("issued_ns").is_not_null().all() | (pl.col("stream").n_unique() == 1)
    rows = members.filter(ordered.over(track)).with_columns(
        pl.col("match").forward_fill().over(track).fill_null("").alias("after"),
        pl.int_range(pl.len()).over(track).alias("number"),
        _described().alias("said"),
    )
    stretches = (
        rows.filter(pl.col("match").is_null())
        .group_by("_group", "after", "rank", maintain_order=True)
        .agg(pl.col("token"), pl.col("said"), pl.col("event_id"), pl.col("number"), pl.col("group").first())
        .filter(pl.col("token").list.len().is_between(2, _LONGEST))
        .with_columns(pl.col("token").list.sort().alias("held"))
    )
    order = pl.col("token").cast(pl.List(pl.String)).list.join(" ")
    stretches = stretches.with_columns(order.alias("order"))
    same = ["_group", "after", "held"]
    stretches = stretches.filter(pl.col("order").n_unique().over(same) > 1)
    if stretches.is_empty():
        return _none()
    return _first_differences(stretches, same)


def _first_differences(stretches: pl.DataFrame, same: list[str]) -> pl.DataFrame:
    votes = stretches.group_by([*same, "order"]).agg(
        pl.col("rank").sort().alias("with"),
        pl.col("token").first().alias("usual"),
        pl.col("said").first().alias("usually"),
    )
    votes = votes.with_columns(pl.col("with").list.len().alias("votes")).sort(
        "votes", pl.col("with").list.first(), descending=[True, False]
    )
    most = (
        votes.unique(same, keep="first", maintain_order=True).rename({"order": "usual_order"}).drop("votes")
    )
    found = stretches.join(most, on=same, how="inner").filter(pl.col("order") != pl.col("usual_order"))
    found = found.with_columns(pl.col("with").cast(pl.List(pl.String)).list.join(", ").alias("others")).drop(
        "with", "held"
    )
    members = found.explode("token", "said", "event_id", "number", "usual", "usually")
    return (
        members.filter(pl.col("token") != pl.col("usual"))
        .sort("_group", "number", "rank")
        .select(
            "_group", "group", "rank", "event_id", "number", here="said", others="others", there="usually"
        )
    )


def _none() -> pl.DataFrame:
    return pl.DataFrame(schema={"_group": pl.Int64})
