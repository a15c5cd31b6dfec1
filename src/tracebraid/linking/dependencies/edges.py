"""Dependencies in the making: the columns that each kind's finder gives."""

from __future__ import annotations

import polars as pl

from tracebraid.linking.dependencies.moments import END, START

__all__ = ["ASSERTED", "EDGES", "END_TO_END", "END_TO_START", "START_TO_START", "edges", "no_edges"]

START_TO_START, END_TO_START, END_TO_END = (START, START), (END, START), (END, END)

ASSERTED = "asserted"
"""Whether the evidence says so by itself: if time contradicts it, that is worth a finding."""

EDGES = {
    "before_event": pl.Int64(),
    "before_moment": pl.String(),
    "after_event": pl.Int64(),
    "after_moment": pl.String(),
    "kind": pl.String(),
    "evidence": pl.String(),
    ASSERTED: pl.Boolean(),
}


def edges(
    pairs: pl.DataFrame,
    kind: str,
    moments: tuple[str, str],
    evidence: pl.Expr,
    asserted: pl.Expr | None = None,
) -> pl.DataFrame:
    """Edges from pairs with the columns `before_event` and `after_event`.

    Args:
        pairs: one row for each edge; rows with a null event are left out.
        kind: the kind of dependency.
        moments: the moment of the first event, and that of the second.
        evidence: the text that says what proves it.
        asserted: whether the evidence holds without regard to time; None: it does.
    """
    found = pairs.filter(pl.col("before_event").is_not_null() & pl.col("after_event").is_not_null())
    columns = {
        "before_event": pl.col("before_event"),
        "before_moment": pl.lit(moments[0]),
        "after_event": pl.col("after_event"),
        "after_moment": pl.lit(moments[1]),
        "kind": pl.lit(kind),
        "evidence": evidence,
        ASSERTED: pl.lit(True) if asserted is None else asserted,
    }
    return found.select(value.cast(EDGES[name]).alias(name) for name, value in columns.items())


def no_edges() -> pl.DataFrame:
    """No edges."""
    return pl.DataFrame(schema=EDGES)
