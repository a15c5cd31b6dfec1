"""Edges that have the same latency: of one kind, and of one call or of the same kinds of work."""

from __future__ import annotations

import polars as pl

from tracebraid.model.expressions import as_text
from tracebraid.model.graph.codes import EdgeKind
from tracebraid.model.graph.rank_graph import EdgeList

__all__ = ["LATENT", "latency_groups"]

LATENT = (
    EdgeKind.LAUNCH,
    EdgeKind.STREAM_ORDER,
    EdgeKind.EVENT_WAIT,
    EdgeKind.SYNC,
    EdgeKind.THREAD,
    EdgeKind.COMMUNICATION_WAIT,
    EdgeKind.QUEUE,
)
"""Kinds of edges that have no work of their own, but a latency."""

_BY_CALL_BEFORE = (EdgeKind.LAUNCH,)
_BY_CALL_AFTER = (EdgeKind.SYNC, EdgeKind.QUEUE)
_BY_WORK_BEFORE = (EdgeKind.STREAM_ORDER,)
_BY_WORK_AFTER = (EdgeKind.LAUNCH, EdgeKind.STREAM_ORDER)


def latency_groups(edges: EdgeList, activities: pl.DataFrame) -> pl.DataFrame:
    """The group of each edge, as `code` (`EdgeKind`) and `key`.

    The key is, of a launch, the call and the kind of work; of stream order, the kinds of both works; of a wait of the
    host, the call; of others null.

    Args:
        edges: edges whose kinds are `LATENT`.
        activities: `ACTIVITIES`.
    """
    names = activities.select(as_text("name", "kind"))
    before, after = names[edges.before // 2], names[edges.after // 2]
    code = pl.Series("code", edges.kind, dtype=pl.UInt8)
    rows = pl.DataFrame(
        [
            code,
            before.get_column("name").alias("call_before"),
            before.get_column("kind").alias("work_before"),
            after.get_column("name").alias("call_after"),
            after.get_column("kind").alias("work_after"),
        ]
    )
    parts = [
        _where(_BY_CALL_BEFORE, "call_before"),
        _where(_BY_WORK_BEFORE, "work_before"),
        _where(_BY_CALL_AFTER, "call_after"),
        _where(_BY_WORK_AFTER, "work_after"),
    ]
    key = pl.concat_str(parts, separator=" > ", ignore_nulls=True)
    return rows.select("code", pl.when(key != "").then(key).alias("key"))


def _where(kinds: tuple[EdgeKind, ...], column: str) -> pl.Expr:
    return pl.when(pl.col("code").is_in([int(kind) for kind in kinds])).then(pl.col(column))
