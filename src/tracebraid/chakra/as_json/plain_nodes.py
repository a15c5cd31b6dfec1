"""JSON of nodes that protobuf would write as they stand, without protobuf: a hundred thousand and more in a second.

A node is plain if its fields are those of the schema, each once, in the order of their numbers, without values that
protobuf leaves out, and each number as short as it can be. Then its bytes come out of its JSON again. What is not
plain, and values that are rare, are left to protobuf.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tracebraid.chakra.as_json.message_json import WIRE, members_of
from tracebraid.chakra.as_json.plain_attributes import plain_attributes
from tracebraid.chakra.wire.fields import LENGTH, VARINT, Fields, Slices, fields_of, packed_varints
from tracebraid.chakra.wire.messages import messages
from tracebraid.chakra.wire.plain import NODE_FIELDS, unexpected
from tracebraid.chakra.wire.texts import numbered_texts
from tracebraid.model.chakra.codes import NodeType

__all__ = ["plain_nodes"]

_Ints = NDArray[np.int64]
_ID, _NAME, _TYPE, _CTRL_DEPS, _DATA_DEPS, _START, _DURATION, _INPUTS, _OUTPUTS, _ATTRIBUTES = range(1, 11)
_TYPES = ["", *(f',"type":"{kind.name}"' for kind in NodeType if kind)]


def plain_nodes(data: bytes, nodes: Slices) -> list[str | None]:
    """The JSON of each node; None of those that protobuf has to look at.

    Args:
        data: holds them.
        nodes: where each lies.
    """
    fields = fields_of(data, nodes)
    plain = ~(unexpected(fields, NODE_FIELDS) | _out_of_order(fields, len(nodes)))
    members = [
        _numbers(fields, _ID, "id", len(nodes)),
        _names(data, fields, len(nodes), plain),
        _types(fields, len(nodes), plain),
        _deps(data, fields, _CTRL_DEPS, "ctrlDeps", plain),
        _deps(data, fields, _DATA_DEPS, "dataDeps", plain),
        _numbers(fields, _START, "startTimeMicros", len(nodes)),
        _numbers(fields, _DURATION, "durationMicros", len(nodes)),
        _parts(data, fields, _INPUTS, "inputs", plain),
        _parts(data, fields, _OUTPUTS, "outputs", plain),
        _attributes(data, fields, plain),
    ]
    texts = ["".join(node)[1:] for node in zip(*members, strict=True)]
    return [f"{{{text}}}" if good else None for text, good in zip(texts, plain.tolist(), strict=True)]


def _out_of_order(fields: Fields, count: int) -> NDArray[np.bool_]:
    """Whether a node's fields are written in another way than protobuf writes them."""
    wrong = ~fields.minimal
    follows = np.zeros(len(wrong), dtype=np.bool_)
    follows[1:] = fields.row[1:] == fields.row[:-1]
    step = np.diff(fields.number, prepend=0)
    wrong |= follows & ((step < 0) | ((step == 0) & (fields.number != _ATTRIBUTES)))
    wrong |= (fields.wire_type == VARINT) & (fields.value == 0)
    is_part = fields.number >= _INPUTS
    wrong |= (fields.wire_type == LENGTH) & ~is_part & (fields.value == fields.stop)
    wrong |= (fields.wire_type == VARINT) & ((fields.number == _CTRL_DEPS) | (fields.number == _DATA_DEPS))
    found = np.zeros(count, dtype=np.bool_)
    found[fields.row[wrong]] = True
    return found


def _numbers(fields: Fields, member: int, name: str, count: int) -> list[str]:
    texts = [""] * count
    rows = fields.of(member)
    values = fields.value[rows].view(np.uint64).tolist()
    for row, value in zip(fields.row[rows].tolist(), values, strict=True):
        texts[row] = f',"{name}":"{value}"'
    return texts


def _names(data: bytes, fields: Fields, count: int, plain: NDArray[np.bool_]) -> list[str]:
    texts = [""] * count
    rows = fields.of(_NAME)
    number, unique = numbered_texts(data, fields.slices(rows))
    known = [_as_json(text) for text in unique]
    for row, index in zip(fields.row[rows].tolist(), number.tolist(), strict=True):
        text = known[index]
        if text is None:
            plain[row] = False
        else:
            texts[row] = f',"name":{text}'
    return texts


def _as_json(text: bytes) -> str | None:
    """A text as JSON; None where it is no UTF-8."""
    try:
        return msgspec.json.encode(text.decode()).decode()
    except UnicodeDecodeError:
        return None


def _types(fields: Fields, count: int, plain: NDArray[np.bool_]) -> list[str]:
    rows = fields.of(_TYPE)
    types = np.zeros(count, dtype=np.int64)
    types[fields.row[rows]] = fields.value[rows]
    unknown = (types < 0) | (types >= len(_TYPES))
    plain[unknown] = False
    types[unknown] = 0
    return [_TYPES[kind] for kind in types.tolist()]


def _deps(data: bytes, fields: Fields, member: int, name: str, plain: NDArray[np.bool_]) -> list[str]:
    texts = [""] * len(plain)
    rows = fields.of(member)
    rows = rows[fields.wire_type[rows] == LENGTH]
    packed = packed_varints(data, fields.slices(rows))
    plain[fields.row[rows[~(packed.readable & packed.minimal)]]] = False
    ends = np.cumsum(np.bincount(packed.row, minlength=len(rows))).tolist()
    values = packed.value.view(np.uint64).tolist()
    first = 0
    for row, end in zip(fields.row[rows].tolist(), ends, strict=True):
        texts[row] = f',"{name}":["' + '","'.join(map(str, values[first:end])) + '"]'
        first = end
    return texts


def _parts(data: bytes, fields: Fields, member: int, name: str, plain: NDArray[np.bool_]) -> list[str]:
    """`inputs` or `outputs`: equal ones are looked at once."""
    texts = [""] * len(plain)
    rows = fields.of(member)
    number, unique = numbered_texts(data, fields.slices(rows))
    known = [_by_protobuf(messages().io_info, content) for content in unique]
    for row, index in zip(fields.row[rows].tolist(), number.tolist(), strict=True):
        text = known[index]
        if text is None:
            plain[row] = False
        else:
            texts[row] = f',"{name}":{text}'
    return texts


def _attributes(data: bytes, fields: Fields, plain: NDArray[np.bool_]) -> list[str]:
    """`attr`: equal ones are looked at once."""
    rows = fields.of(_ATTRIBUTES)
    slices = fields.slices(rows)
    number, unique = numbered_texts(data, slices)
    first = np.unique(number, return_index=True)[1]
    known = [
        _by_protobuf(messages().attribute, content) if text is None else text
        for text, content in zip(plain_attributes(data, slices[first]), unique, strict=True)
    ]
    lost = np.array([text is None for text in known], dtype=np.bool_)
    plain[fields.row[rows[lost[number]]]] = False
    found = [known[index] or "" for index in number.tolist()]
    texts = [""] * len(plain)
    ends = np.cumsum(np.bincount(fields.row[rows], minlength=len(plain))).tolist()
    begin = 0
    for row, end in enumerate(ends):
        if end > begin:
            texts[row] = ',"attr":[' + ",".join(found[begin:end]) + "]"
            begin = end
    return texts


def _by_protobuf(kind: Any, content: bytes) -> str | None:
    """The JSON of a part of a node; None where it loses something."""
    members = members_of(kind, content)
    return None if WIRE in members else msgspec.json.encode(members).decode()
