"""Attributes of nodes: which of them have a column in the table `collectives`, and that table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracebraid.importers.columns import ColumnData, TableData, int_column, interned_column
from tracebraid.model.column import INT64_NULL, Kind
from tracebraid.model.schema import ET_COLLECTIVES

__all__ = ["COLLECTIVE_COLUMNS", "collective_table", "fits", "fits_collective"]

COLLECTIVE_COLUMNS = {key: column for column in ET_COLLECTIVES.columns for key in column.keys}
"""The columns of `collectives` by the attribute that fills them."""


def fits(kind: Kind, value: object) -> bool:
    """Whether a value can stand in a column of a kind."""
    if kind is Kind.INT:
        return type(value) is int and INT64_NULL < value < 2**63
    return isinstance(value, bool if kind is Kind.BOOL else str)


def fits_collective(name: str, value: object) -> bool:
    """Whether an attribute has a column in `collectives`, and fits it."""
    return name in COLLECTIVE_COLUMNS and fits(COLLECTIVE_COLUMNS[name].kind, value)


def collective_table(node_ids: NDArray[np.int64], rows: list[dict[str, Any]]) -> TableData:
    """The table `collectives` of nodes that have such attributes, and of these by name."""
    columns: dict[str, ColumnData] = {"node_id": node_ids}
    for name, column in COLLECTIVE_COLUMNS.items():
        values = [row.get(name) for row in rows]
        columns[column.name] = int_column(values) if column.kind is Kind.INT else interned_column(values)
    return TableData(len(rows), columns)
