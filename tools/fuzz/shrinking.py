"""Makes files smaller for as long as something holds of them: fewer files, then fewer values, lines and bytes."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

__all__ = ["fewest", "smallest"]

_Item = TypeVar("_Item")
Holds = Callable[[bytes], bool]

_GZIP = b"\x1f\x8b"
_SIMPLEST = (None, 0, "")
"""What a value of JSON becomes where it does not matter."""


def smallest(files: Mapping[str, bytes], holds: Callable[[dict[str, bytes]], bool]) -> dict[str, bytes]:
    """The files without what is not needed for it to hold.

    Args:
        files: the content of a folder, of which it holds.
        holds: says whether it holds of other content; one that says no from some time on ends the search.
    """
    left = dict(fewest(sorted(files.items()), lambda some: holds(dict(some))))
    for path in sorted(left, key=lambda name: -len(left[name])):

        def of_file(data: bytes, path: str = path) -> bool:
            return holds({**left, path: data})

        left[path] = _shrunk(left[path], of_file)
    return left


def fewest(items: list[_Item], holds: Callable[[list[_Item]], bool]) -> list[_Item]:
    """The items without those that can go: blocks are left out, of half of them first, of one at last.

    This is the complement half of ddmin: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input",
    IEEE Transactions on Software Engineering 28(2), 2002.
    """
    size = max(1, len(items) // 2)
    while items:
        begin, before = 0, len(items)
        while begin < len(items):
            without = items[:begin] + items[begin + size :]
            if holds(without):
                items = without
            else:
                begin += size
        if size == 1 and len(items) == before:
            break
        size = max(1, size // 2)
    return items


def _shrunk(data: bytes, holds: Holds) -> bytes:
    """A file's content, smaller: what is packed in it, its values of JSON, its lines, its bytes."""
    if holds(b""):
        return b""
    if data.startswith(_GZIP):
        return _unpacked(data, holds)
    for shrink in (_values, _lines, _bytes):
        data = shrink(data, holds)
    return data


def _unpacked(data: bytes, holds: Holds) -> bytes:
    try:
        inner = gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return _bytes(data, holds)
    if not holds(_gzip(inner)):
        return _bytes(data, holds)
    return _gzip(_shrunk(inner, lambda smaller: holds(_gzip(smaller))))


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def _values(data: bytes, holds: Holds) -> bytes:
    """As JSON: nothing is changed where it is none, or where it would not hold of the same values."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return data
    if not holds(_dumped(value)):
        return data
    return _dumped(_value(value, lambda smaller: holds(_dumped(smaller))))


def _dumped(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _value(value: Any, holds: Callable[[Any], bool]) -> Any:
    """A smaller value: fewer members, and each of them as simple as may be."""
    for simple in _SIMPLEST:
        if value == simple:
            return value
        if holds(simple):
            return simple
    if isinstance(value, str):
        return "".join(fewest(list(value), lambda some: holds("".join(some))))
    if isinstance(value, list):
        value = fewest(value, holds)
        for at in range(len(value)):
            value[at] = _value(value[at], lambda one, at=at: holds([*value[:at], one, *value[at + 1 :]]))  # type: ignore[misc]
    elif isinstance(value, dict):
        value = dict(fewest(list(value.items()), lambda some: holds(dict(some))))
        for key in value:
            value[key] = _value(value[key], lambda one, key=key: holds({**value, key: one}))  # type: ignore[misc]
    return value


def _lines(data: bytes, holds: Holds) -> bytes:
    def of_lines(lines: list[bytes]) -> bool:
        return holds(b"".join(lines))

    left = fewest(data.splitlines(keepends=True), of_lines)
    return b"".join(left)


def _bytes(data: bytes, holds: Holds) -> bytes:
    return bytes(fewest(list(data), lambda some: holds(bytes(some))))
