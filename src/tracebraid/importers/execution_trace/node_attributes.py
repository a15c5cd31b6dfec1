"""The attributes of nodes: the columns of `nodes` that they fill, and the tables `collectives` and `extra_attrs`.

The attributes that come first differ from node to node; what follows them is the same text for many nodes of a chunk,
and each distinct text is decoded once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tracebraid.importers.columns import ColumnData, Interned, TableData, int_column, interned_column
from tracebraid.importers.execution_trace.attributes import collective_table, fits, fits_collective
from tracebraid.model.column import INT64_NULL, Kind

__all__ = ["INT_ATTRS", "TEXT_ATTRS", "Attr", "Attributes", "attributes_of", "no_extras"]

_Ints = NDArray[np.int64]

INT_ATTRS = ("rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid")
"""The attributes with a column of integers in `nodes`."""
TEXT_ATTRS = ("op_schema", "kernel_backend", "kernel_file")
"""The attributes with a column of text in `nodes`."""

_KINDS = {**dict.fromkeys(INT_ATTRS, Kind.INT), **dict.fromkeys(TEXT_ATTRS, Kind.NAME)}
_FIRST = ("rf_id", "fw_parent", "seq_id")
"""The attributes that come first, as PyTorch writes them."""
_FIRST_OF_ALL = re.compile(
    rb"\[\s*"
    + b"".join(
        rb'\{\s*"name"\s*:\s*"%b"\s*,\s*"type"\s*:\s*"\w*"\s*,\s*"value"\s*:\s*(-?\d{1,18})\s*\}\s*,\s*'
        % name.encode()
        for name in _FIRST
    )
)


class Attr(msgspec.Struct, gc=False):
    """One attribute of a node."""

    name: str
    type: str = ""
    value: int | float | str | bool | list[Any] | dict[str, Any] | None = None


_ATTRS = msgspec.json.Decoder(list[Attr])


@dataclass
class Attributes:
    """What the attributes of a chunk's nodes give.

    Args:
        columns: columns of the table `nodes`.
        tables: the tables `collectives` and `extra_attrs`.
        owners: for each row of these the number of its node in the chunk.
    """

    columns: dict[str, ColumnData]
    tables: dict[str, TableData]
    owners: dict[str, _Ints]


@dataclass
class _Distinct:
    """What each distinct text of attributes holds."""

    values: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in _KINDS})
    collectives: list[dict[str, Any]] = field(default_factory=list)
    extras: list[tuple[str, str, bytes]] = field(default_factory=list)
    extra_counts: list[int] = field(default_factory=list)

    def add(self, attrs: list[Attr]) -> None:
        row: dict[str, Any] = {}
        collective: dict[str, Any] = {}
        before = len(self.extras)
        for attr in attrs:
            name, value = attr.name, attr.value
            kind = _KINDS.get(name)
            if kind is not None and fits(kind, value):
                row[name] = value
            elif fits_collective(name, value):
                collective[name] = value
            else:
                self.extras.append((name, attr.type, msgspec.json.encode(value)))
        for name, column in self.values.items():
            column.append(row.get(name))
        self.collectives.append(collective)
        self.extra_counts.append(len(self.extras) - before)


def attributes_of(node_ids: _Ints, texts: list[bytes]) -> Attributes:
    """Decode the attributes of the nodes of a chunk; what has no column, or does not fit it, is an extra.

    Args:
        node_ids: their ids.
        texts: the JSON array of the attributes of each.

    Raises:
        MsgspecError: one of these is no list of attributes.
    """
    first, rest = _without_first(texts)
    whole = interned_column(rest)
    distinct = _Distinct()
    for text in whole.values:
        distinct.add(_ATTRS.decode(text))  # type: ignore[arg-type]
    code = whole.codes
    columns: dict[str, ColumnData] = {name: int_column(distinct.values[name])[code] for name in INT_ATTRS}
    for name, values in zip(_FIRST, first, strict=True):
        existing = columns[name]
        assert not isinstance(existing, Interned), f"{name} is a column of integers"
        columns[name] = np.where(existing == INT64_NULL, values, existing)
    for name in TEXT_ATTRS:
        texts_of = interned_column(distinct.values[name])
        columns[name] = Interned(texts_of.codes[code], texts_of.values)
    extras, extra_owner = _extras(node_ids, code, distinct)
    has_some = np.array([bool(row) for row in distinct.collectives], dtype=np.bool_)
    nodes = np.flatnonzero(has_some[code])
    collectives = collective_table(node_ids[nodes], [distinct.collectives[i] for i in code[nodes].tolist()])
    return Attributes(
        columns,
        {"collectives": collectives, "extra_attrs": extras},
        {"collectives": nodes, "extra_attrs": extra_owner},
    )


def no_extras() -> TableData:
    """The table `extra_attrs` of nodes that have none."""
    return _extras(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32), _Distinct())[0]


def _without_first(texts: list[bytes]) -> tuple[list[_Ints], list[bytes]]:
    """The attributes in `_FIRST`, missing where a text does not start with these; the texts without them."""
    missing = (INT64_NULL,) * len(_FIRST)
    values: list[Iterable[int]] = []
    rest: list[bytes] = []
    match = _FIRST_OF_ALL.match
    for text in texts:
        found = match(text)
        if found is None:
            values.append(missing)
            rest.append(text)
        else:
            values.append(map(int, found.groups()))
            rest.append(b"[" + text[found.end() :])
    flat = np.fromiter(chain.from_iterable(values), dtype=np.int64, count=len(texts) * len(_FIRST))
    return list(flat.reshape(len(texts), len(_FIRST)).T), rest


def _extras(node_ids: _Ints, code: NDArray[np.int32], distinct: _Distinct) -> tuple[TableData, _Ints]:
    lengths = np.array(distinct.extra_counts, dtype=np.int64)
    counts = lengths[code]
    total = int(counts.sum())
    owner = np.repeat(np.arange(len(code)), counts)
    first = np.repeat((np.cumsum(lengths) - lengths)[code], counts)
    row = first + np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    columns: dict[str, ColumnData] = {"node_id": node_ids[owner]}
    for index, name in enumerate(("key", "type", "value")):
        column = interned_column([extra[index] for extra in distinct.extras])
        columns[name] = Interned(column.codes[row], column.values)
    return TableData(total, columns), owner
