"""Objects of a piece that does not decode as a whole: each on its own, mended where that is plain.

What a recorder gets wrong most often is a name with quotes or control characters that it did not escape.
Such an object is mended and kept; what cannot be read is left out, counted and located.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

__all__ = ["Issue", "Salvaged", "salvage"]

_NAME = re.compile(
    r'("name"\s*:\s*")(.*?)("\s*,\s*"(?:ph|cat|pid|tid|ts|id|ctrl_deps|rf_id|args|dur)"\s*:)', re.S
)
_BLANKS = b" \t\r\n,"
_CUT_OFF = "Input data was truncated"
_JOIN_AT_MOST = 64
_TEXT_AT_MOST_BYTES = 1 << 20
_DECODER = json.JSONDecoder(strict=False)


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
    work = _Salvage(data, start, list(_split(data, boundary))[::-1])
    while work.texts:
        begin, stop = work.texts.pop()
        while begin < stop and data[begin] in _BLANKS:
            begin += 1
        if begin < stop:
            work.read(begin, stop)
    return work.kept, work.issues


@dataclass
class _Salvage:
    """The texts that are still to be read, last first, as places in the data; what was kept; what was wrong."""

    data: bytes
    start: int
    texts: list[tuple[int, int]]
    kept: list[Salvaged] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)

    def read(self, begin: int, stop: int) -> None:
        """Read the object that starts at `begin`; what follows it before `stop` goes back to the texts."""
        text = self.data[begin : min(stop, begin + _TEXT_AT_MOST_BYTES)].rstrip(_BLANKS)
        value, error = _parse(text)
        if value is None and error == _CUT_OFF:
            value, text = self._join(begin, text)
        if value is not None:
            self.kept.append(Salvaged(value, text, self.start + begin))
            return
        leading, length = _leading_value(self.data, begin, stop)
        whole = self.data[begin : begin + length] if length else text
        if isinstance(leading, dict):
            value, error = _parse(whole)
        if value is not None:
            self.kept.append(Salvaged(value, whole, self.start + begin))
            self.texts.append((begin + length, stop))
        elif (length == 0 or isinstance(leading, dict)) and (mended := _mend(whole)) is not None:
            self.kept.append(Salvaged(*mended, self.start + begin))
            self._report("event-mended", "text with unescaped characters was mended", begin)
            self.texts.append((begin + len(whole), stop))
        elif length or self.data[begin] != ord("{"):
            self._report("text-between", "text that belongs to no object was left out", begin)
            following = begin + length if length else self.data.find(b"{", begin, stop)
            if following > begin:
                self.texts.append((following, stop))
        else:
            self._report("event-unreadable", f"an object is no valid JSON and was left out ({error})", begin)

    def _join(self, begin: int, text: bytes) -> tuple[dict[str, object] | None, bytes]:
        """An object that holds a list of objects was split where one of these ended: put it together again."""
        for used in range(1, min(_JOIN_AT_MOST, len(self.texts)) + 1):
            joined = self.data[begin : self.texts[-used][1]]
            value, error = _parse(joined)
            if value is not None:
                del self.texts[-used:]
                return value, joined
            if error != _CUT_OFF:
                break
        return None, text

    def _report(self, code: str, message: str, begin: int) -> None:
        self.issues.append(Issue(code, message, self.start + begin))


def _split(data: bytes, boundary: re.Pattern[bytes]) -> Iterator[tuple[int, int]]:
    begin = 0
    for match in boundary.finditer(data):
        yield begin, match.start() + 1
        begin = match.end()
    yield begin, len(data)


def _parse(text: bytes) -> tuple[dict[str, object] | None, str]:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return None, str(error)
    if not isinstance(value, dict):
        return None, f"expected an object, got {type(value).__name__}"
    return value, ""


def _mend(text: bytes) -> tuple[dict[str, object], bytes] | None:
    """The object with its name escaped, its encoding made UTF-8, and NaN and Infinity made null."""
    words = text.decode("utf-8", "replace")
    words = _NAME.sub(
        lambda m: m.group(1) + json.dumps(_unescape(m.group(2)))[1:-1] + m.group(3), words, count=1
    )
    try:
        value = json.loads(words, strict=False, parse_constant=lambda _: None, parse_float=_as_written)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    try:
        mended = msgspec.json.encode(value)
    except UnicodeEncodeError:
        halves = json.loads(words, strict=False, parse_constant=lambda _: None)
        mended = json.dumps(halves, ensure_ascii=False).encode("utf-8", "replace")
    parsed, _ = _parse(mended)
    return (parsed, mended) if parsed is not None else None


def _as_written(number: str) -> msgspec.Raw | None:
    """A number that keeps all its digits: a float would round a large time. None where no float is so large."""
    return msgspec.Raw(number.encode()) if math.isfinite(float(number)) else None


def _unescape(name: str) -> str:
    try:
        value = json.loads(f'"{name}"', strict=False)
    except ValueError:
        return name
    return value if isinstance(value, str) else name


def _leading_value(data: bytes, begin: int, stop: int) -> tuple[object, int]:
    """The value that starts at `begin`, and its length; length 0 where none does."""
    reach = 1 << 14
    while True:
        words = data[begin : min(stop, begin + reach)].decode("latin-1")
        try:
            value, length = _DECODER.raw_decode(words)
        except RecursionError:
            return None, 0
        except ValueError:
            if reach >= _TEXT_AT_MOST_BYTES or begin + reach >= stop:
                return None, 0
            reach *= 8
        else:
            return value, length
