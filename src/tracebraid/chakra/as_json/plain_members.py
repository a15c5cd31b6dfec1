"""Bytes of nodes whose JSON has the usual members with the usual values, ten times as fast as protobuf reads JSON."""

from __future__ import annotations

from typing import Any

from tracebraid.chakra.wire.messages import messages
from tracebraid.model.chakra.codes import NodeType

__all__ = ["plain_bytes"]

_NUMBERS = {"id": "id", "startTimeMicros": "start_time_micros", "durationMicros": "duration_micros"}
_LISTS = {"ctrlDeps": "ctrl_deps", "dataDeps": "data_deps"}
_VALUES = {
    "int32Val": ("int32_val", int),
    "int64Val": ("int64_val", str),
    "uint32Val": ("uint32_val", int),
    "uint64Val": ("uint64_val", str),
    "boolVal": ("bool_val", bool),
    "stringVal": ("string_val", str),
}
"""Members of attributes, in JSON and in the schema, and the type that their values have in JSON."""


def plain_bytes(members: dict[str, Any]) -> bytes | None:
    """The bytes of a node; None where protobuf has to look at it.

    Args:
        members: its JSON.
    """
    try:
        content: bytes = messages().node(**_node(members)).SerializeToString()
    except (_NotPlainError, TypeError, ValueError, KeyError, AttributeError):
        return None
    return content


class _NotPlainError(Exception):
    """A member is none of the usual ones, or its value is of another type."""


def _node(members: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in members.items():
        if name in _NUMBERS:
            found[_NUMBERS[name]] = _number(value)
        elif name in _LISTS and type(value) is list:
            found[_LISTS[name]] = [_number(item) for item in value]
        elif name == "attr" and type(value) is list:
            found[name] = [_attribute(item) for item in value]
        elif name == "type":
            found[name] = NodeType[value].value
        elif name == "name" and type(value) is str:
            found[name] = value
        elif name in ("inputs", "outputs"):
            if not all(type(text) is str for text in value.values()):
                raise _NotPlainError
            found[name] = messages().io_info(**value)
        else:
            raise _NotPlainError
    return found


def _attribute(members: dict[str, Any]) -> Any:
    if len(members) != 2:
        raise _NotPlainError
    (first, name), (member, value) = members.items()
    if first != "name" or type(name) is not str:
        raise _NotPlainError
    held, kind = _VALUES[member]
    if type(value) is not kind:
        raise _NotPlainError
    if kind is str and held != "string_val":
        value = _number(value)
    return messages().attribute(name=name, **{held: value})


def _number(text: Any) -> int:
    """An integer from its text; other texts that Python takes for integers are left to protobuf."""
    number = int(text) if type(text) is str else None
    if number is None or str(number) != text:
        raise _NotPlainError
    return number
