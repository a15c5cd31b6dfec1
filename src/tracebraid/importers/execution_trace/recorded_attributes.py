"""Attributes of nodes that were recorded in columns: which of them the table `collectives` has, and that table."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import polars as pl

from tracebraid.importers.execution_trace.attributes import (
    COLLECTIVE_COLUMNS,
    collective_table,
    fits_collective,
)
from tracebraid.importers.frames import frame_of
from tracebraid.model.schema import ET_COLLECTIVES

__all__ = ["collectives_of", "is_collective"]


def is_collective(attrs: pl.DataFrame) -> pl.Series:
    """For each row of attributes (`node_id`, `key`, `value` as JSON) whether `collectives` has it.

    Raises:
        MsgspecError: the value of one of these is no JSON.
    """
    candidates = attrs.with_row_index("row").filter(
        pl.col("key").cast(pl.String).is_in(list(COLLECTIVE_COLUMNS))
    )
    rows = [
        row
        for row, key, value in candidates.select("row", "key", "value").iter_rows()
        if fits_collective(key, msgspec.json.decode(value))
    ]
    return pl.Series(np.isin(np.arange(attrs.height), rows))


def collectives_of(attrs: pl.DataFrame) -> pl.DataFrame:
    """The table `collectives` of rows of attributes that all have a column in it."""
    rows: dict[int, dict[str, Any]] = {}
    for node, key, value in attrs.select("node_id", "key", "value").iter_rows():
        rows.setdefault(node, {})[key] = msgspec.json.decode(value)
    node_ids = np.array(list(rows), dtype=np.int64)
    return frame_of(ET_COLLECTIVES, [collective_table(node_ids, list(rows.values()))])
