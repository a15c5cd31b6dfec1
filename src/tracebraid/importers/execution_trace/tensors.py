"""The tensors in the inputs and outputs of nodes, as columns: those that stand alone and those inside lists."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import numpy as np

from tracebraid.importers.columns import ColumnData, Interned, TableData, int_column, interned_column
from tracebraid.model.column import INT64_NULL

__all__ = ["tensor_table"]

_TUPLE = tuple[int, int, int, int, int, str]
"""tensor_id, storage_id, storage_offset (elements), numel, itemsize (bytes), device."""

_INNER_TYPE = re.compile(r"Tensor\(((?:[^()]|\([^()]*\))*)\)")


def tensor_table(values: TableData) -> TableData:
    """One row per tensor among the rows of a piece's table `values`, with the members of its tuple."""
    types, texts, shapes = (values.interned(name) for name in ("type", "value", "shape"))
    alone_codes = [code for code, text in enumerate(types.values) if str(text).startswith("Tensor(")]
    list_codes = [
        code
        for code, text in enumerate(types.values)
        if "Tensor(" in str(text) and code not in set(alone_codes)
    ]
    alone = np.flatnonzero(np.isin(types.codes, alone_codes))
    tuples = {
        code: _parse_tuple(texts.values[code]) for code in np.unique(texts.codes[alone]).tolist() if code >= 0
    }
    rows: list[tuple[int, int | None, _TUPLE, str, object]] = []
    for row in alone.tolist():
        found = tuples.get(int(texts.codes[row]))
        if found is not None:
            dtype = str(types.values[types.codes[row]])[len("Tensor(") : -1]
            rows.append((row, None, found, dtype, _at(shapes, row)))
    for row in np.flatnonzero(np.isin(types.codes, list_codes)).tolist():
        dtypes = _INNER_TYPE.findall(str(types.values[types.codes[row]]))
        rows += _inside(row, _at(texts, row), _at(shapes, row), dtypes)
    rows.sort(key=lambda found: (found[0], -1 if found[1] is None else found[1]))
    return _table(values, rows)


def _table(values: TableData, rows: list[tuple[int, int | None, _TUPLE, str, object]]) -> TableData:
    source = np.array([row[0] for row in rows], dtype=np.int64)
    node, position = (values.ints(name)[source] for name in ("node_id", "position"))
    is_output = values.interned("is_output")
    columns: dict[str, ColumnData] = {
        "node_id": node,
        "is_output": Interned(is_output.codes[source], is_output.values),
        "position": position,
        "item": int_column([INT64_NULL if row[1] is None else row[1] for row in rows]),
        "dtype": interned_column([row[3] for row in rows]),
        "shape": interned_column([row[4] for row in rows]),
        "device": interned_column([row[2][5] for row in rows]),
    }
    numbers = np.array([row[2][:5] for row in rows], dtype=object).reshape(len(rows), 5)
    for place, name in enumerate(("tensor_id", "storage_id", "storage_offset", "numel", "itemsize_bytes")):
        columns[name] = int_column(numbers[:, place].tolist())
    return TableData(len(rows), columns)


def _at(column: Interned, row: int) -> object:
    code = int(column.codes[row])
    return column.values[code] if code >= 0 else None


def _parse_tuple(text: Any) -> _TUPLE | None:
    try:
        found: _TUPLE = msgspec.json.decode(text, type=_TUPLE)
        return found
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _inside(
    row: int, text: Any, shape: Any, dtypes: list[str]
) -> list[tuple[int, int | None, _TUPLE, str, object]]:
    """The tensors inside a list or tuple, at any depth, numbered in order."""
    try:
        value = msgspec.json.decode(text)
        shapes = msgspec.json.decode(shape) if shape else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return []
    found: list[tuple[int, int | None, _TUPLE, str, object]] = []
    stack: list[tuple[Any, Any]] = [(value, shapes)]
    while stack:
        item, its_shape = stack.pop()
        if not isinstance(item, list):
            continue
        one = _as_tuple(item)
        if one is not None:
            dtype = dtypes[len(found)] if len(found) < len(dtypes) else ""
            found.append((row, len(found), one, dtype, msgspec.json.encode(its_shape)))
            continue
        inner = (
            its_shape if isinstance(its_shape, list) and len(its_shape) == len(item) else [None] * len(item)
        )
        stack += reversed(list(zip(item, inner, strict=True)))
    return found


def _as_tuple(item: list[Any]) -> _TUPLE | None:
    if len(item) == 6 and isinstance(item[5], str) and all(type(part) is int for part in item[:5]):
        return (item[0], item[1], item[2], item[3], item[4], item[5])
    return None
