"""The messages of an `.et` file, each behind its length, in batches; a damaged file gives all before the damage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tracebraid.chakra.wire.fields import Slices
from tracebraid.errors import NotATraceError
from tracebraid.filesystem.archives.member_files import MemberFile
from tracebraid.filesystem.choose import file_system_of
from tracebraid.filesystem.compression import Compression, compression_of
from tracebraid.filesystem.interface import OpenFile
from tracebraid.filesystem.local import MemoryFile
from tracebraid.filesystem.paths import text_of
from tracebraid.filesystem.pipe import read_standard_input
from tracebraid.filesystem.unpack import unpack
from tracebraid.model.finding import Finding, Loss
from tracebraid.model.finding_code import FindingCase, FindingCode
from tracebraid.model.issue import Issue

__all__ = ["EXPECTED", "STDIN", "Batch", "FramedFile", "open_frames"]

STDIN = "-"
"""The path that means standard input."""

EXPECTED = "Expected a Chakra .et file: protobuf messages, each behind its length, plain, gzip or zstd"

_BLOCK_BYTES = 1 << 22
_MESSAGE_AT_MOST_BYTES = 1 << 26
"""A longer message is damage: nodes have some hundred bytes, and lists of a million dependencies 5 MB."""
_HEAD_BYTES = 16
_LENGTH_AT_MOST_BITS = 35
"""Of a length, which is a varint of 32 bits, in groups of 7."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Some messages.

    Args:
        data: bytes of the unpacked file.
        messages: where they lie in these bytes.
        offset: where these bytes begin in the unpacked file.
        first: the number of the first message in the file.
    """

    data: bytes
    messages: Slices
    offset: int
    first: int

    def where(self, message: int) -> str:
        """The place of a message, for people."""
        return f"byte {self.offset + int(self.messages.start[message]):,}"


@dataclass
class FramedFile:
    """An open `.et` file.

    Args:
        file: as it lies.
        compression: how it is compressed; None where it is not.
        findings: filled while it is read: what ended it early.
    """

    file: OpenFile
    compression: Compression | None
    findings: list[Finding] = field(default_factory=list)

    @property
    def path(self) -> str:
        """As messages name it."""
        return self.file.path

    def batches(self) -> Iterator[Batch]:
        """All messages, as the file is read."""
        rest, offset, first = b"", 0, 0
        for block in self.blocks():
            data = rest + block
            starts, stops, at, wrong = _frames(data, first == 0)
            if starts:
                messages = Slices(np.array(starts, dtype=np.int64), np.array(stops, dtype=np.int64))
                yield Batch(data, messages, offset, first)
            first += len(starts)
            rest, offset = data[at:], offset + at
            if wrong is not None:
                self._ends_early(offset, rest, {"case": FindingCase.FRAME_LENGTH, "length": wrong})
                return
        if rest:
            self._ends_early(offset, rest, {"case": FindingCase.MESSAGE_CUT})

    def _packed(self) -> Iterator[bytes]:
        return self.file.blocks(_BLOCK_BYTES // 8)

    def _ends_early(self, offset: int, rest: bytes, details: dict[str, object]) -> None:
        loss = Loss(1, None, len(rest))
        self.findings.append(Finding(FindingCode.TRUNCATED, self.path, f"byte {offset:,}", 1, loss, details))

    def blocks(self) -> Iterator[bytes]:
        """The unpacked bytes, whatever they hold."""
        damage: list[Issue] = []
        if self.compression is None:
            yield from self.file.blocks(_BLOCK_BYTES)
        else:
            yield from _gathered(unpack(self._packed, self.compression, damage))
        member = self.file.damage if isinstance(self.file, MemberFile) else []
        self.findings += [
            Finding(issue.code, self.path, f"byte {issue.byte:,}", 1, issue.loss, issue.details)
            for issue in (*member, *damage)
        ]


def open_frames(path: str | Path) -> FramedFile:
    """Open an `.et` file, or standard input for `-`.

    Raises:
        InputError: it is not there, is a folder, or cannot be read.
        NotATraceError: it is empty.
    """
    name = text_of(path)
    if name == STDIN:
        file: OpenFile = MemoryFile("standard input", read_standard_input())
    else:
        file = file_system_of(name).open(name)
    head = file.read(0, _HEAD_BYTES)
    if not head:
        raise NotATraceError(file.path, "the file is empty", f"{EXPECTED}; was the trace ever written?")
    return FramedFile(file, compression_of(head))


def _gathered(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in blocks of a useful size: each block costs what it costs, however small."""
    pending = bytearray()
    for block in blocks:
        pending += block
        if len(pending) >= _BLOCK_BYTES:
            yield bytes(pending)
            pending.clear()
    if pending:
        yield bytes(pending)


def _frames(data: bytes, at_begin: bool) -> tuple[list[int], list[int], int, int | None]:
    """Where whole messages lie, where the first begins that is not whole, and its length where that is a wrong one.

    Only metadata may be empty: Chakra's tools read no further than to a length of 0, and damaged files end in zeros.
    """
    starts: list[int] = []
    stops: list[int] = []
    at, size = 0, len(data)
    while at < size:
        length, body = data[at], at + 1
        shift = 7
        while length >> shift:
            length &= (1 << shift) - 1
            if body >= size:
                return starts, stops, at, None
            byte = data[body]
            body += 1
            length |= byte << shift
            shift += 7
            if shift > _LENGTH_AT_MOST_BITS:
                break
        if length > _MESSAGE_AT_MOST_BYTES or (length == 0 and (at or not at_begin)):
            return starts, stops, at, length
        stop = body + length
        if stop > size:
            break
        starts.append(body)
        stops.append(stop)
        at = stop
    return starts, stops, at, None
