"""Times at which members of communication meet, and durations from then, so that all keep their times."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.native.loops import native_loop

_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]

MEETING_COLUMNS = ("lasts_ns", "early_ns", "may_lead", "moved_ns")
"""The columns of `CHAKRA_COMMUNICATION` that this module fills."""
_LONGEST_LEAD_NS = 100_000
"""Latency of a stream between two of its works: the graph explains no longer one (`Residual.UNEXPLAINED`)."""
_NEVER = np.iinfo(np.int64).min
_FOREVER = np.iinfo(np.int64).max


class _Rows(NamedTuple):
    """Communication by order; each array has an entry for each row.

    Args:
        order: rows of equal order meet each other.
        rank: dense.
        block: rows of a rank with the same number do not wait for each other.
        start_ns, end_ns: measured, on the clock of the simulation.
        receives: a receive takes no lane.
        partner: the row of the matching receive or send; -1: none.
        follows: it began right after the previous row, on the same stream.
    """

    order: _Ints
    rank: _Ints
    block: _Ints
    start_ns: _Ints
    end_ns: _Ints
    receives: _Flags
    partner: _Ints
    follows: _Flags


def with_meeting_times(rows: pl.DataFrame, single_lane: bool) -> pl.DataFrame:
    """Add `MEETING_COLUMNS`, as in `CHAKRA_COMMUNICATION`.

    Simulators let the members of a collective begin when the last of them is there, and a rank issue its communication
    in the order of all ranks. Backward through that order it is known until when each has to be issued so that nothing
    ends later than measured; what began later than that, since clocks disagree or a member ended before the last one
    came, is issued earlier. Forward it is known when members meet; each lasts from then to its end.

    With one lane, each also waits for the end of the one before it. So one ends earlier than measured where one behind
    it did: its rank waits for the rest of the time elsewhere.
    """
    ordered = rows.with_row_index("_row").sort("order", "rank", "_row")
    block = pl.struct("rank", "event_id").rle_id() if single_lane else pl.int_range(pl.len())
    ordered = (
        ordered.sort("rank", "order", "_row")
        .with_columns(block.cast(pl.Int64).alias("_block"), _follows().alias("_follows"))
        .sort("order", "rank", "_row")
        .with_columns(pl.int_range(pl.len()).alias("_at"))
    )
    other = pl.col("_at").sum().over("pair") - pl.col("_at")
    is_pair = pl.col("pair").is_not_null() & (pl.len().over("pair") == 2)
    ordered = ordered.with_columns(pl.when(is_pair).then(other).otherwise(-1).alias("_partner"))
    columns = ("order", "rank", "_block", "start_ns", "end_ns", "receives", "_partner", "_follows")
    given = _Rows(*(ordered.get_column(name).to_numpy() for name in columns))
    ranks = int(given.rank.max(initial=-1)) + 1
    latest_ns, ends_ns = _latest(given, ranks, single_lane)
    meets_ns, may_lead = _meetings(given, (latest_ns, ends_ns), ranks, single_lane)
    found = ordered.select("_row").with_columns(
        pl.Series("lasts_ns", ends_ns - meets_ns, dtype=pl.Int64),
        pl.Series("early_ns", given.end_ns - ends_ns, dtype=pl.Int64),
        pl.Series("may_lead", may_lead, dtype=pl.Boolean),
        pl.Series("moved_ns", np.maximum(given.start_ns - latest_ns, 0), dtype=pl.Int64),
    )
    return rows.hstack(found.sort("_row").drop("_row"))


def _follows() -> pl.Expr:
    """Return whether a row began within a latency after the end of the previous one on its stream."""
    same = (pl.col("stream_key") == pl.col("stream_key").shift()) & (pl.col("rank") == pl.col("rank").shift())
    gap = pl.col("start_ns") - pl.col("end_ns").shift()
    return (same & gap.is_between(0, _LONGEST_LEAD_NS)).fill_null(value=False)


@native_loop
def _latest(rows: _Rows, ranks: int, single_lane: bool) -> tuple[_Ints, _Ints]:
    """The latest time at which the members of each row may meet, and when the row ends then."""
    forever = np.int64(_FOREVER)
    count = len(rows.order)
    latest, ends = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    # Of each rank: the block that is passed, when it may be met, and all behind it; what takes the lane next.
    block = np.full(ranks, -1, dtype=np.int64)
    own, behind, lane = np.full(ranks, forever), np.full(ranks, forever), np.full(ranks, forever)
    last = count
    while last > 0:
        first = last - 1
        while first > 0 and rows.order[first - 1] == rows.order[first]:
            first -= 1
        meets = forever
        for row in range(first, last):
            rank = rows.rank[row]
            if rows.block[row] != block[rank]:
                block[rank] = rows.block[row]
                behind[rank], own[rank] = min(own[rank], behind[rank]), forever
            end = min(rows.end_ns[row], behind[rank])
            if not rows.receives[row]:
                end = min(end, lane[rank])
            ends[row] = end if single_lane else rows.end_ns[row]
            meets = min(meets, end)
            partner = rows.partner[row]
            if partner >= last:
                meets = min(meets, latest[partner])
        for row in range(first, last):
            rank = rows.rank[row]
            latest[row] = meets
            own[rank] = min(own[rank], meets)
            if not rows.receives[row]:
                lane[rank] = meets
        last = first
    return latest, ends


@native_loop
def _meetings(rows: _Rows, known: tuple[_Ints, _Ints], ranks: int, single_lane: bool) -> tuple[_Ints, _Flags]:
    """Meeting time of the members of each row, and whether it is unchanged if the row is issued earlier."""
    latest, ends = known
    never = np.int64(_NEVER)
    count = len(rows.order)
    meets, issued = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    may_lead = np.zeros(count, dtype=np.bool_)
    block = np.full(ranks, -1, dtype=np.int64)
    own, before, lane = np.full(ranks, never), np.full(ranks, never), np.full(ranks, never)
    first = 0
    while first < count:
        last = first + 1
        while last < count and rows.order[last] == rows.order[first]:
            last += 1
        met = never
        for row in range(first, last):
            rank = rows.rank[row]
            if rows.block[row] != block[rank]:
                block[rank] = rows.block[row]
                before[rank], own[rank] = max(own[rank], before[rank]), never
            over = before[rank]
            if not rows.receives[row]:
                over = max(over, lane[rank])
            # What follows another row on its stream comes as soon as that is over: the latency is part of its time.
            comes = max(over, min(rows.start_ns[row], latest[row]))
            if single_lane and rows.follows[row] and over > never:
                comes = over
            issued[row] = comes
            met = max(met, comes)
            partner = rows.partner[row]
            if 0 <= partner < first:
                met = max(met, meets[partner])
        for row in range(first, last):
            rank = rows.rank[row]
            meets[row] = met
            start = min(rows.start_ns[row], latest[row])
            may_lead[row] = rows.follows[row] or start < met
            own[rank] = max(own[rank], ends[row] if single_lane else issued[row])
            if single_lane and not rows.receives[row]:
                lane[rank] = max(lane[rank], ends[row])
        first = last
    return meets, may_lead
