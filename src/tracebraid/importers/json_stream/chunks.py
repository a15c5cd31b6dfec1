"""Split a trace file into a header and chunks of its large array, between objects.

Both kinds of traces are one JSON object around one array (`traceEvents`, `nodes`), or the bare array.
The array is not parsed to find the cuts. A cut is a match of `}, {"key":` behind which a whole object begins
that has the member by which an event (`ph`) or a node (`id`) is known. This excludes objects nested inside an
event, and strings whose text matches the pattern.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from msgspec import Struct, field

from tracebraid.errors import NotATraceError
from tracebraid.filesystem.interface import FileView, Viewed, matches, matches_from_end
from tracebraid.importers.json_stream.header import Members, members_of, tail_of
from tracebraid.importers.json_stream.recover import ObjectShape, escapable
from tracebraid.importers.json_stream.source import Source
from tracebraid.model.finding import FindingCase, Issue, Loss
from tracebraid.model.finding_code import FindingCode

EVENT_MEMBER, NODE_MEMBER = "ph", "id"
"""The member by which an event and a node are known."""

_ARRAY_START = re.compile(
    rb'"(%b|%b)"\s*:\s*\[' % (escapable("traceEvents"), escapable("nodes")),
)
_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
"""An unterminated string extends to the end of the text: none is read again from its middle."""
_BARE_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[")
_FIRST_KEY = re.compile(rb'\s*\{\s*("(?:[^"\\]|\\.)*")\s*:')
_OBJECT_THEN_CLOSE = re.compile(rb"\}\s*\]")
_EMPTY_CLOSE = re.compile(rb"\s*\]")
_BASE_TIME = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d{1,19})\b')
_ANY_MEMBER = re.compile(rb'"(?:%b|%b)"\s*:' % (escapable(EVENT_MEMBER), escapable(NODE_MEMBER)))
_HEADER_LIMIT_BYTES = 1 << 28
"""Maximum bytes searched for the array."""
_HEADER_USUAL_BYTES = 1 << 22
"""Bytes of a mapped file searched first; headers of test traces take at most 26 KB."""
_FIRST_OBJECT_BYTES = 1 << 16
"""Bytes of the array read with the header, to find the first object's first key."""
_REACH_BYTES = 1 << 14
"""Initial bytes decoded to find an object's end; grows up to `_OBJECT_AT_MOST_BYTES`."""
_REACH_BACK_BYTES = 1 << 12
"""Initial bytes searched backward for an object's start; grows up to `_OBJECT_AT_MOST_BYTES`."""
_CLOSE_CANDIDATES = 500
"""Number of `}]` tried as the end of the array, from the end; bounds the cost for a truncated file."""
_OBJECT_AT_MOST_BYTES = 1 << 22
"""No cut is made before a longer object; the largest object of our test traces has 18 KB."""
_QUOTE, _OPENING = ord('"'), b"{["
_DECODER = json.JSONDecoder(strict=False)
_EXPECTED = 'Expected `"traceEvents": [` of a Kineto trace or `"nodes": [` of an Execution Trace'


_CHAKRA = re.compile(rb"[\x80-\xff]{0,2}[\x01-\x7f]\x0a[\x01-\x20][0-9]+[.0-9A-Za-z+-]*")
"""The start of a protobuf Chakra trace: the length of its metadata, and in it the version of its schema."""
_PERFETTO = re.compile(rb"\n.{1,16}?[\x00-\x08\x0e-\x1f]", re.DOTALL)
"""The start of a timeline of Perfetto: a packet, whose fields are numbers and no text."""
PERFETTO_IS_NOT_READ = (
    "this is a timeline of Perfetto (`.pftrace`), which is written and not read",
    "Export JSON from the profiler: export_chrome_trace('trace.json'); or give the traces that it was made from",
)
_CHAKRA_IS_READ = (
    "`tracebraid chakra stats` and `chakra check` read it; give the traces that it was made from here"
)


class Chunk(Struct, frozen=True):
    """Consecutive whole objects of the array, with the commas between them and no bracket.

    Args:
        start: offset of its first byte in the uncompressed file.
        stop: offset after its last byte.
        data: the bytes.
    """

    start: int
    stop: int
    data: bytes


class ArrayFile(Struct):
    """A trace file, opened as far as its array; `chunks` reads the rest.

    Args:
        source: the file.
        array: "traceEvents", "nodes", or "" for a bare array.
        first_key: the key, in its quotes, that each object of the array starts with: the first node's first key, as
            nodes hold lists of objects, which have other keys; b"" (any key) for events, which hold none.
        header: the members beside the array; those after it are added when `chunks` has come to its end.
        problems: findings around the array.
        start: offset after the array's opening bracket.
    """

    source: Source
    array: str
    first_key: bytes
    header: dict[str, object]
    start: int
    problems: list[Issue] = field(default_factory=list)
    _whole: FileView | bytes | None = None
    _read: bytearray = field(default_factory=bytearray)
    _blocks: Iterator[bytes] = field(default_factory=lambda: iter(()))

    def chunks(self, chunk_bytes: int) -> Iterator[Chunk]:
        """The array in chunks of about that many bytes; once only."""
        if self._whole is not None:
            return self._cut_complete(self._whole, chunk_bytes)
        return self._cut_stream(chunk_bytes)

    def head(self) -> bytes:
        """The first bytes of the array, usually with some of its objects; before `chunks` is called."""
        whole, start = (self._read, 0) if self._whole is None else (self._whole, self.start)
        return bytes(whole[start : start + _FIRST_OBJECT_BYTES])

    def fraction_done(self, chunk: Chunk) -> float:
        """The share of the file that is read once that chunk is done, 0 to 1."""
        done = chunk.stop if self._whole is not None else self.source.done_bytes
        return min(1.0, done / max(1, self.source.size_bytes))

    def _cut_complete(self, whole: FileView | bytes, chunk_bytes: int) -> Iterator[Chunk]:
        stop = self._close(whole, self.start, 0)
        start = self.start
        while stop - start > chunk_bytes:
            cut = self._next_cut(whole, start + chunk_bytes, stop)
            if cut is None:
                break
            yield Chunk(start, cut[0], whole[start : cut[0]])
            start = cut[1]
        if stop > start:
            yield Chunk(start, stop, whole[start:stop])

    def _cut_stream(self, chunk_bytes: int) -> Iterator[Chunk]:
        buffer, base, scanned = self._read, self.start, chunk_bytes
        for block in self._blocks:
            buffer += block
            while len(buffer) > 2 * chunk_bytes and scanned < len(buffer):
                cut = self._next_cut(buffer, scanned, len(buffer))
                if cut is None:
                    scanned = max(chunk_bytes, len(buffer) - _OBJECT_AT_MOST_BYTES)
                    break
                yield Chunk(base, base + cut[0], bytes(buffer[: cut[0]]))
                del buffer[: cut[1]]
                base, scanned = base + cut[1], chunk_bytes
        rest = bytes(buffer)
        stop = self._close(rest, 0, base)
        if stop > 0:
            yield Chunk(base, base + stop, rest[:stop])

    def _next_cut(self, view: Viewed, start: int, stop: int) -> tuple[int, int] | None:
        """(end of an object, start of the next) of the first cut at or after `start`; None without any."""
        for end, begin in matches(boundary_pattern(self.first_key), view, start, stop):
            if self._object_end(view, begin) is not None:
                return end + 1, begin
        return None

    def _object_end(self, view: Viewed, begin: int) -> int | None:
        """Return the end of the event or node that begins at an offset; None if there is none."""
        reach = _REACH_BYTES
        while view[begin : begin + 1] in (b" ", b"\t", b"\r", b"\n"):
            begin += 1
        while True:
            words = bytes(view[begin : begin + reach]).decode("latin-1")
            try:
                value, length = _DECODER.raw_decode(words)
            except ValueError:
                if reach >= _OBJECT_AT_MOST_BYTES or begin + reach >= len(view):
                    return None
                reach *= 8
            except RecursionError:
                return None
            else:
                member = NODE_MEMBER if self.array == "nodes" else EVENT_MEMBER
                return begin + length if isinstance(value, dict) and member in value else None

    def _close(self, view: FileView | bytes, low: int, base: int) -> int:
        """Find the end of the array in the view; add the part after it to the header.

        The end is the last `}]` whose rest completes the file and whose `}` ends an object that starts
        at a cut. A list of objects beside the array (`deviceProperties` after the events) fails the
        second test and is skipped.
        """
        empty = _EMPTY_CLOSE.match(view[low : low + _FIRST_OBJECT_BYTES])
        candidates = iter([(low, low + empty.end())]) if empty else _close_candidates(view, low)
        likely: tuple[int, Members] | None = None
        complete: list[tuple[int, Members]] = []
        for stop, after in candidates:
            tail = self._tail(view[after:])
            if tail is None:
                continue
            complete.append((stop, tail))
            if stop == low or self._ends_object(view, low, stop, _REACH_BACK_BYTES):
                likely = complete[-1]
                break
        else:
            # The last object is long, or is none.
            ends = (each for each in complete if self._ends_object(view, low, each[0]))
            likely = next(ends, None)
            if likely is None and not self._ends_object(view, low, _stripped_end(view, low)):
                likely = next(iter(complete), None)
        if likely is None:
            self.problems.append(Issue(FindingCode.TRUNCATED, base + len(view), Loss()))
            return len(view)
        stop, tail = likely
        self.header.update(tail.members)
        if not tail.is_whole:
            self.problems.append(Issue(FindingCode.HEADER_UNREADABLE, base + stop))
        return stop

    def _tail(self, text: bytes) -> Members | None:
        """Return the part after the array; nothing for a bare array."""
        if self.array:
            return tail_of(text)
        return None if text.strip() else Members({}, True)

    def _ends_object(
        self, view: FileView | bytes, low: int, stop: int, reach_at_most: int = _OBJECT_AT_MOST_BYTES
    ) -> bool:
        """Return whether an event or a node of so many bytes at most, or a few more, ends at `stop`."""
        reach, tested_from = _REACH_BACK_BYTES, stop
        while True:
            begin = max(low, stop - reach)
            starts = [start for _, start in matches(boundary_pattern(self.first_key), view, begin, stop)]
            starts = [low, *starts] if begin == low else starts
            untested = [start for start in starts[-_CLOSE_CANDIDATES:] if start < tested_from]
            if any(self._object_end(view, start) == stop for start in reversed(untested)):
                return True
            tested_from = min(untested, default=tested_from)
            if begin == low or reach >= reach_at_most:
                return False
            reach *= 16


def _stripped_end(view: FileView | bytes, low: int) -> int:
    """The end of the view without trailing whitespace."""
    end = len(view)
    while end > low:
        begin = max(low, end - _FIRST_OBJECT_BYTES)
        text = view[begin:end].rstrip(b" \t\r\n")
        if text:
            return begin + len(text)
        end = begin
    return low


def shape_of(first_key: bytes, member: str) -> ObjectShape:
    """Patterns that recognise objects of the array."""
    return ObjectShape(
        boundary_pattern(first_key), re.compile(rb"\{\s*" + _key(first_key) + rb"\s*:"), member
    )


def boundary_pattern(first_key: bytes) -> re.Pattern[bytes]:
    """Separator of two objects of the array; the match ends at the start of the second."""
    return re.compile(rb"\}\s*,\s*(?=\{\s*" + _key(first_key) + rb"\s*:)")


def _key(first_key: bytes) -> bytes:
    return re.escape(first_key) if first_key else rb'"(?:[^"\\]|\\.)*"'


def open_array(source: Source) -> ArrayFile:
    """Read a file as far as its array."""
    whole = source.whole()
    if whole is not None:
        found = _find_array(source, whole[:_HEADER_USUAL_BYTES], final=len(whole) <= _HEADER_USUAL_BYTES)
        found = found or _find_array(source, whole[:_HEADER_LIMIT_BYTES], final=True)
        return _array_file(source, found, whole, _whole=whole)
    read, found = bytearray(), None
    blocks = source.blocks()
    for block in blocks:
        read += block
        found = _find_array(source, bytes(read), final=len(read) >= _HEADER_LIMIT_BYTES)
        if found and len(read) - found.start > _FIRST_OBJECT_BYTES:
            break
    found = found or _find_array(source, bytes(read), final=True)
    file = _array_file(source, found, read, _read=read, _blocks=blocks)
    del read[: file.start]
    return file


class _Found(Struct, frozen=True):
    array: str
    start: int
    header: dict[str, object]
    problems: list[Issue]


def _array_file(source: Source, found: _Found | None, view: Viewed, **rest: Any) -> ArrayFile:
    assert found is not None, "the last search either finds an array or raises"
    first = _FIRST_KEY.match(bytes(view[found.start : found.start + _FIRST_OBJECT_BYTES]))
    key = first.group(1) if first and found.array == "nodes" else b""
    return ArrayFile(source, found.array, key, found.header, found.start, found.problems, **rest)


def _find_array(source: Source, text: bytes, final: bool) -> _Found | None:
    bare = _BARE_START.match(text)
    if bare:
        return _Found("", bare.end(), {}, [])
    match = _array_of_the_file(text) or _ARRAY_START.search(text)
    if match is None:
        if not final:
            return None
        if _CHAKRA.match(text):
            raise NotATraceError(source.path, "this is a Chakra trace for simulators", _CHAKRA_IS_READ)
        if _PERFETTO.match(text):
            raise NotATraceError(source.path, *PERFETTO_IS_NOT_READ)
        raise NotATraceError(source.path, _sniff_content(text), _EXPECTED)
    array = json.loads(b'"%b"' % match.group(1))
    header = members_of(text[: match.start()] + b'"_":0}')
    if header is not None and header.is_whole:
        return _Found(array, match.end(), header.members, [])
    if header is None:
        base = _BASE_TIME.search(text, 0, match.start())
        header = Members({"baseTimeNanoseconds": int(base.group(1))} if base else {}, False)
    problems = [Issue(FindingCode.HEADER_UNREADABLE, 0)]
    if _ANY_MEMBER.search(text, 0, match.start()):
        case = FindingCase.OBJECTS_BEFORE_ARRAY
        problems.append(Issue.of(FindingCode.TEXT_BETWEEN, 0, Loss(), case=case))
    return _Found(array, match.end(), header.members, problems)


def _array_of_the_file(text: bytes) -> re.Match[bytes] | None:
    """The first start of an array that is a member of the outermost object, not of a value in the header."""
    if _ARRAY_START.search(text) is None:
        return None
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(text):
        first = text[token.start()]
        if first == _QUOTE:
            found = _ARRAY_START.match(text, token.start()) if depth == 1 else None
            if found:
                return found
        else:
            depth += 1 if first in _OPENING else -1
    return None


def _sniff_content(text: bytes) -> str:
    if b"\x00" in text[:4096]:
        return "this looks like binary data"
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        start = text[:40].decode("utf-8", "replace").strip()
        return f"this is no trace: it starts with {start!r} and has no array of events or nodes"
    if isinstance(value, dict):
        keys = ", ".join(repr(key) for key in list(value)[:6]) or "none"
        return f"this is JSON, but no trace: its keys are {keys}"
    return f"this is JSON, but no trace: one {type(value).__name__}"


def _close_candidates(view: FileView | bytes, low: int) -> Iterator[tuple[int, int]]:
    """(offset after `}`, offset after `]`) of each `}]`, from the last to the first."""
    found = islice(matches_from_end(_OBJECT_THEN_CLOSE, view, low), _CLOSE_CANDIDATES)
    return ((start + 1, end) for start, end in found)
