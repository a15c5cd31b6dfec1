"""Expressions over the tables of the model that every room needs."""

from __future__ import annotations

import polars as pl

__all__ = ["as_text"]


def as_text(*columns: str) -> pl.Expr:
    """Columns as text, each under its name; nulls stay null.

    Names are categoricals in the tables: these take no string functions, and another table's have other codes.
    """
    return pl.col(*columns).cast(pl.String)
