"""What the nodes of an ET+ file wait for, as pairs of rows in the order of their starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = ["Order", "order_of"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Order:
    """What waits for what.

    Args:
        before: the row that is waited for, lower than `after`.
        after: the row that waits.
        lane: of each row: threads and streams, numbered.
        contradicted: waits for a node that begins later, which are left out: they would be circles.
        unknown: waits for a node that has no time, or that is not there.
    """

    before: _Ints
    after: _Ints
    lane: _Ints
    contradicted: int
    unknown: int


def order_of(nodes: pl.DataFrame, waits: Sequence[tuple[int, int]], communication: pl.DataFrame) -> Order:
    """The order of threads and streams, launches, calls of other threads, and what the file says beside it.

    Collectives of a process group follow each other, on whatever stream or thread they are.

    Args:
        nodes: those with a time, in the order of their starts; the row is their number.
        waits: pairs of ids: the node that waits, and the one that it waits for.
        communication: `node_id`, `comm_type` and `pg_name` of what communicates.
    """
    numbered = nodes.with_columns(
        row=pl.int_range(pl.len(), dtype=pl.Int64),
        on_device=pl.col("category").is_not_null(),
        track=pl.when(pl.col("category").is_not_null()).then("stream").otherwise("tid"),
    )
    lane = numbered.select(pl.struct("on_device", "track").rank("dense")).to_series().cast(pl.Int64)
    numbered = numbered.with_columns(lane=lane)
    chained = numbered.select(before=pl.col("row").shift(1).over("lane"), after="row").drop_nulls()
    collectives = communication.filter(pl.col("comm_type").is_not_null()).select("node_id", "pg_name")
    grouped = numbered.drop("pg_name").join(collectives, on="node_id", how="inner", maintain_order="left")
    met = grouped.select(before=pl.col("row").shift(1).over("pg_name"), after="row").drop_nulls()
    of_id = numbered.select(pl.col("node_id").alias("other"), before="row", before_lane="lane")
    calls = numbered.join(of_id, left_on="parent_id", right_on="other", how="inner").filter(
        pl.col("lane") != pl.col("before_lane")
    )
    named = pl.DataFrame(list(waits), schema={"node_id": pl.Int64, "other": pl.Int64}, orient="row")
    known = named.join(numbered.select("node_id", after="row"), on="node_id", how="inner")
    known = known.join(of_id, on="other", how="inner")
    columns = (pl.col("before").cast(pl.Int64), pl.col("after").cast(pl.Int64))
    further = pl.concat([calls.select("before", after="row").select(columns), known.select(columns)])
    forward = further.filter(pl.col("before") < pl.col("after"))
    pairs = pl.concat([chained.select(columns), met.select(columns), forward])
    return Order(
        pairs.get_column("before").to_numpy(),
        pairs.get_column("after").to_numpy(),
        lane.to_numpy(),
        further.height - forward.height,
        named.height - known.height,
    )
