"""Which collectives that matching left open are done together? Those of which all ranks have equally many."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracebraid.exporters.chakra.plan.met_on_host import PAIRED
from tracebraid.model.collectives.codes import CollectiveType

__all__ = ["met_by_order"]

_T = CollectiveType
_EXCHANGE = _T.SEND_RECEIVE.value
_EVEN = [kind.value for kind in (_T.ALL_REDUCE, _T.ALL_GATHER, _T.BROADCAST, _T.REDUCE)]
"""All ranks give the same size."""
_BEHIND = 1 << 40
"""Numbers of what meets by order: behind those that matching gave."""
_SCHEMA = {"row": pl.Int64, "number": pl.Int64}


def met_by_order(rows: pl.DataFrame, listed: Sequence[int]) -> pl.DataFrame:
    """Collectives of one group, step, type and size, by their order on each rank: `row`, `number` within the group.

    A simulator needs a partner for each, and the right one is likely: all ranks of the group that have a trace did the
    same as often in the step. What contradicts the order of other communication is found later.

    Args:
        rows: what nothing matched, or not on all ranks: row, source, origin, step, type, in_bytes, start_ns, event_id,
            is_doubtful, participants.
        listed: the origins whose ranks a trace lists; of others only exchanges are taken, as of what several groups may
            be.
    """
    is_exchange = pl.col("type") == _EXCHANGE
    usable = pl.col("type").is_not_null() & ~pl.col("type").is_in(PAIRED) & ~pl.col("is_doubtful")
    open_ = rows.filter(
        usable & (pl.col("participants") > 1) & (is_exchange | pl.col("origin").is_in(list(listed)))
    ).with_columns(
        pl.col("step").cast(pl.String).fill_null("").alias("_step"),
        pl.when(pl.col("type").is_in(_EVEN)).then("in_bytes").fill_null(-1).alias("_size"),
    )
    if open_.is_empty():
        return pl.DataFrame(schema=_SCHEMA)
    alike = ["origin", "_step", "type", "_size"]
    counts = open_.group_by(*alike, "source").agg(
        pl.len().alias("count"), pl.col("participants").first(), pl.col("start_ns").min().alias("_begun")
    )
    equal = (
        counts.group_by(alike)
        .agg(
            pl.col("count").n_unique().alias("counts"),
            pl.len().alias("ranks"),
            pl.col("participants").first(),
            pl.col("_begun").min(),
        )
        .filter((pl.col("counts") == 1) & (pl.col("ranks") == pl.col("participants")))
        .select(*alike, "_begun")
    )
    found = open_.join(equal, on=alike, how="inner", nulls_equal=True).sort("source", "start_ns", "event_id")
    nth = pl.int_range(pl.len()).over(*alike, "source").alias("_nth")
    number = pl.struct("_begun", "_step", "type", "_size", "_nth").rank("dense").over("origin")
    return found.with_columns(nth).select("row", (number.cast(pl.Int64) + _BEHIND).alias("number"))
