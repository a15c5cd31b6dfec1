"""Attributes of nodes: which of them have a column in the table `collectives`, and that table."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import polars as pl

from tracebraid.importers.columns import ColumnData, TableData, int_column, interned_column
from tracebraid.importers.frames import frame_of
from tracebraid.model.column import INT64_NULL, Kind
from tracebraid.model.expressions import as_text
from tracebraid.model.schema import ET_COLLECTIVES

__all__ = ["collective_table", "collectives_of", "fits", "fits_collective", "is_collective"]

_COLUMN = {key: column for column in ET_COLLECTIVES.columns for key in column.keys}


def fits(kind: Kind, value: object) -> bool:
    """Whether a value can stand in a column of a kind."""
    if kind is Kind.INT:
        return type(value) is int and INT64_NULL < value < 2**63
    return isinstance(value, bool if kind is Kind.BOOL else str)


def fits_collective(name: str, value: object) -> bool:
    """Whether an attribute has a column in `collectives`, and fits it."""
    return name in _COLUMN and fits(_COLUMN[name].kind, value)


def collective_table(rows: dict[int, dict[str, Any]]) -> TableData:
    """The table `collectives` of the attributes of each node that has some."""
    columns: dict[str, ColumnData] = {"node_id": np.array(list(rows), dtype=np.int64)}
    for name, column in _COLUMN.items():
        values = [row.get(name) for row in rows.values()]
        columns[column.name] = int_column(values) if column.kind is Kind.INT else interned_column(values)
    return TableData(len(rows), columns)


def is_collective(attrs: pl.DataFrame) -> pl.Series:
    """For each row of attributes (`node_id`, `key`, `value` as JSON) whether `collectives` has it.

    Raises:
        MsgspecError: the value of one of these is no JSON.
    """
    candidates = attrs.with_row_index("row").filter(as_text("key").is_in(list(_COLUMN)))
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
    return frame_of(ET_COLLECTIVES, [collective_table(rows)])
