"""Columns as text that a page can hold: compressed, in base64; `js/data_block.js` decodes them.

A block is gzip of: the length of the header (uint32, little endian), the header as JSON, and the bytes of all columns.
The header names the rows and columns; of each its `type`, and where its bytes are. Numbers are stored as the
narrowest unsigned integers that hold them after subtracting `least`, bytes of equal weight together (that compresses
better); with `delta`, as differences to the row before. Text is stored as indices into `texts`.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import numpy as np
import polars as pl
from isal import igzip

__all__ = ["data_block"]

_LEVEL = 3
"""igzip's smallest."""
_WIDTHS = (1, 2, 4, 8)


def data_block(frame: pl.DataFrame) -> str:
    """The frame as base64 text of compressed columns; equal frames give equal text.

    Args:
        frame: numbers, booleans, texts; lists become JSON text. Integers are exact up to 2^53 in size.
    """
    columns: list[dict[str, Any]] = []
    parts: list[bytes] = []
    offset = 0
    for series in frame.get_columns():
        header, data = _column(series)
        columns.append({"name": series.name, "offset": offset, **header})
        parts.append(data)
        offset += len(data)
    head = msgspec.json.encode({"rows": frame.height, "columns": columns})
    raw = len(head).to_bytes(4, "little") + head + b"".join(parts)
    return base64.b64encode(igzip.compress(raw, _LEVEL, mtime=0)).decode("ascii")


def _column(series: pl.Series) -> tuple[dict[str, Any], bytes]:
    if series.dtype.is_float():
        return {"type": "float"}, _planes(series.cast(pl.Float64).fill_null(np.nan).to_numpy(), 8)
    if series.dtype.is_integer() or series.dtype == pl.Boolean:
        header, data = _integers(series.cast(pl.Int64))
        return {**header, "type": "bool" if series.dtype == pl.Boolean else "int"}, data
    return _texts(series)


def _integers(series: pl.Series) -> tuple[dict[str, Any], bytes]:
    """Integers; null is the greatest number of its width."""
    nulls = series.is_null().to_numpy()
    values = series.fill_null(0).to_numpy().astype(np.int64)
    plain = _narrow(values, nulls)
    if len(values) > 1 and not nulls.any():
        deltas = np.concatenate([values[:1] * 0, np.diff(values)])
        by_delta = _narrow(deltas, nulls)
        if by_delta[0]["width"] < plain[0]["width"]:
            return {**by_delta[0], "delta": True, "first": int(values[0])}, by_delta[1]
    return plain


def _narrow(values: np.ndarray[Any, Any], nulls: np.ndarray[Any, Any]) -> tuple[dict[str, Any], bytes]:
    known = values[~nulls]
    least = int(known.min()) if len(known) else 0
    span = int(known.max()) - least if len(known) else 0
    has_nulls = bool(nulls.any())
    width = next(width for width in _WIDTHS if width == 8 or span + has_nulls < 1 << (8 * width))
    shifted = (values - least).astype(np.uint64)
    if has_nulls:
        shifted[nulls] = (1 << (8 * width)) - 1
    data = shifted.astype(f"<u{width}")
    return {"least": least, "width": width, "nulls": has_nulls}, _planes(data, width)


def _texts(series: pl.Series) -> tuple[dict[str, Any], bytes]:
    if isinstance(series.dtype, pl.List | pl.Array | pl.Struct):
        values = [
            None if value is None else msgspec.json.encode(value).decode() for value in series.to_list()
        ]
        series = pl.Series(series.name, values, dtype=pl.String)
    text = series.cast(pl.String)
    distinct = text.drop_nulls().unique(maintain_order=True)
    codes = text.to_frame("text").join(
        distinct.to_frame("text").with_row_index("code"), on="text", how="left", maintain_order="left"
    )
    header, data = _integers(codes.get_column("code").cast(pl.Int64))
    return {**header, "type": "text", "texts": distinct.to_list()}, data


def _planes(values: np.ndarray[Any, Any], width: int) -> bytes:
    """The lowest bytes of all values, then the next ones."""
    little = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<"), copy=False))
    planes: bytes = little.view(np.uint8).reshape(-1, width).T.tobytes()
    return planes
