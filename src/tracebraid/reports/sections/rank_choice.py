"""Of many ranks those that a chart shows: the ones that differ most; and blocks of ranks where it shows all."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

__all__ = ["blocks", "different", "rank_label", "step_label"]


def different(frame: pl.DataFrame, values: Sequence[str], keys: Sequence[str], most: int) -> list[int]:
    """The ranks whose values differ most from the median of all, in order; all ranks where they are few.

    Args:
        frame: has `rank`.
        values: columns that are compared.
        keys: columns within whose equal rows ranks are compared, such as `step`.
        most: how many ranks there may be.
    """
    ranks: list[int] = frame.get_column("rank").unique().sort().to_list()
    if len(ranks) <= most:
        return ranks
    apart = pl.sum_horizontal(
        (pl.col(name) - (pl.col(name).median().over(keys) if keys else pl.col(name).median())).abs()
        for name in values
    )
    summed = frame.select("rank", apart.alias("apart")).group_by("rank").agg(pl.col("apart").sum())
    kept = summed.sort("apart", "rank", descending=[True, False]).head(most).get_column("rank")
    return sorted(kept)


def blocks(frame: pl.DataFrame, value: str, most: int) -> pl.DataFrame:
    """Blocks of ranks that follow each other, each with its `first` and `last` rank, `low`, `median` and `high` value.

    Args:
        frame: has `rank` and the value.
        value: the column.
        most: how many blocks there may be.
    """
    ordered = frame.select("rank", pl.col(value).cast(pl.Float64)).drop_nulls().sort("rank")
    size = max(1, -(-ordered.height // most))
    return (
        ordered.with_columns((pl.int_range(pl.len()) // size).alias("block"))
        .group_by("block", maintain_order=True)
        .agg(
            pl.col("rank").first().alias("first"),
            pl.col("rank").last().alias("last"),
            pl.col(value).min().alias("low"),
            pl.col(value).median().alias("median"),
            pl.col(value).max().alias("high"),
        )
        .drop("block")
    )


def rank_label(rank: int, device: str | None = None) -> str:
    """What a rank is called in a chart."""
    if device is None:
        return f"rank {rank}"
    return f"rank {rank}, host" if device == "cpu" else f"rank {rank}, device {device}"


def step_label(step: str) -> str:
    """The number of a step alone, where its annotation's name ends in one."""
    tail = step.rpartition("#")[2]
    return tail if tail.isdigit() else step
