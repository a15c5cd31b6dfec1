"""Which sends and receives of the host's backends meet? As they buffer, only their order says it."""

from __future__ import annotations

import polars as pl

from tracebraid.model.collectives.codes import CollectiveType

__all__ = ["HOST", "PAIRED", "with_met_on_host"]

PAIRED = (CollectiveType.SEND.value, CollectiveType.RECEIVE.value)
HOST = "cpu"
"""The device of members on the host."""


def with_met_on_host(rows: pl.DataFrame) -> pl.DataFrame:
    """With a `collective`, below 0, for sends and receives of the host that nothing matched, by their order.

    Those of one sender and receiver meet, step by step, where both ranks have equally many of a step. A receive is
    transferred from when it was sent.
    """
    step = pl.col("step").cast(pl.String).fill_null("")
    channel = ["from_rank", "to_rank", "_step"]
    is_open = pl.col("collective").is_null() & (pl.col("device") == HOST) & ~pl.col("is_doubtful")
    known = pl.col("from_rank").is_not_null() & pl.col("to_rank").is_not_null()
    own = rows.filter(pl.col("type").is_in(PAIRED) & is_open & known).with_columns(step.alias("_step"))
    own = own.with_columns(pl.int_range(pl.len()).over(*channel, "type").alias("_nth"))
    sends, receives = (own.filter(pl.col("type") == kind) for kind in PAIRED)
    sent, received = (frame.group_by(channel).agg(pl.len().alias("count")) for frame in (sends, receives))
    equal = sent.join(received, on=[*channel, "count"], how="semi")
    met = (
        sends.join(equal, on=channel, how="semi")
        .join(receives, on=[*channel, "_nth"], how="inner", suffix="_of_receive")
        .sort("row")
        .with_columns((-1 - pl.int_range(pl.len())).alias("_met"))
    )
    pairs = pl.concat(
        [
            met.select("row", "_met", pl.lit(None, dtype=pl.Int64).alias("_sent_ns")),
            met.select(pl.col("row_of_receive").alias("row"), "_met", pl.col("start_ns").alias("_sent_ns")),
        ]
    )
    since = pl.max_horizontal("start_ns", pl.col("_sent_ns"))
    received_ns = (pl.col("end_ns") - since).clip(0)
    return (
        rows.join(pairs, on="row", how="left", maintain_order="left")
        .with_columns(
            pl.coalesce("_met", "collective").alias("collective"),
            pl.when(pl.col("_sent_ns").is_not_null())
            .then(received_ns)
            .otherwise("transfer_ns")
            .alias("transfer_ns"),
            (pl.col("is_measured") | pl.col("_met").is_not_null()).alias("is_measured"),
        )
        .drop("_met", "_sent_ns")
    )
