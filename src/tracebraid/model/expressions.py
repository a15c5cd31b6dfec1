"""Expressions over the tables of the model that every room needs."""

from __future__ import annotations

import polars as pl


def as_text(*columns: str) -> pl.Expr:
    """Columns as text, each under its name; nulls stay null.

    Names are categoricals in the tables: these take no string functions, and another table's have other codes.
    """
    return pl.col(*columns).cast(pl.String)


def by_number(*columns: str) -> list[pl.Expr]:
    """Sort keys that order numbers stored as text, such as those of devices and streams."""
    return [part for name in columns for part in (pl.col(name).str.len_bytes(), pl.col(name))]
