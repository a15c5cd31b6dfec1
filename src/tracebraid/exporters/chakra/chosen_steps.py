"""Some steps of a rank's nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.compiled import compiled
from tracebraid.exporters.chakra.node_lanes import node_lanes
from tracebraid.exporters.chakra.reduction import reduced
from tracebraid.model.chakra.chakra_rank import ChakraRank, NodeDeps
from tracebraid.model.expressions import as_text

__all__ = ["OUTSIDE_STEPS", "in_chosen_steps"]

_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]

OUTSIDE_STEPS = "dependencies_outside_steps"
"""The attribute of a file's metadata that counts what was waited for outside of the chosen steps."""


def in_chosen_steps(rank: ChakraRank, steps: Sequence[str]) -> ChakraRank:
    """The nodes that were issued in some steps, numbered anew; what they waited for before these steps falls away.

    Where a chosen step waited for another one over nodes between them, it still does, lane by lane: its nodes wait for
    the last node of each thread, stream or communication that they waited for so.

    Args:
        rank: its nodes stand behind all that they wait for, and are numbered by rows.
        steps: names of steps.
    """
    kept = rank.nodes.select(as_text("step").is_in(list(steps)).fill_null(value=False)).to_series().to_numpy()
    lane, lanes = node_lanes(rank.nodes)
    first, before = rank.data_deps.first, rank.data_deps.node_id
    after = rank.data_deps.rows()
    outside = int(np.count_nonzero(kept[after] & ~kept[before]))
    inside = kept[after] & kept[before]
    pairs = [(before[inside], after[inside])]
    for number in range(lanes if outside else 0):
        latest: _Ints = _latest_over(first, before, (kept, lane == number))
        rows = np.flatnonzero(kept & (latest >= 0))
        pairs.append((latest[rows], rows))
    row = np.cumsum(kept) - 1
    pair = [row[np.concatenate(part)] for part in zip(*pairs, strict=True)]
    found = reduced(pair[0], pair[1], lane[kept])
    count = int(np.count_nonzero(kept))
    return replace(
        rank,
        attributes=(*rank.attributes, ("steps", ", ".join(steps)), (OUTSIDE_STEPS, outside)),
        nodes=rank.nodes.filter(pl.Series(kept)).with_columns(node_id=pl.int_range(count, dtype=pl.Int64)),
        data_deps=NodeDeps.of_pairs(found.before, found.after, np.arange(count)),
        ctrl_deps=NodeDeps.none(count),
    )


@compiled
def _latest_over(first: _Ints, before: _Ints, chosen: tuple[_Flags, _Flags]) -> _Ints:
    """Of each node the latest one of a lane that is kept and that it waits for over nodes that are not; else -1."""
    kept, on_lane = chosen
    count = len(kept)
    found = np.full(count, -1, dtype=np.int64)
    for row in range(count):
        for edge in range(first[row], first[row + 1]):
            other = before[edge]
            if kept[other]:
                # What is kept is waited for as it is, but by those that are not.
                if not kept[row] and on_lane[other] and other > found[row]:
                    found[row] = other
            elif found[other] > found[row]:
                found[row] = found[other]
    return found
