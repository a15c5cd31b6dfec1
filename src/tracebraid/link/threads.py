"""Which logical thread of an Execution Trace is which thread of a Kineto trace?"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.link.sides import Codes, Side

__all__ = ["threads_of"]

_LEAST_ALIKE = 0.1
_DIGITS = 2
"""Threads that are alike to so many digits are told apart by when they ran."""
_MOMENTS = np.linspace(0, 1, 11)


def threads_of(nodes: Side, ops: Side, codes: tuple[Codes, Codes]) -> list[tuple[int, int]]:
    """Pairs of a thread of the nodes and one of the ops, one to one, the most alike first.

    Two threads are alike by the share of ops that both have (Dice's coefficient). Of equally alike ones those are a
    pair whose ops are spread over the trace in the same way.
    """
    counts = [_counts(side, code) for side, code in zip((nodes, ops), codes, strict=True)]
    sizes = [one.group_by("thread").agg(pl.col("count").sum().alias("size")) for one in counts]
    shared = (
        counts[0]
        .join(counts[1], on="code", suffix="_op")
        .group_by("thread", "thread_op")
        .agg(pl.min_horizontal("count", "count_op").sum().alias("shared"))
        .join(sizes[0], on="thread")
        .join(sizes[1].rename({"thread": "thread_op", "size": "size_op"}), on="thread_op")
        .with_columns((2 * pl.col("shared") / (pl.col("size") + pl.col("size_op"))).alias("alike"))
        .filter(pl.col("alike") >= _LEAST_ALIKE)
    )
    spread = [_spread(nodes.rows), _spread(ops.rows)]
    candidates = sorted(
        (
            (-round(alike, _DIGITS), float(np.abs(spread[0][one] - spread[1][other]).mean()), one, other)
            for one, other, alike in shared.select("thread", "thread_op", "alike").iter_rows()
        ),
    )
    pairs: list[tuple[int, int]] = []
    for _, _, one, other in candidates:
        if all(one != pair[0] and other != pair[1] for pair in pairs):
            pairs.append((one, other))
    return sorted(pairs)


def _counts(side: Side, codes: Codes) -> pl.DataFrame:
    told = side.rows.select("thread", pl.Series("code", codes.told))
    return told.group_by("thread", "code").agg(pl.len().cast(pl.Int64).alias("count"))


def _spread(rows: pl.DataFrame) -> dict[int, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """For each thread at which part of the trace it has done 0, a tenth, ... all of its ops."""
    ranked = rows.select("thread", (pl.col("order").rank("ordinal") / pl.len()).alias("moment"))
    return {
        int(thread[0]): np.quantile(part.get_column("moment").to_numpy(), _MOMENTS)
        for thread, part in ranked.partition_by("thread", as_dict=True).items()
    }
