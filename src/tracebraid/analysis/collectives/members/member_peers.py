"""To or from which rank of its group does a backend of the host send or receive, as the op says that asked for it?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.event_columns import fetched, rows_of_events
from tracebraid.analysis.time.work_events import HOST
from tracebraid.model.category import Role
from tracebraid.model.collectives.codes import CollectiveType
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["with_asked_peers"]

_ASKS = r"^c10d::(?:send|recv_)$"
"""Ops that send or receive; the third input is the peer's number in the group."""
_PEER = r'^\[(?:[^,]*,){2}\s*"?(\d{1,9})"?'
_PAIRED = [CollectiveType.SEND.value, CollectiveType.RECEIVE.value]


def with_asked_peers(found: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """With `asked_peer`, the peer's number in the group; null: unknown.

    A backend's range begins in the op that asks for it, on its thread, and may end behind it: it is of the last op that
    began before.

    Args:
        found: lane, ts_ns, device, type.
        linked: the rank.
    """
    is_paired = (pl.col("device") == HOST) & pl.col("type").is_in(_PAIRED)
    asks = _asks(linked) if found.select(is_paired.any()).item() else _NONE
    if asks.is_empty():
        return found.with_columns(pl.lit(None, dtype=pl.Int64).alias("asked_peer"))
    rows = found.with_row_index("_row").sort("ts_ns", maintain_order=True)
    joined = rows.join_asof(asks, on="ts_ns", by="lane", strategy="backward", check_sortedness=False)
    is_asked = is_paired & (pl.col("ts_ns") <= pl.col("_end_ns"))
    return (
        joined.with_columns(pl.when(is_asked).then("asked_peer").alias("asked_peer"))
        .sort("_row")
        .drop("_row", "_end_ns")
    )


def _asks(linked: LinkedTrace) -> pl.DataFrame:
    """The ops that ask, in the order of their starts."""
    timeline = linked.timeline
    ops = timeline.of_role(Role.OP).filter(as_text("name").str.contains(_ASKS)).sort("ts_ns", "event_id")
    host_ops = timeline.host_ops
    inputs = fetched(
        host_ops.select("concrete_inputs"),
        rows_of_events(host_ops.get_column("event_id"), ops.get_column("event_id")),
    )
    return ops.hstack(inputs).select(
        "lane",
        "ts_ns",
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("_end_ns"),
        as_text("concrete_inputs").str.extract(_PEER).cast(pl.Int64).alias("asked_peer"),
    )


_NONE = pl.DataFrame()
