"""Escape CSV text that a spreadsheet would run as a formula."""

from __future__ import annotations

import polars as pl

_RUNS = r"\A[=+\-@\t\r\n'\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}]"
"""First characters of texts that a spreadsheet runs as formulas (OWASP, CSV injection; the last four
are the first four in full width), or the apostrophe itself."""


def guarded(column: str) -> pl.Expr:
    """A column of text with an apostrophe before each text that a spreadsheet would run."""
    text = pl.col(column)
    return (
        pl.when(text.str.contains(_RUNS)).then(pl.concat_str(pl.lit("'"), text)).otherwise(text).alias(column)
    )
