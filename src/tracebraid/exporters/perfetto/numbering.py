"""Columns of tables as numpy arrays: texts as numbers of distinct texts, lists as JSON text."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.exporters.perfetto.content import Texts
from tracebraid.wire_format import Ints

__all__ = ["as_json_text", "numbered"]


def numbered(column: pl.Series) -> Texts:
    """The texts of a column as numbers, in the order in which they first occur.

    The codes of categoricals depend on what else the process has read; these numbers do not.
    """
    codes = column.cast(pl.Categorical).to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
    first = np.full(int(codes.max(initial=-1)) + 2, -1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    first[-1] = -1
    seen = np.flatnonzero(first >= 0)
    seen = seen[np.argsort(first[seen], kind="stable")]
    number: Ints = np.full(len(first), -1, dtype=np.int64)
    number[seen] = np.arange(len(seen))
    return Texts(number[codes], column.gather(first[seen]).cast(pl.String).to_list())


def as_json_text(column: pl.Series) -> pl.Series:
    """A column of lists or arrays of integers as JSON text; null where it is null."""
    lists = column.arr.to_list() if isinstance(column.dtype, pl.Array) else column
    texts = lists.list.eval(pl.element().cast(pl.String).fill_null("null")).list.join(",")
    return pl.select(pl.format("[{}]", texts).alias(column.name)).to_series()
