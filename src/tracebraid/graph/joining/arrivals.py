"""Who waits for whom in a collective: by what its members do, and by when they started and ended."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = ["Arrivals", "arrivals"]

_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Arrivals:
    """The members of collectives that can have happened as their times say, by collective.

    Args:
        members: rows of `matched_members`, with `number`, of the collective, from 0 up.
        arrives: of each member, whether others wait for its start.
        waits: of each member, whether its end waits for the last arrival.
        arrival_ns: of each collective, the last arrival.
        contradicted: the collectives that are left out: a member ended before another had arrived.
        clamped: members that ended before the last arrival by less than clocks may err; they do not wait.
    """

    members: pl.DataFrame
    arrives: _Flags
    waits: _Flags
    arrival_ns: _Ints
    contradicted: _Ints
    clamped: int


def arrivals(members: pl.DataFrame, times_ns: _Ints) -> Arrivals:
    """Who arrives and who waits.

    Where no member ended before all had started, all wait for all. Else those that only receive wait for those that
    send: the root of a broadcast, or an eager send, may end before a receiver has started.

    Args:
        members: `matched_members`.
        times_ns: of each moment.
    """
    known = _judged(_numbered(members), times_ns)
    beyond = known.get_column("beyond_ns").to_numpy() > known.get_column("tolerance_ns").to_numpy()
    # A member without duration was damaged, and contradicts all that come later.
    damaged = beyond & (known.get_column("end_ns") <= known.get_column("start_ns")).to_numpy()
    if damaged.any():
        known = _judged(_numbered(known.filter(~pl.Series(damaged)).select(members.columns)), times_ns)
        beyond = known.get_column("beyond_ns").to_numpy() > known.get_column("tolerance_ns").to_numpy()
    contradicted = known.filter(pl.Series(beyond)).get_column("collective").unique().sort().to_numpy()
    known = _judged(_numbered(known.filter(~pl.Series(beyond)).select(members.columns)), times_ns)
    arrival = known.get_column("arrival_ns").to_numpy()
    waits = known.get_column("waits").to_numpy()
    late = waits & (known.get_column("end_ns").to_numpy() < arrival)
    first = np.flatnonzero(np.diff(known.get_column("number").to_numpy(), prepend=-1))
    return Arrivals(
        known,
        known.get_column("arrives").to_numpy(),
        waits & ~late,
        arrival[first],
        contradicted,
        int(late.sum()),
    )


def _numbered(members: pl.DataFrame) -> pl.DataFrame:
    """Those of collectives of which two members are there; their numbers without a gap."""
    found = members.filter(pl.len().over("collective") > 1)
    return found.with_columns(number=pl.col("collective").rank("dense").cast(pl.Int64) - 1)


def _judged(members: pl.DataFrame, times_ns: _Ints) -> pl.DataFrame:
    """With the times of each member, whether it arrives and waits, and of its collective the last arrival, and
    `beyond_ns`, by how much that is later than the end of one that waits for it.
    """
    own = members.get_column("activity").to_numpy()
    start, end = pl.col("start_ns"), pl.col("end_ns")
    timed = members.with_columns(
        pl.Series("start_ns", times_ns[2 * own], dtype=pl.Int64),
        pl.Series("end_ns", times_ns[2 * own + 1], dtype=pl.Int64),
    )
    both = (end.min() >= start.max()).over("number")
    # Without one that sends, or one that receives, roles say nothing.
    of_all = both | ~(pl.col("sends").any() & pl.col("receives").any()).over("number")
    timed = timed.with_columns(arrives=of_all | pl.col("sends"), waits=of_all | pl.col("receives"))
    return timed.with_columns(
        start.filter("arrives").max().over("number").alias("arrival_ns"),
        (start.filter("arrives").max() - end.filter("waits").min()).over("number").alias("beyond_ns"),
    )
