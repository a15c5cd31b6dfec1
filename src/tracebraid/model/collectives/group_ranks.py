"""The ranks of a process group as text.

A job of n ranks has n members of a collective of all of them: with a list in each row, its tables would grow with the
square of the ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import polars as pl

__all__ = ["ranks_in_text", "ranks_listed", "text_of_ranks"]


def text_of_ranks(ranks: Sequence[int] | None) -> str | None:
    """`group_ranks` of `MEMBERS`; None: unknown."""
    return None if ranks is None else msgspec.json.encode(ranks).decode()


def ranks_in_text(text: str | None) -> tuple[int, ...]:
    """The ranks of a group, in the order of the group; none where they are unknown."""
    return () if text is None else msgspec.json.decode(text, type=tuple[int, ...])


def ranks_listed(frame: pl.DataFrame) -> pl.DataFrame:
    """The same rows, whose `group_ranks` are lists; each text is decoded once."""
    texts = frame.select("group_ranks").unique()
    lists = texts.with_columns(
        pl.col("group_ranks").cast(pl.String).str.json_decode(pl.List(pl.Int64)).alias("_listed")
    )
    joined = frame.join(lists, on="group_ranks", how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(pl.col("_listed").alias("group_ranks")).drop("_listed")
