"""Attributes as values of JSON, and back: with their types where these are not the usual ones of such a value."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from typing import Any

from tracebraid.chakra.wire.messages import messages
from tracebraid.errors import ArgumentError

__all__ = ["TYPE_ONLY", "attributes_of", "kind_of", "value_of"]

TYPE_ONLY = "type"
"""The key of an object that says only the type of an attribute whose value stands in a column."""

_PLAIN: dict[str, type] = {"int64_val": int, "double_val": float, "bool_val": bool, "string_val": str}
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def kind_of(attribute: Any) -> str | None:
    """The member that holds the value of an attribute, such as `int64_val`; None where none does."""
    kind: str | None = attribute.WhichOneof("value")
    return kind


def value_of(attribute: Any) -> object:
    """An attribute without its name.

    Args:
        attribute: a message of the class `AttributeProto`.
    """
    kind = kind_of(attribute)
    if kind is None:
        return {"doc_string": attribute.doc_string} if attribute.doc_string else {}
    held = getattr(attribute, kind)
    value = [_plain(item) for item in held.values] if kind.endswith("_list") else _plain(held)
    if not attribute.doc_string and type(value) is _PLAIN.get(kind):
        return value
    return {kind: value} | ({"doc_string": attribute.doc_string} if attribute.doc_string else {})


def attributes_of(name: str, value: object) -> Iterator[Any]:
    """The messages that a value of `value_of` stands for; of a list one for each of its items.

    Raises:
        ArgumentError: it stands for none.
    """
    for item in value if isinstance(value, list) else [value]:
        try:
            yield _attribute(name, item)
        except (TypeError, ValueError, AttributeError) as error:
            raise ArgumentError(f"the attribute {name!r} cannot be written as {item!r}: {error}") from None


def _attribute(name: str, value: object) -> Any:
    attribute = messages().attribute(name=name)
    kind = next((kind for kind, plain in _PLAIN.items() if type(value) is plain), None)
    members = {kind: value} if kind else value
    if not isinstance(members, dict):
        raise TypeError("it is no integer, number, boolean, text or object")
    for member, content in members.items():
        if member == "doc_string":
            attribute.doc_string = content
        elif member.endswith("_list"):
            held = getattr(attribute, member)
            held.SetInParent()
            held.values.extend(_held(member, item) for item in content)
        else:
            setattr(attribute, member, _held(member, content))
    return attribute


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _held(member: str, value: Any) -> Any:
    if member.startswith("bytes"):
        return base64.b64decode(value, validate=True)
    if member.startswith(("double", "float")) and isinstance(value, str):
        return _NOT_FINITE[value]
    return value
