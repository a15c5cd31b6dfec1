"""When the work of some ops runs, and how much of it could be saved; without device work, that of the host."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.antipatterns.evidence.device_work import device_work
from tracebraid.analysis.host.host_rows import host_rows
from tracebraid.analysis.host.host_trees import host_ops
from tracebraid.model.device_kind import MEMORY
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["owners_of", "work_of_ops"]

_WITHIN_DEVICE = r"DtoD|CopyDeviceToDevice"
"""Names of copies that stay in a device's memory."""


def work_of_ops(linked: LinkedTrace, annotation: str, ops: pl.Series) -> pl.DataFrame:
    """One row per op that launched something, in the order of lanes and starts.

    Columns: op_event; device, lane, start_ns, end_ns, first, last (numbers of its first and last event in the order of
    `device_work`), dur_ns, alone_ns (see there), kernels, event_id and kernel (its longest event); leaves: whether it
    copies from or to the host. In a trace without device work each op is its own: `device` is null, `lane` its thread,
    `first` and `last` are null, and `kernel` is null.

    Args:
        linked: one rank.
        annotation: what marks a step.
        ops: their `event_id`; work belongs to the innermost of them around its launch.
    """
    if not linked.timeline.has_device:
        return _of_host(linked, ops)
    work = device_work(linked, annotation).with_row_index("number")
    owner = owners_of(linked, work.get_column("op_event"), ops)
    leaves = (pl.col("kind") == MEMORY) & ~pl.col("name").str.contains(_WITHIN_DEVICE)
    longest = pl.col("dur_ns").arg_max()
    return (
        work.with_columns(pl.Series("owner", owner))
        .filter(pl.col("owner") >= 0)
        .group_by("owner", maintain_order=True)
        .agg(
            pl.col("device", "lane").first(),
            pl.col("ts_ns").min().alias("start_ns"),
            pl.col("end_ns").max(),
            pl.col("number").min().cast(pl.Int64).alias("first"),
            pl.col("number").max().cast(pl.Int64).alias("last"),
            pl.col("dur_ns", "alone_ns").sum(),
            pl.len().cast(pl.Int64).alias("kernels"),
            pl.col("event_id", "name").get(longest),
            leaves.any().alias("leaves"),
        )
        .rename({"owner": "op_event", "name": "kernel"})
    )


def owners_of(linked: LinkedTrace, launched_in: pl.Series, ops: pl.Series) -> NDArray[np.int64]:
    """Of each op the `event_id` of the innermost of some ops around it, itself included; -1 where there is none.

    Args:
        linked: one rank.
        launched_in: `event_id` of ops, null where it is unknown.
        ops: those that may own others.
    """
    tree = host_ops(linked)
    wanted = np.isin(tree.event_id, ops.drop_nulls().to_numpy())
    events = launched_in.fill_null(-1).to_numpy()
    known = np.isin(events, tree.event_id) & wanted.any()
    owner = np.full(len(events), -1, dtype=np.int64)
    if known.any():
        rows = tree.nearest(wanted)[tree.rows(events[known])]
        owner[known] = np.where(rows < 0, -1, tree.event_id[rows])
    return owner


def _of_host(linked: LinkedTrace, ops: pl.Series) -> pl.DataFrame:
    rows = host_rows(linked)
    events = ops.drop_nulls().unique().sort().to_numpy()
    found = rows.rows(events)
    found = found[found >= 0]
    event, start, end = rows.event_id[found], rows.start_ns[found], rows.end_ns[found]
    unknown = pl.lit(None, dtype=pl.Int64)
    return (
        pl.DataFrame({"op_event": event, "lane": rows.lane[found], "start_ns": start, "end_ns": end})
        .with_columns(
            pl.lit(None, dtype=pl.String).alias("device"),
            unknown.alias("first"),
            unknown.alias("last"),
            (pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns"),
            (pl.col("end_ns") - pl.col("start_ns")).alias("alone_ns"),
            pl.lit(0, dtype=pl.Int64).alias("kernels"),
            pl.col("op_event").alias("event_id"),
            pl.lit(None, dtype=pl.String).alias("kernel"),
            pl.lit(value=False).alias("leaves"),
        )
        .sort("lane", "start_ns", "op_event")
    )
