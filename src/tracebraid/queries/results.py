"""Results of a query, in types that answers have: whole numbers, floats, texts, lists."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import polars as pl

_UNREADABLE = re.compile(
    r"\b(INTERVAL|UNION|BIT|BIGNUM|VARINT|VARIANT|GEOMETRY|TIME WITH TIME ZONE|TIME_NS)\b"
)
"""Types of DuckDB that polars does not support."""
_QUOTED = re.compile(r"\"(?:[^\"]|\"\")*\"|'(?:[^']|'')*'")


def unreadable_type(text: str) -> bool:
    """Return whether a type contains one that polars does not support."""
    return _UNREADABLE.search(_QUOTED.sub("", text)) is not None


def frame_of(relation: Any) -> pl.DataFrame:
    """The rows of a relation, by Arrow's C interface."""
    return pl.DataFrame(relation)


def plain_types(schema: pl.Schema, is_int64: Callable[[str], bool]) -> dict[Any, pl.DataType]:
    """Choose casts of columns: integer sums to integers, other decimals to floats, enums to text.

    DuckDB sums int64 as 128 bits, returned as decimals. A column with a value beyond int64 stays decimal.
    """
    types: dict[Any, pl.DataType] = {}
    for name, dtype in schema.items():
        if isinstance(dtype, pl.Categorical | pl.Enum):
            types[name] = pl.String()
        elif isinstance(dtype, pl.Decimal) and dtype.scale:
            types[name] = pl.Float64()
        elif isinstance(dtype, pl.Decimal) and is_int64(name):
            types[name] = pl.Int64()
    return types
