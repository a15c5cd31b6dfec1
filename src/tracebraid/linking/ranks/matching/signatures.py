"""What of a member has to be equal on all ranks of a collective."""

from __future__ import annotations

import polars as pl

from tracebraid.model.collectives.codes import CollectiveType

__all__ = ["is_between_two", "is_of_all", "is_of_unnamed", "may_be_of_several", "with_signatures"]

_T = CollectiveType

_UNEVEN = [kind.value for kind in (_T.ALL_TO_ALL, _T.GATHER, _T.SCATTER, _T.BARRIER)]
"""Ranks may give and get different sizes."""
_OF_ALL = [kind.value for kind in (_T.ALL_REDUCE, _T.ALL_GATHER, _T.REDUCE_SCATTER, _T.BARRIER)]
"""Ranks get something of all others, of which none has nothing to give."""
_BY_OUTPUT = [_T.RECEIVE.value, _T.REDUCE_SCATTER.value]
"""Uneven inputs of a reduce-scatter's ranks are equal in sum; a receive has an output alone."""


def with_signatures(members: pl.DataFrame) -> pl.DataFrame:
    """With `token`, a number for the type, dtype and size of a member: those of one collective have the same.

    An unknown size is a size of its own: it says the same on all ranks.
    """
    kind = pl.col("type")
    size = (
        pl.when(kind.is_in(_UNEVEN))
        .then(None)
        .when(kind.is_in(_BY_OUTPUT))
        .then(pl.coalesce("out_bytes", "in_bytes"))
        .otherwise(pl.coalesce("in_bytes", "out_bytes"))
    )
    alike = pl.when(is_between_two()).then(pl.lit("send and receive")).otherwise(pl.coalesce("type", "name"))
    dtype = pl.when(kind == _T.BARRIER.value).then(None).otherwise(pl.col("dtype").str.to_lowercase())
    signature = pl.struct(alike.alias("what"), size.alias("size"), dtype.alias("of"))
    return members.with_columns(signature.rank("dense").cast(pl.Int64).alias("token"))


def is_between_two() -> pl.Expr:
    """Whether a member is a send or a receive."""
    return pl.col("type").is_in([_T.SEND.value, _T.RECEIVE.value]).fill_null(value=False)


def is_of_all() -> pl.Expr:
    """Whether a member ends on no rank before all ranks have started theirs."""
    return pl.col("type").is_in(_OF_ALL).fill_null(value=False)


def is_of_unnamed() -> pl.Expr:
    """Whether nothing says of which group a member is."""
    return pl.all_horizontal(pl.col("process_group", "communicator", "group_ranks").is_null())


def may_be_of_several(ranks: pl.DataFrame) -> pl.Expr:
    """Whether nothing says of which group a member is, and its trace lists several.

    Args:
        ranks: `RANKS`.
    """
    several = ranks.filter(pl.col("groups") > 1).get_column("rank").implode()
    return is_of_unnamed() & pl.col("rank").is_in(several)
