"""Waits in collectives as evidence."""

from __future__ import annotations

import polars as pl

from tracebraid.model.answers import EVIDENCE

__all__ = ["at_sites"]


def at_sites(sites: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """Waits as evidence, at the start of the collectives in which they are.

    Args:
        sites: `collective_sites` of all ranks.
        found: rank, event_id, waiting_ns, lost_ns (at most so much is saved), subject.
    """
    rows = sites.drop("subject").join(found, on=["rank", "event_id"], how="inner")
    end = pl.col("start_ns") + pl.min_horizontal("waiting_ns", pl.col("end_ns") - pl.col("start_ns"))
    return EVIDENCE.conform(
        rows.with_columns(end.alias("end_ns"))
        .with_columns(pl.min_horizontal("lost_ns", pl.col("end_ns") - pl.col("start_ns")).alias("saving_ns"))
        .filter(pl.col("saving_ns") > 0)
        .sort("rank", "start_ns", "event_id")
    )
