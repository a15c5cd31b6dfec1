"""What comes out of a query, in types that answers have: whole numbers, floats, texts, lists."""

from __future__ import annotations

import re

import polars as pl

__all__ = ["plain_columns", "unreadable_type"]

_UNREADABLE = re.compile(
    r"\b(INTERVAL|UNION|BIT|BIGNUM|VARINT|VARIANT|GEOMETRY|TIME WITH TIME ZONE|TIME_NS)\b"
)
"""Types of DuckDB that polars has no equal of."""
_QUOTED = re.compile(r"\"(?:[^\"]|\"\")*\"|'(?:[^']|'')*'")


def unreadable_type(text: str) -> bool:
    """Whether a type, by its text, holds one that polars has no equal of."""
    return _UNREADABLE.search(_QUOTED.sub("", text)) is not None


def plain_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with sums of whole numbers as such, other decimals as floats, and enums as text.

    DuckDB sums int64 as 128 bits, which come as decimals. A column with a value beyond int64 stays so.
    """
    return frame.with_columns(_plain(column) for column in frame.get_columns())


def _plain(column: pl.Series) -> pl.Series:
    dtype = _plain_type(column.dtype)
    if dtype is None:
        return column
    plain: pl.Series = column.cast(dtype, strict=False)
    return plain if plain.null_count() == column.null_count() else column


def _plain_type(dtype: pl.DataType) -> pl.DataType | None:
    """What a column is cast to; None: it stays as it is."""
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return pl.String()
    if isinstance(dtype, pl.Decimal):
        return pl.Float64() if dtype.scale else pl.Int64()
    return None
