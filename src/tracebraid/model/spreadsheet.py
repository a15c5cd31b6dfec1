"""What a spreadsheet takes a text of CSV for."""

from __future__ import annotations

import polars as pl

__all__ = ["guarded"]

_RUNS = r"\A[=+\-@\t\r\n'\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}]"
"""What a text begins with that a spreadsheet runs as a formula (OWASP, CSV injection; the last four
are the first four in full width), or the apostrophe itself."""


def guarded(column: str) -> pl.Expr:
    """A column of text with an apostrophe before each text that a spreadsheet would run."""
    text = pl.col(column)
    return (
        pl.when(text.str.contains(_RUNS)).then(pl.concat_str(pl.lit("'"), text)).otherwise(text).alias(column)
    )
