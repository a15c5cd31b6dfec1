"""Which members of a collective send, and which receive?"""

from __future__ import annotations

import polars as pl

from tracebraid.model.collectives.codes import CollectiveType

__all__ = ["with_roles"]

_FROM_ROOT = (CollectiveType.BROADCAST.value, CollectiveType.SCATTER.value)
_TO_ROOT = (CollectiveType.REDUCE.value, CollectiveType.GATHER.value)


def with_roles(members: pl.DataFrame) -> pl.DataFrame:
    """With `_sends` and `_receives`; null where the root is unknown.

    All members of an all-reduce, all-gather, reduce-scatter, all-to-all, barrier or exchange send and receive. Of a
    broadcast and a scatter the root sends and the others receive; of a reduce and a gather it is the other way round.

    Args:
        members: have `_key`, of the collective, and rank, type, source, destination; rows stay in their order.
    """
    kind = pl.col("type")
    root = (
        pl.when(kind.is_in(_FROM_ROOT))
        .then("source")
        .when(kind.is_in(_TO_ROOT))
        .then(pl.coalesce("destination", "source"))
    )
    roots = (
        members.select("_key", root.alias("_root"))
        .drop_nulls()
        .unique("_key", keep="first", maintain_order=True)
    )
    is_root = pl.col("rank") == pl.col("_root")
    return members.join(roots, on="_key", how="left", maintain_order="left").with_columns(
        _role(is_root, ~is_root, CollectiveType.RECEIVE).alias("_sends"),
        _role(~is_root, is_root, CollectiveType.SEND).alias("_receives"),
    )


def _role(from_root: pl.Expr, to_root: pl.Expr, never: CollectiveType) -> pl.Expr:
    kind = pl.col("type")
    return (
        pl.when(kind.is_in(_FROM_ROOT))
        .then(from_root)
        .when(kind.is_in(_TO_ROOT))
        .then(to_root)
        .otherwise((kind != never.value).fill_null(value=True))
    )
