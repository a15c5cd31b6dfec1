"""Where does a rank enter its collectives in another order than the others, so that the job hangs?"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tracebraid.linking.ranks.matching.issue_order import differences_of_order
from tracebraid.linking.ranks.matching.signatures import is_between_two, is_of_unnamed, may_be_of_several
from tracebraid.model.collectives.codes import CollectiveType
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode

__all__ = ["order_findings"]

_T = CollectiveType
_EQUAL_SIZES = [kind.value for kind in (_T.ALL_REDUCE, _T.BROADCAST, _T.REDUCE)]
"""Types whose ranks all give as many bytes."""


def order_findings(members: pl.DataFrame, ranks: pl.DataFrame) -> tuple[Finding, ...]:
    """The first collective of each group at which some rank has another one than most.

    Where traces have numbers, it is the first number with members of several types or sizes; else the first
    collective that another rank has at another place in its order.

    Args:
        members: in the order of issue, with `rank`, `_group`, `group`, `type`, `token`, `sequence`, `in_bytes`,
            `stream`, `issued_ns`, `start_ns`, `event_id`, `process_group`, `communicator`, `group_ranks`, `match`
            (null: not matched).
        ranks: `RANKS`.
    """
    paths = dict(ranks.select("rank", "path").iter_rows())
    together = members.filter(~is_between_two() & pl.col("type").is_not_null())
    numbered = _first_of_groups(_by_number(together))
    groups = pl.Series([row["_group"] for row in numbered], dtype=pl.Int64).implode()
    rest = together.filter(~pl.col("_group").is_in(groups) & ~_may_be_several(ranks))
    unnumbered = _first_of_groups(differences_of_order(rest.with_columns(_described().alias("said"))))
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


def _may_be_several(ranks: pl.DataFrame) -> pl.Expr:
    """Whether members without a name of their group may be of several groups, whose order is each rank's own."""
    streams = pl.col("stream").n_unique().over("_group", "rank") > 1
    return (may_be_of_several(ranks) | (is_of_unnamed() & streams)).any().over("_group")


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
    size = pl.when(pl.col("type").is_in(_EQUAL_SIZES)).then("in_bytes")
    rows = members.filter(pl.col("sequence").is_not_null()).filter(~falls.any().over("_group"))
    rows = rows.with_columns(size.alias("size"))
    # An unknown size differs from none. Of numbers whose members differ there are few: what follows may cost more.
    differ = (pl.col("type").min() != pl.col("type").max()) | (pl.col("size").min() != pl.col("size").max())
    numbers = rows.group_by(at).agg(differ.fill_null(value=False).alias("differ")).filter("differ")
    rows = rows.join(numbers, on=at, how="semi", maintain_order="left")
    single = pl.len().over("_group", "rank", "sequence") == 1
    rows = rows.filter(single.all().over(at)).with_columns(_described().alias("said"))
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


def _none() -> pl.DataFrame:
    return pl.DataFrame(schema={"_group": pl.Int64})
