"""How many bytes does a rank give to a collective, and how many does it get?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.time.message_sizes import MOST_ELEMENTS, itemsize_of
from tracebraid.model.collectives.codes import CollectiveType

__all__ = ["with_bytes"]

_OUTPUT_FIRST = (
    r"^c10d::(?:_?allgather_|_allgather_base_|allgather_into_tensor|reduce_scatter_|_reduce_scatter_base_"
    r"|alltoall|gather_|scatter_)"
)
"""Ops of which the first argument is what they write: its shapes are those of the output."""

_T = CollectiveType
_SAME = [kind.value for kind in (_T.ALL_REDUCE, _T.BROADCAST)]


def with_bytes(found: pl.DataFrame) -> pl.DataFrame:
    """With in_bytes, out_bytes, in_split and out_split.

    Bytes are the arguments' elements times the size of their type, else those of the op's first argument by its
    shapes. Where only one of both is known, the type says the other: an all-gather's output is its input times the
    ranks of its group, a reduce-scatter's the input by them.

    Args:
        found: name, type, kernel, dtype, first_bytes, group_size, in_msg_nelems, out_msg_nelems, in_split_size,
            out_split_size.
    """
    sizes = {text: itemsize_of(text) for text in found.get_column("dtype").drop_nulls().unique().to_list()}
    itemsize = pl.col("dtype").replace_strict(sizes, default=None, return_dtype=pl.Int64)
    output_first = pl.col("name").str.contains(_OUTPUT_FIRST)
    first, given = pl.col("first_bytes"), pl.col("in_msg_nelems").is_not_null()
    found = found.with_columns(
        pl.coalesce(_possible("in_msg_nelems") * itemsize, pl.when(~output_first & ~given).then(first)).alias(
            "_in"
        ),
        pl.coalesce(_possible("out_msg_nelems") * itemsize, pl.when(output_first & ~given).then(first)).alias(
            "_out"
        ),
    )
    return found.with_columns(
        pl.coalesce("_in", _other("_out", grows=False)).alias("in_bytes"),
        pl.coalesce("_out", _other("_in", grows=True)).alias("out_bytes"),
        _split("in_split_size").alias("in_split"),
        _split("out_split_size").alias("out_split"),
    )


def _possible(elements: str) -> pl.Expr:
    return pl.when(pl.col(elements).is_between(0, MOST_ELEMENTS)).then(elements)


def _split(column: str) -> pl.Expr:
    text = pl.col(column).cast(pl.String)
    return pl.when(text.str.contains(r"\d")).then(text.str.strip_chars('"'))


def _other(known: str, *, grows: bool) -> pl.Expr:
    """The output of an input, or if it does not grow, the input of an output; null where the type does not say."""
    kind, size, held = pl.col("type"), pl.col("group_size"), pl.col(known)
    gathers, scatters = _T.ALL_GATHER.value, _T.REDUCE_SCATTER.value
    more, less = (gathers, scatters) if grows else (scatters, gathers)
    divides = (size > 0) & (held % size == 0)
    splits = pl.col("in_split_size").cast(pl.String).str.contains(r"\d").fill_null(value=False)
    even = (kind == _T.ALL_TO_ALL.value) & ~splits
    return (
        pl.when(kind.is_in(_SAME) | even)
        .then(held)
        .when((kind == more) & (size <= MOST_ELEMENTS // held.clip(1)))
        .then(held * size)
        .when((kind == less) & divides)
        .then(held // size)
    )
