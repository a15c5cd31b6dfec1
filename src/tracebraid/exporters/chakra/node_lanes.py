"""The lanes of a rank's nodes: its threads, its streams, and their communication."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.compiled import compiled
from tracebraid.model.chakra.codes import NodeType
from tracebraid.model.expressions import as_text

__all__ = ["LaneBorders", "lane_borders", "node_lanes"]

_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]

_COMMUNICATES = tuple(
    kind.name for kind in (NodeType.COMM_COLL_NODE, NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE)
)


@dataclass(frozen=True, eq=False)
class LaneBorders:
    """Where lanes begin and end.

    Args:
        first: of each node whether it waits for no other one of its lane, over any others.
        last: of each node whether no other one of its lane waits for it.
    """

    first: _Flags
    last: _Flags


def node_lanes(nodes: pl.DataFrame) -> tuple[_Ints, int]:
    """The lane of each node, from 0 up, and how many there are: all communication of the rank is one.

    Args:
        nodes: `CHAKRA_NODES`.
    """
    communicates = as_text("type").is_in(_COMMUNICATES)
    keys = nodes.select(
        communicates.alias("communicates"),
        *(pl.when(~communicates).then(pl.col(name)).alias(name) for name in ("thread", "stream")),
    )
    rank = keys.select(pl.struct(keys.columns).rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()
    return rank, int(rank.max(initial=-1)) + 1


def lane_borders(first: _Ints, before: _Ints, lane: _Ints, lanes: int) -> LaneBorders:
    """The first and the last nodes of each lane: nothing of it is before them, or behind them.

    Args:
        first: where the dependencies of each node begin; nodes stand behind all that they wait for.
        before: the row that each dependency waits for.
        lane: of each node.
        lanes: how many there are.
    """
    no_first, no_last = np.zeros(len(lane), dtype=np.bool_), np.zeros(len(lane), dtype=np.bool_)
    for number in range(lanes):
        _mark(first, before, lane == number, no_first, no_last)
    return LaneBorders(~no_first, ~no_last)


@compiled
def _mark(first: _Ints, before: _Ints, own: _Flags, no_first: _Flags, no_last: _Flags) -> None:
    """Mark the nodes of a lane that have one of it before them, and those that have one behind them."""
    count = len(own)
    reached = np.zeros(count, dtype=np.bool_)
    for row in range(count):
        for edge in range(first[row], first[row + 1]):
            if own[before[edge]] or reached[before[edge]]:
                reached[row] = True
        if own[row] and reached[row]:
            no_first[row] = True
    reached[:] = False
    for back in range(count):
        row = count - 1 - back
        if own[row] and reached[row]:
            no_last[row] = True
        if own[row] or reached[row]:
            for edge in range(first[row], first[row + 1]):
                reached[before[edge]] = True
