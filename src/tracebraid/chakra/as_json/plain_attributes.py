"""JSON of attributes that protobuf would write as they stand, without protobuf."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from tracebraid.chakra.wire.fields import Fields, Slices, fields_of
from tracebraid.chakra.wire.plain import ATTRIBUTE_FIELDS, unexpected
from tracebraid.chakra.wire.texts import numbered_texts

__all__ = ["plain_attributes"]

_NAME = 1
_INT32, _INT64, _UINT32, _UINT64, _BOOL, _STRING = 7, 9, 11, 13, 27, 29
_MOST = {_INT32: (-(2**31), 2**31), _UINT32: (0, 2**32), _BOOL: (0, 2)}
"""Ranges of values, from and below; the others take all of 64 bits."""


def plain_attributes(data: bytes, attributes: Slices) -> list[str | None]:
    """The JSON of each attribute that has a name and a usual value alone; None of the others.

    Args:
        data: holds them.
        attributes: where each lies.
    """
    fields = fields_of(data, attributes)
    plain = ~unexpected(fields, ATTRIBUTE_FIELDS)
    plain[fields.row[~fields.minimal]] = False
    names, values = np.flatnonzero(fields.number == _NAME), np.flatnonzero(fields.number > _NAME)
    for rows in (names, values):
        plain &= np.bincount(fields.row[rows], minlength=len(attributes)) == 1
    plain[fields.row[names[fields.value[names] == fields.stop[names]]]] = False
    found: list[str | None] = [None] * len(attributes)
    rows = np.flatnonzero(plain)
    if len(rows) == 0:
        return found
    name = np.zeros(len(attributes), dtype=np.int64)
    value = np.zeros(len(attributes), dtype=np.int64)
    name[fields.row[names]], value[fields.row[values]] = names, values
    # The name stands before the value.
    rows = rows[name[rows] < value[rows]]
    for row, text in zip(rows.tolist(), _texts(data, fields, name[rows], value[rows]), strict=True):
        found[row] = text
    return found


def _texts(
    data: bytes, fields: Fields, name: NDArray[np.int64], value: NDArray[np.int64]
) -> list[str | None]:
    number, unique = numbered_texts(data, fields.slices(name))
    heads = [_head(text) for text in unique]
    kinds, bits = fields.number[value].tolist(), fields.value[value].tolist()
    stops = fields.stop[value].tolist()
    found: list[str | None] = []
    for index, kind, bit, stop in zip(number.tolist(), kinds, bits, stops, strict=True):
        head = heads[index]
        if head is None:
            found.append(None)
        elif kind == _INT64:
            found.append(f'{head}"int64Val":"{bit}"}}')
        elif kind == _STRING:
            text = _as_json(data[bit:stop])
            found.append(None if text is None else f'{head}"stringVal":{text}}}')
        elif kind == _UINT64:
            found.append(f'{head}"uint64Val":"{bit % 2**64}"}}')
        else:
            found.append(_rare(head, kind, bit))
    return found


def _rare(head: str, kind: int, bits: int) -> str | None:
    least, below = _MOST.get(kind, (-(2**63), 2**63))
    if not least <= bits < below:
        return None
    if kind == _BOOL:
        return f'{head}"boolVal":{"true" if bits else "false"}}}'
    if kind == _INT32:
        return f'{head}"int32Val":{bits}}}'
    return f'{head}"uint32Val":{bits}}}' if kind == _UINT32 else None


def _head(name: bytes) -> str | None:
    text = _as_json(name)
    return None if text is None else f'{{"name":{text},'


def _as_json(text: bytes) -> str | None:
    """A text as JSON; None where it is no UTF-8."""
    try:
        return msgspec.json.encode(text.decode()).decode()
    except UnicodeDecodeError:
        return None
