"""Moments of a table from the start of the traces, as they are shown."""

from __future__ import annotations

import polars as pl

from tracebraid.model.report import DataTable
from tracebraid.reports.answers import MOMENTS


def relative_moments(table: DataTable) -> pl.DataFrame:
    """Return the table with moments in ns relative to the start of the rank's trace, or of the first trace."""
    frame = table.frame
    moments = [name for name in frame.columns if name in MOMENTS]
    start = pl.lit(table.start_ns, dtype=pl.Int64)
    if table.starts and "rank" in frame.columns:
        start = (
            pl.col("rank")
            .cast(pl.Int64)
            .replace_strict(
                list(table.starts), list(table.starts.values()), default=table.start_ns, return_dtype=pl.Int64
            )
        )
    return frame.with_columns(pl.col(moments) - start)
