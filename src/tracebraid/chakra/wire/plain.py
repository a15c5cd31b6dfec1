"""Messages whose every field is one of the schema, and what is raised for those that protobuf has to look at."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.chakra.wire.fields import FIXED32, FIXED64, LENGTH, VARINT, Fields, Slices
from tracebraid.chakra.wire.texts import numbered_texts

__all__ = [
    "ATTRIBUTE_FIELDS",
    "IO_FIELDS",
    "NODE_FIELDS",
    "NotPlainError",
    "code_names",
    "text_column",
    "unexpected",
]

_MOST_NUMBER = 33
_WIRE_TYPES = 8

NODE_FIELDS: dict[int, tuple[int, ...]] = {
    **dict.fromkeys((1, 3, 6, 7), (VARINT,)),
    **dict.fromkeys((2, 8, 9, 10), (LENGTH,)),
    **dict.fromkeys((4, 5), (LENGTH, VARINT)),
}
IO_FIELDS: dict[int, tuple[int, ...]] = dict.fromkeys((1, 2, 3), (LENGTH,))
ATTRIBUTE_FIELDS: dict[int, tuple[int, ...]] = {
    **dict.fromkeys((1, 2, 29, 31, *range(4, 33, 2)), (LENGTH,)),
    **dict.fromkeys((3, 21, 25), (FIXED64,)),
    **dict.fromkeys((5, 19, 23), (FIXED32,)),
    **dict.fromkeys((7, 9, 11, 13, 15, 17, 27), (VARINT,)),
}
"""The numbers of the fields of `Node`, `IOInfo` and `AttributeProto`, and how each may be written."""


class NotPlainError(Exception):
    """Messages hold something else than the schema says, or are damaged: protobuf has to say what they mean."""


def unexpected(fields: Fields, schema: Mapping[int, tuple[int, ...]]) -> NDArray[np.bool_]:
    """Whether each message is damaged, or holds a field that the schema does not have so."""
    allowed = np.zeros((_MOST_NUMBER + 1, _WIRE_TYPES), dtype=np.bool_)
    for number, wire_types in schema.items():
        allowed[number, wire_types] = True
    wrong = ~allowed[np.minimum(fields.number, _MOST_NUMBER), fields.wire_type]
    found = ~fields.readable
    found[fields.row[wrong]] = True
    return found


def text_column(data: bytes, slices: Slices, rows: NDArray[np.int64], count: int) -> pl.Series:
    """Texts as a column with nulls.

    Args:
        data: holds them.
        slices: where they lie.
        rows: the row of each; of several of one row the last counts.
        count: rows of the column.

    Raises:
        UnicodeDecodeError: one is no UTF-8.
    """
    number, texts = numbered_texts(data, slices)
    position = np.full(count, len(texts), dtype=np.int64)
    position[rows] = number
    known = pl.Series([*(text.decode() for text in texts), None], dtype=pl.String)
    return known.gather(pl.Series(position))


def code_names(numbers: pl.Series, codes: type[IntEnum]) -> pl.Series:
    """Codes by their names, and by their numbers where the schema has none."""
    names: list[str | None] = []
    unique = numbers.unique()
    for number in unique.to_list():
        known = number in codes.__members__.values()
        names.append(None if number is None else codes(number).name if known else str(number))
    found: pl.Series = numbers.replace_strict(
        unique, pl.Series(names, dtype=pl.String), return_dtype=pl.String
    )
    return found
