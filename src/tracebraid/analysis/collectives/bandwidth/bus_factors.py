"""What size does the bandwidth of a collective count, and how much of it passes the bus?

Source of the formulas: nccl-tests, `doc/PERFORMANCE.md`, and `src/gather.cu`, `scatter.cu`, `alltoall.cu`.
"""

from __future__ import annotations

import polars as pl

from tracebraid.model.collectives.codes import CollectiveType

__all__ = ["algorithm_rate", "bus_rate", "size_of"]

_NS = 1e9
_ON_WHOLE_OUTPUT = (CollectiveType.ALL_GATHER.value, CollectiveType.GATHER.value)
_ON_WHOLE_INPUT = (CollectiveType.REDUCE_SCATTER.value, CollectiveType.SCATTER.value)
_ALL_BUT_OWN = (*_ON_WHOLE_OUTPUT, *_ON_WHOLE_INPUT, CollectiveType.ALL_TO_ALL.value)


def size_of() -> pl.Expr:
    """The size that the formula takes, in bytes; null: unknown, and of a barrier.

    Of an all-gather and a gather it is all that is gathered, of a reduce-scatter and a scatter all that is scattered;
    of an all-to-all what the busiest rank gives or gets, its own part included; else the message.

    Columns:
        type: `CollectiveType`.
        group_size: ranks of the group.
        in_bytes, out_bytes: what a rank gives and gets, the most of all members.
    """
    given, got = pl.col("in_bytes"), pl.col("out_bytes")
    size = (
        pl.when(pl.col("type").is_in(_ON_WHOLE_OUTPUT))
        .then(_whole(got, given))
        .when(pl.col("type").is_in(_ON_WHOLE_INPUT))
        .then(_whole(given, got))
        .when(pl.col("type") != CollectiveType.BARRIER.value)
        .then(pl.max_horizontal(given, got))
    )
    return pl.when(size >= 0).then(size)


def algorithm_rate(transfer: pl.Expr) -> pl.Expr:
    """Algorithm bandwidth in bytes/s: `size_bytes` over the time of the transfer; null where that is 0.

    Args:
        transfer: in ns.
    """
    return pl.when(transfer > 0).then(pl.col("size_bytes") / transfer * _NS)


def bus_rate() -> pl.Expr:
    """Bus bandwidth in bytes/s: `algorithm_bytes_per_s` times the factor of the type.

    With n ranks: 2 (n - 1) / n for an all-reduce; (n - 1) / n for an all-gather, reduce-scatter, all-to-all, gather and
    scatter; 1 for a broadcast, reduce, send and receive.
    """
    others = pl.when(pl.col("group_size") > 0).then((pl.col("group_size") - 1) / pl.col("group_size"))
    factor = (
        pl.when(pl.col("type") == CollectiveType.ALL_REDUCE.value)
        .then(2 * others)
        .when(pl.col("type").is_in(_ALL_BUT_OWN))
        .then(others)
        .when(pl.col("type").is_not_null())
        .then(pl.lit(1.0))
    )
    return pl.col("algorithm_bytes_per_s") * factor


def _whole(whole: pl.Expr, part: pl.Expr) -> pl.Expr:
    """The whole; where no member says it, the part of one rank times the ranks."""
    return pl.when(whole > 0).then(whole).otherwise(pl.coalesce(part * pl.col("group_size"), whole))
