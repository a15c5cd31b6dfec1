"""What is known of each node, in the columns of `CHAKRA_NODES`."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.exporters.chakra.pieces import NONE, PieceKind, Pieces
from tracebraid.model.chakra.codes import Detail, NodeType
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.rank_graph import RankGraph
from tracebraid.model.schema.chakra import CHAKRA_NODES

__all__ = ["DELAY", "node_columns"]

_Ints = NDArray[np.int64]

DELAY = "delay"
"""The kind of nodes in which nothing is done that is known, and of the host's time where that is not told apart."""

_OF_COMMUNICATION = ("comm_type", "comm_size", "comm_src", "comm_dst", "comm_tag", "pg_name", "collective")
_OF_EVENT = ("op", "et_node_id", "event_id", "shapes", "module")
_OF_ACTIVITY = ("name", "kind", "op", "node_id", "event_id", "shapes", "module", "step", "stream", "lane")
_ON_HOST = (PieceKind.HOST, PieceKind.HOST_DELAY)
_DELAYS = (PieceKind.HOST_DELAY, PieceKind.DEVICE_DELAY)


def node_columns(
    graph: RankGraph,
    pieces: Pieces,
    spans_ns: tuple[_Ints, _Ints],
    communication: pl.DataFrame,
    detail: Detail,
) -> pl.DataFrame:
    """`CHAKRA_NODES`, a row for each piece; nodes are numbered in the order of pieces.

    Args:
        graph: of one rank.
        pieces: in the order of nodes.
        spans_ns: start and end of each.
        communication: `CHAKRA_COMMUNICATION`.
        detail: how much of the host is told apart.
    """
    start_ns, end_ns = spans_ns
    activity = pl.Series(pieces.activity)
    rows = graph.activities.select(_OF_ACTIVITY)[activity].rename({"node_id": "et_node_id", "kind": "_kind"})
    rows = rows.hstack(_of_communication(pieces, communication)).with_columns(
        pl.Series("_piece", pieces.kind),
        node_id=pl.Series(np.arange(len(pieces))),
        duration_ns=pl.coalesce("transfer_ns", pl.Series(end_ns - start_ns)),
        start_time_micros=pl.Series((start_ns - (start_ns.min() if len(start_ns) else 0)) // 1000),
    )
    return CHAKRA_NODES.conform(rows.select(_described(detail)), fill_missing=True)


def _of_communication(pieces: Pieces, communication: pl.DataFrame) -> pl.DataFrame:
    """The columns of communication for each piece; null where it is none."""
    chosen = communication.select(*_OF_COMMUNICATION, "type", "transfer_ns")
    if chosen.is_empty():
        return chosen.clear(len(pieces))
    is_communication = pl.Series(pieces.row != NONE)
    rows = chosen[pl.Series(np.maximum(pieces.row, 0))]
    return rows.select(pl.when(is_communication).then(pl.col(name)).alias(name) for name in rows.columns)


def _described(detail: Detail) -> list[pl.Expr]:
    piece = pl.col("_piece")
    host = piece == int(PieceKind.HOST)
    on_host = piece.is_in([int(kind) for kind in _ON_HOST])
    is_delay = piece.is_in([int(kind) for kind in _DELAYS])
    if detail is Detail.DEVICE:
        is_delay |= host
    of_event = [pl.when(~is_delay).then(pl.col(name)).alias(name) for name in _OF_EVENT]
    return [
        pl.col("node_id", "start_time_micros", "duration_ns", "step", *_OF_COMMUNICATION),
        (pl.col("duration_ns") + 500).floordiv(1000).alias("duration_micros"),
        pl.when(is_delay).then(pl.lit(DELAY)).otherwise(as_text("name")).alias("name"),
        pl.when(is_delay).then(pl.lit(DELAY)).otherwise(as_text("_kind")).alias("kind"),
        pl.coalesce(as_text("type"), pl.lit(NodeType.COMP_NODE.name)).alias("type"),
        on_host.alias("is_cpu_op"),
        *of_event,
        pl.when(~on_host).then("stream").alias("stream"),
        pl.when(on_host).then("lane").alias("thread"),
    ]
