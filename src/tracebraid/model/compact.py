"""Tables that outlive what they were taken from."""

from __future__ import annotations

from io import BytesIO

import polars as pl

_SMALL = 1_000
"""Rows of a table whose texts are copied one by one: for less than 1 ms, which writing takes for the smallest table."""


def compact(frame: pl.DataFrame) -> pl.DataFrame:
    """The same table in memory of its own.

    A column of text refers to the text of all columns that it was made of: a small table would keep ten times its own
    size of the trace.
    """
    texts = [column for column in frame.get_columns() if column.dtype == pl.String]
    if not texts:
        return frame
    if frame.height <= _SMALL:
        own = {text.name: pl.Series(text.name, text.to_list(), dtype=pl.String) for text in texts}
        return pl.DataFrame([own.get(column.name, column) for column in frame.get_columns()])
    # Writing collects the text that is referred to; reading gives it memory of its own.
    written = BytesIO()
    pl.DataFrame(texts).write_ipc(written)
    return frame.with_columns(pl.read_ipc(written.getvalue()).get_columns())
