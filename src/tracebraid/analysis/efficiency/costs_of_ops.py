"""Of each op the counted op that it lies in, with what that computes and moves."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.efficiency.calls import has_shapes
from tracebraid.analysis.efficiency.counted_ops import counted_ops
from tracebraid.analysis.host.host_trees import host_ops
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["costs_of_ops"]

_SCHEMA = {"op_event": pl.Int64, "counted_event": pl.Int64, "flops": pl.Int64, "bytes": pl.Int64}


def costs_of_ops(linked: LinkedTrace) -> pl.DataFrame:
    """A row per op that counts, or lies in one that does: `op_event`, `counted_event`, `flops`, `bytes`.

    The costs are those of the counted op as a whole (see `counted_ops`): who adds them up takes each counted op once.

    Args:
        linked: one rank; without shapes no cost is known.
    """
    if not has_shapes(linked):
        return pl.DataFrame(schema=_SCHEMA)
    known = pl.col("flops").is_not_null() | pl.col("bytes").is_not_null()
    counted = counted_ops(linked).filter(known).select("event_id", "flops", "bytes")
    walk = host_ops(linked)
    is_counted = np.isin(walk.event_id, counted.get_column("event_id").to_numpy())
    owner = walk.nearest(is_counted)
    rows = np.flatnonzero(owner >= 0)
    pairs = pl.DataFrame({"op_event": walk.event_id[rows], "counted_event": walk.event_id[owner[rows]]})
    found = pairs.join(
        counted, left_on="counted_event", right_on="event_id", how="inner", maintain_order="left"
    )
    return found.select(pl.col(name).cast(kind) for name, kind in _SCHEMA.items())
