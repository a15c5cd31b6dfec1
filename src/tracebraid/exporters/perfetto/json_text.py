"""Columns as JSON text, joined without a Python object for each row."""

from __future__ import annotations

import msgspec
import numpy as np
import polars as pl

from tracebraid.exporters.perfetto.content import ArgKind
from tracebraid.model.units import NS_PER_US
from tracebraid.wire_format import Ints

__all__ = ["decimal_us", "gathered", "joined", "json_of", "json_of_texts", "number_text"]

_DECIMALS = 3


def joined(*parts: str | pl.Expr) -> pl.Expr:
    """Texts and columns of text, one after the other, as the column `text`."""
    return pl.concat_str([pl.lit(part) if isinstance(part, str) else part for part in parts]).alias("text")


def json_of(text: str) -> str:
    """A text as JSON."""
    return msgspec.json.encode(text).decode()


def json_of_texts(texts: list[str], kind: ArgKind = ArgKind.TEXT) -> list[str]:
    """Each text as JSON; one that is JSON already as it is, unless it only seems to be."""
    return [text if kind is ArgKind.JSON and _is_json(text) else json_of(text) for text in texts]


def gathered(texts: list[str], numbers: Ints) -> pl.Series:
    """The text of each number; null below 0."""
    with_none = pl.Series([*texts, None], dtype=pl.String)
    return with_none.gather(np.where(numbers < 0, len(texts), numbers))


def decimal_us(column: str) -> pl.Expr:
    """Nanoseconds as decimal µs, exactly."""
    size = pl.col(column).abs()
    sign = pl.when(pl.col(column) < 0).then(pl.lit("-")).otherwise(pl.lit(""))
    rest = (size % NS_PER_US).cast(pl.String).str.zfill(_DECIMALS)
    return joined(sign, (size // NS_PER_US).cast(pl.String), ".", rest)


def number_text(column: str) -> pl.Expr:
    """A column of numbers or booleans as JSON; what JSON has no number for as text."""
    value = pl.col(column)
    return value.cast(pl.String)


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
