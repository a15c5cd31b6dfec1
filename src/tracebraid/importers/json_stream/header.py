"""The members of a trace beside its array: those before it, and those behind it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

__all__ = ["Tail", "members_of", "tail_of"]

_LONG_NUMBER = re.compile(rb"\d{19}")
_INT64 = 1 << 63


@dataclass(frozen=True)
class Tail:
    """The members behind the array, and whether all could be read."""

    members: dict[str, object]
    is_whole: bool


def members_of(text: bytes) -> dict[str, object] | None:
    """The members of an object, beside `_`; None where it is none. Integers beyond 64 bits become floats."""
    try:
        value = msgspec.json.decode(text.removeprefix(b"\xef\xbb\xbf"), type=dict[str, object])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    value.pop("_", None)
    return {key: _limited(item) for key, item in value.items()} if _LONG_NUMBER.search(text) else value


def tail_of(tail: bytes) -> Tail | None:
    """What stands behind the array, to the end of the file; None where it does not complete an object."""
    text = b'{"_":0' + tail
    members = members_of(text)
    if members is not None:
        return Tail(members, True)
    try:
        raws = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    # A number is beyond all limits, or a text is none: the others count.
    known = {key: members_of(b'{"value":' + bytes(raw) + b"}") for key, raw in raws.items() if key != "_"}
    return Tail({key: value["value"] for key, value in known.items() if value is not None}, False)


def _limited(value: object) -> object:
    if isinstance(value, dict):
        return {key: _limited(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_limited(item) for item in value]
    return float(value) if isinstance(value, int) and not -_INT64 <= value < _INT64 else value
