"""Collectives that were matched by order and that aligned clocks contradict: a rank ends before another one starts."""

from __future__ import annotations

import polars as pl

from tracebraid.linking.ranks.matching.signatures import is_of_all
from tracebraid.model.collectives.codes import SAME_CLOCK_NS, ClockMethod, CollectiveType, MatchMethod

__all__ = ["without_impossible"]

_BY_ORDER = [
    method.value for method in (MatchMethod.GROUP_ORDER, MatchMethod.ALIGNED_ORDER, MatchMethod.TIME)
]


def without_impossible(
    members: pl.DataFrame, collectives: pl.DataFrame, clocks: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The same without matches that cannot be: their members are unmatched again.

    Only types that end on no rank before all have started are judged, and all-to-alls, of which ranks that exchange
    nothing might not overlap: nothing but their order says then that they are of the same. Only clocks that are known
    judge; a gap counts beyond the widest interval of the members' clocks.

    Args:
        members: `MEMBERS`, on aligned clocks.
        collectives: `MATCHED_COLLECTIVES`.
        clocks: `CLOCKS`.
    """
    if collectives.is_empty():
        return members, collectives
    known = clocks.filter(pl.col("method") != ClockMethod.UNKNOWN.value).select(
        "rank", (pl.col("offset_high_ns") - pl.col("offset_low_ns")).fill_null(0).alias("_width")
    )
    by_order = collectives.filter(pl.col("method").is_in(_BY_ORDER)).select("collective")
    gap = pl.col("start_ns").max() - pl.col("end_ns").min()
    apart = (
        members.filter(is_of_all() | (pl.col("type") == CollectiveType.ALL_TO_ALL.value))
        .join(by_order, on="collective", how="semi")
        .join(known, on="rank")
        .group_by("collective")
        .agg((gap > SAME_CLOCK_NS + pl.col("_width").max()).alias("apart"))
        .filter("apart")
        .get_column("collective")
    )
    is_apart = pl.col("collective").is_in(apart.implode())
    unmatched = pl.when(~is_apart).then("collective").alias("collective")
    return members.with_columns(unmatched), collectives.filter(~is_apart)
