"""Changes of tables: what their columns are called, of what type they are, and what they hold."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

__all__ = ["changed_frame"]

_NUMBERS = (0, -1, 1, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 10**15)
_TEXTS = (
    "",
    "\x1b[31m",
    "=1+1",
    "\u202e",
    "\0",
    "<b>",
    "{",
    "[[[[",
    "null",
    "1e999",
    "NaN",
    "9" * 5000,
    "[1,2]",
)
_FLOATS = (float("nan"), float("inf"), -float("inf"), -0.0, 1e308, 5e-324)
_TYPES = (
    pl.Int64(), pl.Int32(), pl.UInt64(), pl.Float64(), pl.String(), pl.Boolean(), pl.Binary(), pl.Null(),
    pl.Categorical(), pl.Date(), pl.Datetime("us"), pl.List(pl.Int64()), pl.Decimal(38, 0),
)  # fmt: skip


def changed_frame(frame: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    """The table with one change."""
    if not frame.width:
        return pl.DataFrame({"column": [1, 2]})
    return rng.choice(_CHANGES)(frame, rng)


def _value(dtype: pl.DataType, rng: random.Random) -> Any:
    """An odd value of a type."""
    if rng.random() < 0.2:
        return None
    if dtype.is_integer():
        return rng.choice(_NUMBERS)
    if dtype.is_float():
        return rng.choice(_FLOATS)
    if dtype in (pl.String, pl.Categorical):
        return rng.choice(_TEXTS)
    if dtype == pl.Boolean:
        return rng.random() < 0.5
    if isinstance(dtype, pl.List | pl.Array):
        count = dtype.size if isinstance(dtype, pl.Array) else rng.choice((0, 1, 30))
        inner = dtype.inner
        assert isinstance(inner, pl.DataType)
        return [_value(inner, rng) for _ in range(count)]
    return None


def _values(frame: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    """Odd values in some rows of a column, or in all."""
    name = rng.choice(frame.columns)
    dtype = frame.schema[name]
    count = frame.height if rng.random() < 0.3 else rng.randint(0, min(3, frame.height))
    changed = frame.get_column(name).to_list()
    for row in rng.sample(range(frame.height), count):
        changed[row] = _value(dtype, rng)
    return frame.with_columns(pl.Series(name, changed, dtype=dtype, strict=False))


def _same(frame: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    """One value in all rows."""
    name = rng.choice(frame.columns)
    return frame.with_columns(pl.col(name).first()) if frame.height else frame


def _type(frame: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    name, dtype = rng.choice(frame.columns), rng.choice(_TYPES)
    try:
        return frame.with_columns(pl.col(name).cast(dtype, strict=False))
    except pl.exceptions.PolarsError:
        return frame.with_columns(pl.lit(None, dtype=dtype).alias(name))


def _columns(frame: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    """A column is missing, has another name or place, or one is too many."""
    name = rng.choice(frame.columns)
    ways: Sequence[Callable[[], pl.DataFrame]] = (
        lambda: frame.drop(name),
        lambda: frame.rename({name: rng.choice(("", "\x1b[0m", "x" * 3000, f"{name}\0", "\u202e"))}),
        lambda: frame.select(rng.sample(frame.columns, frame.width)),
        lambda: frame.with_columns(pl.lit(1).alias("one too many")),
        lambda: frame.select([]),
    )
    return rng.choice(ways)()


def _rows(frame: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    """Rows are missing, there twice, or in another order."""
    ways: Sequence[Callable[[], pl.DataFrame]] = (
        frame.clear,
        lambda: frame.head(rng.randint(0, frame.height)),
        lambda: frame.reverse(),
        lambda: pl.concat([frame] * rng.choice((2, 50))),
        lambda: frame.sample(fraction=1.0, shuffle=True, seed=rng.randrange(1 << 30)),
    )
    return rng.choice(ways)()


_CHANGES = (_values, _values, _values, _same, _type, _columns, _rows)
