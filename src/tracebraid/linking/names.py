"""When do a node's name and an event's name mean the same, although Kineto does not write every character?"""

from __future__ import annotations

import polars as pl

__all__ = ["SAME_NAME", "as_kineto_writes"]

SAME_NAME = (pl.col("name") == pl.col("node_name")) | (pl.col("name") == pl.col("kineto_name"))
"""Whether a pair of an event with `name` and a node with `node_name` and `kineto_name` agrees in name."""

_UNPRINTABLE = r"[^\x20-\x7e]"


def as_kineto_writes(name: pl.Expr) -> pl.Expr:
    """A name as Kineto writes it: a backslash turned over, newlines left out; with other characters, `unknown`."""
    plain = name.str.replace_all("\n", "", literal=True).str.replace_all("\\", "/", literal=True)
    return pl.when(plain.str.contains(_UNPRINTABLE)).then(pl.lit("unknown")).otherwise(plain)
