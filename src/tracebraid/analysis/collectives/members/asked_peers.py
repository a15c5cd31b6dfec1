"""With which rank does a range of a host's backend communicate? The op that asked for it says so."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.event_columns import fetched, rows_of_events
from tracebraid.analysis.time.work_events import HOST
from tracebraid.model.category import Role
from tracebraid.model.collectives.codes import CollectiveType
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["asked_peers"]

_OPS = {"c10d::send": CollectiveType.SEND, "c10d::recv_": CollectiveType.RECEIVE}
"""Both have the inputs (tensors, group, peer, tag); the peer counts in the group."""
_PEER = "$[2]"


def asked_peers(found: pl.DataFrame, linked: LinkedTrace) -> pl.Series:
    """The peer of each send and receive on the host, as its number in the group; null where no op names it.

    A range such as `gloo:send` begins within the op that asks for it. It may end long after that, where the send is
    asynchronous, so that it is not nested in the op.

    Args:
        found: event_id, device, lane, type and ts_ns.
        linked: the rank.
    """
    ops = linked.timeline.of_role(Role.OP).with_columns(as_text("name"))
    ops = ops.filter(pl.col("name").is_in(list(_OPS))).sort("ts_ns", "event_id")
    host_ops = linked.timeline.host_ops
    rows = rows_of_events(host_ops.get_column("event_id"), ops.get_column("event_id"))
    inputs = fetched(host_ops.select(as_text("concrete_inputs")), rows)
    asking = ops.hstack(inputs.get_columns()).select(
        "lane",
        "ts_ns",
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("until_ns"),
        pl.col("name").replace_strict({name: kind.value for name, kind in _OPS.items()}).alias("type"),
        pl.col("concrete_inputs").str.json_path_match(_PEER).cast(pl.Int64, strict=False).alias("peer"),
    )
    ranges = found.select("lane", "ts_ns", "type", "device").with_row_index("row").sort("ts_ns")
    begun = ranges.join_asof(
        asking, on="ts_ns", by=["lane", "type"], strategy="backward", check_sortedness=False
    )
    is_within = (pl.col("device") == HOST) & (pl.col("ts_ns") <= pl.col("until_ns"))
    return begun.sort("row").select(pl.when(is_within & (pl.col("peer") >= 0)).then("peer").alias("peer"))[
        "peer"
    ]
