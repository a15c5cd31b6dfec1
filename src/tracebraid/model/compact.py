"""Tables that outlive what they were taken from."""

from __future__ import annotations

from io import BytesIO

import polars as pl

__all__ = ["compact"]


def compact(frame: pl.DataFrame) -> pl.DataFrame:
    """The same table in memory of its own.

    A column of text refers to the text of all columns that it was made of: a small table would keep ten times its own
    size of the trace.
    """
    texts = frame.select(pl.col(pl.String))
    if not texts.width:
        return frame
    # Writing collects the text that is referred to; reading gives it memory of its own.
    written = BytesIO()
    texts.write_ipc(written)
    return frame.with_columns(pl.read_ipc(written.getvalue()).get_columns())
