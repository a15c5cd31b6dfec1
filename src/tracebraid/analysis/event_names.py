"""The names of a rank's events, each once: far fewer than events, and enough to see that a question has no answer."""

from __future__ import annotations

import polars as pl

from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["event_names", "names_match"]


def event_names(linked: LinkedTrace) -> list[str]:
    """The distinct names of all events, in the order in which they first appear."""
    return linked.derived(_event_names)


def _event_names(linked: LinkedTrace) -> list[str]:
    names = linked.timeline.events.select("name").unique(maintain_order=True)
    found: list[str] = names.select(as_text("name")).get_column("name").drop_nulls().to_list()
    return found


def names_match(names: pl.Series, pattern: str) -> pl.Series:
    """Whether each name matches a regular expression; null does not.

    Args:
        names: a categorical or text column: names repeat, and those of kernels are long.
        pattern: the regular expression.
    """
    distinct = names.unique().drop_nulls()
    found = distinct.filter(distinct.cast(pl.String).str.contains(pattern))
    return names.is_in(found.implode()).fill_null(value=False)
