"""The collectives that were matched: `MATCHED_COLLECTIVES`."""

from __future__ import annotations

import polars as pl

from tracebraid.model.collectives.codes import CollectiveType, MatchMethod
from tracebraid.model.collectives.group_ranks import ranks_listed
from tracebraid.model.schema.ranks import MATCHED_COLLECTIVES, MEMBERS

__all__ = ["collectives_of"]

_METHODS = [method.value for method in MatchMethod]
"""From the most certain to the least; a collective has the least certain method of its members."""


def collectives_of(members: pl.DataFrame, matches: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`MEMBERS` with `collective`, and `MATCHED_COLLECTIVES`.

    Args:
        members: in the order of `row`, with `row`, `group` and `token`.
        matches: `row`, `key`, `method`, `confidence`; a key of fewer than two ranks is no match.
    """
    # A window over as many keys takes far longer than to group and join.
    of_keys = matches.join(members.select("row", "rank"), on="row", how="inner")
    of_keys = of_keys.group_by("key").agg(pl.len().alias("members"), pl.col("rank").n_unique().alias("ranks"))
    usable = of_keys.filter((pl.col("ranks") > 1) & (pl.col("members") == pl.col("ranks"))).select("key")
    keyed = members.join(
        matches.join(usable, on="key", how="semi"), on="row", how="left", maintain_order="left"
    ).with_columns(
        pl.col("method").replace_strict(_METHODS, range(len(_METHODS)), default=None).alias("_method"),
    )
    matched = keyed.filter(pl.col("key").is_not_null()).sort("start_ns", "rank", "event_id")
    frame = _frame(matched)
    found = keyed.drop("collective").join(
        frame.select("collective", "key"), on="key", how="left", maintain_order="left"
    )
    return MEMBERS.conform(found), MATCHED_COLLECTIVES.conform(frame)


def _frame(matched: pl.DataFrame) -> pl.DataFrame:
    """`MATCHED_COLLECTIVES` with `key`."""
    dtype = pl.col("dtype")
    same_dtype = dtype.str.to_lowercase().n_unique() == 1
    frame = matched.group_by("key", maintain_order=True).agg(
        pl.col("group").first(),
        pl.col("type").sort().first(),
        pl.col("type").n_unique().alias("types"),
        pl.col("sequence").drop_nulls().min(),
        pl.col("sequence").drop_nulls().n_unique().alias("sequences"),
        pl.when(same_dtype).then(dtype.sort().first()).alias("dtype"),
        pl.col("group_size").drop_nulls().max(),
        pl.col("group_ranks").drop_nulls().first(),
        pl.col("rank").sort().alias("ranks"),
        pl.col("_method").max(),
        pl.col("confidence").min(),
        (pl.col("token").n_unique() == 1).alias("agrees"),
    )
    frame = ranks_listed(frame)
    between_two = pl.col("types") == 2
    together, nobody = pl.lit(CollectiveType.SEND_RECEIVE.value), pl.lit([], dtype=pl.List(pl.Int64))
    missing = pl.col("group_ranks").list.set_difference("ranks").list.sort()
    method = pl.col("_method").replace_strict(range(len(_METHODS)), _METHODS, return_dtype=pl.String)
    return frame.with_row_index("collective").with_columns(
        pl.col("collective").cast(pl.Int64),
        pl.when(between_two).then(together).otherwise("type").alias("type"),
        pl.when(pl.col("sequences") == 1).then("sequence").alias("sequence"),
        pl.when(between_two).then(nobody).otherwise(missing).alias("missing"),
        pl.int_range(pl.len()).over("group").cast(pl.Int64).alias("number"),
        method.alias("method"),
    )
