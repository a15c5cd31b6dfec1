"""Objects of a piece that does not decode as a whole: each on its own, mended where that is plain.

What a recorder gets wrong most often is a name with quotes or control characters that it did not escape.
Such an object is mended and kept; what cannot be read is left out, counted and located.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

__all__ = ["Issue", "Salvaged", "salvage"]

_NAME = re.compile(
    r'("name"\s*:\s*")(.*?)("\s*,\s*"(?:ph|cat|pid|tid|ts|id|ctrl_deps|rf_id|args|dur)"\s*:)', re.S
)
_JOIN_AT_MOST = 8


@dataclass(frozen=True)
class Issue:
    """Something wrong with one object: a short code, the words for it, and the byte where it starts."""

    code: str
    message: str
    byte: int


@dataclass
class Salvaged:
    """One object that was read: the value, its text as it now is, and the byte where it starts."""

    value: dict[str, object]
    text: bytes
    byte: int


def salvage(data: bytes, start: int, boundary: re.Pattern[bytes]) -> tuple[list[Salvaged], list[Issue]]:
    """Read the objects of a piece one by one.

    Args:
        data: the piece; objects with commas between them.
        start: place of its first byte in the file.
        boundary: what separates two objects, see `pieces.boundary_pattern`.
    """
    texts = list(_split(data, boundary))
    kept: list[Salvaged] = []
    issues: list[Issue] = []
    index = 0
    while index < len(texts):
        used, result, issue = _read_one(texts, index, data)
        byte = start + texts[index][0]
        if result is not None:
            kept.append(Salvaged(result[0], result[1], byte))
        if issue is not None:
            issues.append(Issue(issue[0], issue[1], byte))
        index += used
    return kept, issues


_Read = tuple[dict[str, object], bytes]


def _split(data: bytes, boundary: re.Pattern[bytes]) -> Iterator[tuple[int, int]]:
    begin = 0
    for match in boundary.finditer(data):
        yield begin, match.start() + 1
        begin = match.end()
    if data[begin:].strip(b" \t\r\n,"):
        yield begin, len(data)


def _read_one(
    texts: list[tuple[int, int]], index: int, data: bytes
) -> tuple[int, _Read | None, tuple[str, str] | None]:
    """(texts used, the object, what was wrong) for the object that starts at texts[index]."""
    begin, stop = texts[index]
    text = data[begin:stop].strip(b" \t\r\n,")
    value, error = _parse(text)
    if value is not None:
        return 1, (value, text), None
    for used in range(2, min(_JOIN_AT_MOST, len(texts) - index) + 1):
        joined = data[begin : texts[index + used - 1][1]]
        value, _ = _parse(joined)
        if value is not None:
            return used, (value, joined), None
    mended = _mend(text)
    if mended is not None:
        value, _ = _parse(mended)
        if value is not None:
            return 1, (value, mended), ("event-mended", "text with unescaped characters was mended")
    prefix = _leading_object(text)
    if prefix is not None:
        return 1, prefix, ("text-between", "text that belongs to no object was left out")
    return 1, None, ("event-unreadable", f"an object is no valid JSON and was left out ({error})")


def _parse(text: bytes) -> tuple[dict[str, object] | None, str]:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return None, str(error)
    if not isinstance(value, dict):
        return None, f"expected an object, got {type(value).__name__}"
    return value, ""


def _mend(text: bytes) -> bytes | None:
    """The object with its name escaped, its encoding made UTF-8, and NaN and Infinity made null."""
    words = text.decode("utf-8", "replace")
    words = _NAME.sub(
        lambda m: m.group(1) + json.dumps(_unescape(m.group(2)))[1:-1] + m.group(3), words, count=1
    )
    try:
        value = json.loads(words, strict=False, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return json.dumps(value).encode() if isinstance(value, dict) else None


def _unescape(name: str) -> str:
    try:
        value = json.loads(f'"{name}"', strict=False)
    except ValueError:
        return name
    return value if isinstance(value, str) else name


def _leading_object(text: bytes) -> _Read | None:
    words = text.decode("latin-1")
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(words)
    except (ValueError, RecursionError):
        return None
    return (value, text[:end]) if isinstance(value, dict) else None
