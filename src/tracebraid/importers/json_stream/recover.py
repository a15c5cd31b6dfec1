"""Recover the objects of a chunk that does not decode as a whole: each is decoded separately, and repaired if possible.

What a recorder gets wrong most often is a name with quotes or control characters that it did not escape.
Such an object is repaired and kept; what cannot be read is left out, counted and located. The count of lost objects is
a lower bound: it counts the members that each object has once in the damaged text. Objects in bytes that were
overwritten or cut out cannot be counted.
"""

from __future__ import annotations

import gc
import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal

import msgspec
from msgspec import Struct, field

from tracebraid.model.finding import Issue, Loss
from tracebraid.model.finding_code import FindingCode

_NAME_STARTS = re.compile(r'"name"\s*:\s*"')
_NAME_ENDS = re.compile(r'"\s*,\s*"(?:ph|cat|pid|tid|ts|id|ctrl_deps|rf_id|args|dur)"\s*:')
_BORDER = re.compile(r'[{,]\s*"(?:name|ph|cat|pid|tid|ts|dur|args|id|ctrl_deps|rf_id)"\s*:')
"""A member of an event or a node: a text that contains one is not a name, but extends into another object."""
_MAY_SPAN = re.compile(r'(?<!\\)"\s*[,:]')
"""Pattern after an unescaped quote: either the name continues, or bytes are missing before another object."""
_MENDED_IN_KEY = re.compile("[\0-\x1f\ufffd]")
"""Pattern that no recorder writes in a member's name: bytes are missing, maybe with an object boundary."""
_ONCE = ("name", "ph", "ts", "id")
"""Members that an object has once: one that has such a member twice is made of two."""
_ZEROED = b"\0" * 8
"""Length of a run of zero bytes that is an unwritten file system block instead of text."""
_ARRAY_STARTS = re.compile(rb'"(?:traceEvents|nodes)"\s*:\s*\[')
"""Start of the array of another trace appended to the file."""
_BLANKS = b" \t\r\n,"
_NOT_BLANK = re.compile(rb"[^ \t\r\n,]")
_CUT_OFF = "Input data was truncated"
_RETRIES_TIMES = 8
"""Maximum total bytes read again after broken objects, as a multiple of the data, so that the cost stays linear."""
_JOIN_AT_MOST = 64
"""Maximum texts joined into one object, which bounds the cost of a truncated object."""
_TEXT_AT_MOST_BYTES = 1 << 20
"""A longer text is not read as one object: the cost of a broken object stays bounded."""
_REACH_BYTES = 1 << 10
"""Initial bytes decoded to find a value's end; grows up to `_TEXT_AT_MOST_BYTES`."""
_USUAL_BYTES = 1 << 14
"""Text length from which only the first value is decoded first: there can be thousands, with text in between."""
_TOKEN_BYTES = 32
"""Distance from the end of the decoded text within which an error can be due to a truncated token."""
_UNTERMINATED = "Unterminated string"
"""Message of Python's decoder for an unterminated string; it has the offset of the start."""
_DIGITS_AT_MOST = 4_300
"""Maximum digits of an integer for msgspec, and for Python by default."""
_DECODER = json.JSONDecoder(strict=False)


class Recovered(Struct):
    """A decoded object: value, text (repaired if necessary), and start byte."""

    value: dict[str, object]
    text: bytes
    byte: int


class ObjectShape(Struct, frozen=True):
    """Patterns that recognise objects of an array in its text.

    Args:
        boundary: what separates two objects, see `chunks.boundary_pattern`.
        start: how an object starts, see `chunks.start_pattern`.
        member: the name of a member that each object has once, and nothing inside it.
    """

    boundary: re.Pattern[bytes]
    start: re.Pattern[bytes]
    member: str

    def count(self, data: bytes, begin: int, stop: int) -> int:
        """Count objects with their member between two offsets; a member with a list or an object does not count."""
        return len(re.findall(rb'"%b"\s*:(?!\s*[\[{])' % self.member.encode(), data[begin:stop]))


def recover(data: bytes, start: int, shape: ObjectShape) -> tuple[list[Recovered], list[Issue]]:
    """Read the objects of a chunk one by one."""
    work = _Recovery(data, start, list(_split(data, shape.boundary))[::-1], shape)
    while work.texts:
        begin, stop = work.texts.pop()
        while begin < stop and data[begin] in _BLANKS:
            begin += 1
        if begin < stop:
            work.read(begin, stop)
    return work.kept, work.issues


class _Recovery(Struct):
    """State of a recovery: the texts still to be read as offsets in the data, last first; objects kept; issues."""

    data: bytes
    start: int
    texts: list[tuple[int, int]]
    shape: ObjectShape
    kept: list[Recovered] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)
    retried_bytes: int = 0
    in_damage: bool = False
    """Whether no complete object was read since the last damage: the next may be part of a damaged object."""

    def read(self, begin: int, stop: int) -> None:
        """Read the object that starts at `begin`; the rest up to `stop` returns to the texts."""
        is_object = self.data[begin] == ord("{")
        first = None
        if stop - begin > _USUAL_BYTES or not is_object:
            first = _leading_value(self.data, begin, stop)
        if first is not None and not is_object:
            self._skip(begin, begin + max(first.length, 1), stop, FindingCode.TEXT_BETWEEN)
            return
        error = ""
        if first is None or not first.length:
            text = self.data[begin : min(stop, begin + _TEXT_AT_MOST_BYTES)].rstrip(_BLANKS)
            value, error = _parse(text)
            if value is None and error == _CUT_OFF:
                value, text = self._join(begin, text)
            if value is not None:
                self._keep(value, text, begin)
                return
            first = first or _leading_value(self.data, begin, stop)
        after = begin + first.length
        whole = self.data[begin:after] if first.length else text
        value, error = _parse(whole) if first.length else (None, error)
        if value is not None:
            self._keep(value, whole, begin)
            if _NOT_BLANK.search(self.data, after, stop):
                # Neither a comma nor another object follows: the rest may be part of a damaged object.
                self.in_damage = True
                self.texts.append((after, stop))
        elif (repaired := _repair(whole)) is not None:
            if self._keep(repaired.value, repaired.text, begin):
                loss = Loss() if repaired.may_span else None
                self.issues.append(Issue(FindingCode.EVENT_MENDED, self.start + begin, loss))
            self.texts.append((begin + len(whole), stop))
        elif first.length:
            self._skip(begin, after, stop, FindingCode.TEXT_BETWEEN)
        elif error == _CUT_OFF and (head_bytes := self._head_of_trace(text)):
            self.in_damage = False
            loss = Loss(0, None, head_bytes)
            self.issues.append(Issue(FindingCode.TEXT_BETWEEN, self.start + begin, loss))
            self.texts.append((begin + head_bytes, stop))
        else:
            self._skip(begin, max(begin + 1, first.failed), stop, FindingCode.EVENT_UNREADABLE, error)

    def _head_of_trace(self, text: bytes) -> int:
        """Return the length of the header of another trace at the start of a text; 0 if there is none."""
        array = _ARRAY_STARTS.search(text)
        if array is None:
            return 0
        head, _ = _parse(text[: array.start()] + b'"_":0}')
        return 0 if head is None or self.shape.member in head else array.end()

    def _keep(self, value: dict[str, object], text: bytes, begin: int) -> bool:
        """Keep an object unless it may be part of a damaged one; returns whether it was kept."""
        self.in_damage = self.in_damage and self.shape.member not in value
        if self.in_damage:
            loss = Loss(self.shape.count(text, 0, len(text)), None, len(text))
            self.issues.append(Issue(FindingCode.TEXT_BETWEEN, self.start + begin, loss))
        else:
            self.kept.append(Recovered(value, text, self.start + begin))
        return not self.in_damage

    def _skip(self, begin: int, after: int, stop: int, code: FindingCode, error: str = "") -> None:
        """Skip from `begin` to the start of the next possible object, at `behind` or later."""
        following = None
        if self.retried_bytes <= _RETRIES_TIMES * len(self.data):
            following = self.shape.start.search(self.data, after, stop)
            self.retried_bytes += min(stop - begin, _TEXT_AT_MOST_BYTES) if error else 0
        end = following.start() if following else stop
        # What follows the array may have members of the objects' names, and is none of them.
        is_after_array = self.data[begin] == ord("]")
        at_least = 0 if is_after_array else self.shape.count(self.data, begin, end)
        loss = Loss(at_least, None, end - begin)
        self.in_damage = True
        if following:
            self.texts.append((end, stop))
        self.issues.append(Issue.of(code, self.start + begin, loss, error=error))

    def _join(self, begin: int, text: bytes) -> tuple[dict[str, object] | None, bytes]:
        """Join the parts of an object that was split at the end of an object nested in it."""
        for used in range(1, min(_JOIN_AT_MOST, len(self.texts)) + 1):
            joined = self.data[begin : self.texts[-used][1]]
            value, error = _parse(joined)
            if value is not None:
                del self.texts[-used:]
                return value, joined
            if error != _CUT_OFF:
                break
        return None, text


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


class _Repaired(Struct, frozen=True):
    """An object that was repaired.

    Args:
        value: the object.
        text: its JSON.
        may_span: whether it may be the beginning of one object and the end of another.
    """

    value: dict[str, object]
    text: bytes
    may_span: bool


def _repair(text: bytes) -> _Repaired | None:
    """The object with its name escaped, its encoding made UTF-8, and NaN, Infinity and huge numbers made null."""
    if _ZEROED in text:
        return None
    return _repair_form(text) or _repair_form(with_null_numbers(text)[0])


def _repair_form(text: bytes) -> _Repaired | None:
    words, name_may_span = text.decode("utf-8", "replace"), False
    value, may_span = _lenient(words)
    if value is None:
        escaped = _with_escaped_name(words)
        if escaped is None:
            return None
        words, name_may_span = escaped
        value, may_span = _lenient(words)
    if not isinstance(value, dict):
        return None
    try:
        repaired = msgspec.json.encode(value)
    except UnicodeEncodeError:
        halves = json.loads(words, strict=False, parse_constant=lambda _: None, parse_int=_int_of)
        repaired = json.dumps(halves, ensure_ascii=False).encode("utf-8", "replace")
    parsed, _ = _parse(repaired)
    return _Repaired(parsed, repaired, may_span or name_may_span) if parsed is not None else None


def _lenient(words: str) -> tuple[object, bool]:
    """The value of a text with control characters, NaN or huge numbers, and whether its members may be of two objects.

    The value is None if the text is no JSON in another way.
    """
    may_span = False

    def members(pairs: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal may_span
        keys = [key for key, _ in pairs]
        may_span = may_span or any(keys.count(key) > 1 for key in _ONCE)
        may_span = may_span or any(_MENDED_IN_KEY.search(key) for key in keys)
        return dict(pairs)

    try:
        value = json.loads(
            words,
            strict=False,
            parse_constant=lambda _: None,
            parse_float=_as_written,
            parse_int=_int_of,
            object_pairs_hook=members,
        )
    except (ValueError, RecursionError):
        return None, False
    return value, may_span


def _with_escaped_name(words: str) -> tuple[str, bool] | None:
    """The text with its name escaped, and whether that name may span two objects; None if it does, or has none."""
    begins = _NAME_STARTS.search(words)
    # Where the first name does not end, no later name does: a single search for each keeps the cost linear.
    ends = _NAME_ENDS.search(words, begins.end()) if begins else None
    if begins is None or ends is None:
        return None
    name = words[begins.end() : ends.start()]
    if _BORDER.search(name):
        return None
    escaped = json.dumps(_unescape(name))[1:-1]
    return words[: begins.end()] + escaped + words[ends.start() :], _MAY_SPAN.search(name) is not None


def _as_written(number: str) -> msgspec.Raw | None:
    """A number with all its digits, as a float would round a large time; None if it exceeds float64."""
    return msgspec.Raw(number.encode()) if math.isfinite(float(number)) else None


def _int_of(digits: str) -> int | None:
    """An integer; None if it has more digits than any decoder takes."""
    try:
        return int(digits) if len(digits) <= _DIGITS_AT_MOST else None
    except ValueError:
        return None


def _unescape(name: str) -> str:
    try:
        value = json.loads(f'"{name}"', strict=False)
    except ValueError:
        return name
    return value if isinstance(value, str) else name


class _Leading(Struct, frozen=True):
    """The length of the value that a text starts with; 0 if it starts with none, and the offset of the error."""

    length: int
    failed: int


def _leading_value(data: bytes, begin: int, stop: int) -> _Leading:
    reach = _REACH_BYTES
    while True:
        words = data[begin : min(stop, begin + reach)].decode("latin-1")
        try:
            _, length = _DECODER.raw_decode(words)
        except RecursionError:
            return _Leading(0, begin)
        except json.JSONDecodeError as error:
            may_go_on = error.msg.startswith(_UNTERMINATED) or error.pos > len(words) - _TOKEN_BYTES
            if not may_go_on or reach >= _TEXT_AT_MOST_BYTES or begin + reach >= stop:
                return _Leading(0, begin + error.pos)
            reach *= 8
        except ValueError:
            return _Leading(0, begin)
        else:
            return _Leading(length, begin)


_FRACTION = re.compile(rb"[0-9](?:\.0|[eE]|\.[0-9]+[eE])")
"""Characters of integers in other notations, and of some other numbers."""
_TOKEN = re.compile(rb'("[^"\\]*(?:\\.[^"\\]*)*")|(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)', re.DOTALL)
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_EXACT = 1 << 53
"""Integers beyond it may have been rounded by the writer of a fraction or exponent."""
_LONGEST = 40
"""Characters of such a number; longer ones stay as they are."""


def with_whole_numbers(text: bytes) -> bytes:
    """JSON text in which whole numbers are written as such: `7`, not `7.0` or `7e0`. Strings are left alone."""
    return _TOKEN.sub(_whole, text) if _FRACTION.search(text) else text


def forms_of_numbers(text: bytes) -> Iterator[bytes]:
    """Yield a JSON text as it is, then with whole numbers written as such, which takes longer than decoding it."""
    yield text
    yield with_whole_numbers(text)


def _whole(token: re.Match[bytes]) -> bytes:
    number = token[2]
    if number is None or len(number) > _LONGEST or number.lstrip(b"-").isdigit():
        return token[0]
    value = Decimal(number.decode())
    # The exponent is looked at first: an integer of 10**9 digits is never made.
    if value.adjusted() > len(str(_EXACT)) or value != value.to_integral_value() or abs(value) > _EXACT:
        return token[0]
    return b"%d" % int(value)


def plain_text(text: bytes, indent: int, whole: bool = True) -> bytes:
    """A short JSON text with its writer's spacing and without needless escapes; other text as it is."""
    if whole:
        text = with_whole_numbers(text)
    try:
        if b"\\" in text:
            text = _STRING.sub(lambda found: msgspec.json.encode(msgspec.json.decode(found[0])), text)
        return msgspec.json.format(text, indent=indent)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return text


_ODD_NUMBER = re.compile(rb'("[^"\\]*(?:\\.[^"\\]*)*")|([+-]?\b(?i:inf(?:inity)?|nan)\b)', re.DOTALL)
"""A string, or a number that JSON lacks, as C++ and Python print it."""


def with_null_numbers(text: bytes) -> tuple[bytes, list[int]]:
    """JSON text in which `inf`, `nan` and their like are null; each makes it a byte longer, at these offsets."""
    added: list[int] = []

    def null(token: re.Match[bytes]) -> bytes:
        number = token[2]
        if number is None:
            return token[0]
        added.append(token.end() + len(added))
        return b"null".ljust(len(number) + 1)

    return _ODD_NUMBER.sub(null, text), added


def escapable(word: str) -> bytes:
    r"""A pattern of a word of ASCII within a JSON string, each letter of which may be an escape: `\u0070h`."""
    letters = (rb"(?:%c|\\u(?i:%04x))" % (ord(letter), ord(letter)) for letter in word)
    return b"".join(letters)


@contextmanager
def paused_collector() -> Iterator[None]:
    """Disable the collector within the block, and enable it again if it was enabled before."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
