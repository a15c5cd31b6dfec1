"""Members of a trace before and after its array."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from tracebraid.importers.json_stream.recover import with_whole_numbers

_LONG_NUMBER = re.compile(rb"\d{19}")
_INT64 = 1 << 63
_DEPTH_AT_MOST = 64
"""Maximum nesting. Recorders nest 4 deep; deeper values would exceed Python's recursion limit
wherever it is written, printed or sent to another process."""
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError)
"""OverflowError: an integer beyond float64."""


class Members(Struct, frozen=True):
    """The members beside the array, and whether all could be read."""

    members: dict[str, object]
    is_whole: bool


def members_of(text: bytes) -> Members | None:
    """Parse the members of an object except `_`; None if it is not an object. Integers beyond 64 bits become floats.

    Members that are nested too deeply, or contain an extreme number or invalid text, are dropped.
    """
    text = with_whole_numbers(text.removeprefix(b"\xef\xbb\xbf"))
    try:
        return Members(_read(text), True)
    except _UNREADABLE:
        pass
    try:
        raws = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except _UNREADABLE:
        return None
    known: dict[str, object] = {}
    for key, raw in raws.items():
        try:
            known |= _read(b"{%b:%b}" % (msgspec.json.encode(key), bytes(raw)))
        except _UNREADABLE:
            continue
    return Members(known, False)


def tail_of(tail: bytes) -> Members | None:
    """Parse the part after the array up to the end of the file; None if it does not complete an object."""
    return members_of(b'{"_":0' + tail)


def _read(text: bytes) -> dict[str, object]:
    """The members of an object, beside `_`."""
    value = msgspec.json.decode(text, type=dict[str, object])
    value.pop("_", None)
    if text.count(b"[") + text.count(b"{") > _DEPTH_AT_MOST or _LONG_NUMBER.search(text):
        _limit(value)
    return value


def _limit(members: dict[str, object]) -> None:
    """Convert integers beyond 64 bits to floats, and reject deep nesting."""
    level: list[Any] = [members]
    for _ in range(_DEPTH_AT_MOST + 1):
        deeper: list[Any] = []
        for holder in level:
            items = holder.items() if isinstance(holder, dict) else enumerate(holder)
            for key, value in list(items):
                if isinstance(value, dict | list):
                    deeper.append(value)
                elif isinstance(value, int) and not -_INT64 <= value < _INT64:
                    holder[key] = float(value)
        level = deeper
    if level:
        raise RecursionError("nested too deeply")
