"""Read `.et` files into columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct, field
from numpy.typing import NDArray

from tracebraid.chakra.schema import CHAKRA_NODES, AttributeValue, ChakraRank, NodeDeps
from tracebraid.chakra.wire.fields import NotPlainError, Slices
from tracebraid.chakra.wire.messages import messages, value_of
from tracebraid.chakra.wire.node_columns import NodeColumns, NodeLinks, joined_deps, node_columns, node_links
from tracebraid.errors import InputError, NotATraceError
from tracebraid.filesystem.archives.member_files import MemberFile
from tracebraid.filesystem.choose import file_system_of
from tracebraid.filesystem.compression import Compression, compression_of, unpack
from tracebraid.filesystem.interface import OpenFile
from tracebraid.filesystem.local import MemoryFile, read_standard_input
from tracebraid.filesystem.paths import name_of, text_of
from tracebraid.model.finding import Finding, FindingCase, Issue, Loss
from tracebraid.model.finding_code import FindingCode

STDIN = "-"
"""The path that means standard input."""

EXPECTED = "Expected a Chakra .et file: protobuf messages, each behind its length, plain, gzip or zstd"

_BLOCK_BYTES = 1 << 22
_MESSAGE_AT_MOST_BYTES = 1 << 26
"""A longer message is damage: nodes have some hundred bytes, and lists of a million dependencies 5 MB."""
_HEAD_BYTES = 16
_LENGTH_AT_MOST_BITS = 35
"""Maximum bytes of a length, a 32-bit varint in groups of 7 bits."""


class Batch(Struct, frozen=True, eq=False):
    """Some messages.

    Args:
        data: bytes of the unpacked file.
        messages: their locations in these bytes.
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


class FramedFile(Struct):
    """An open `.et` file.

    Args:
        file: as it lies.
        compression: how it is compressed; None if it is not.
        findings: filled while it is read: what ended it early.
    """

    file: OpenFile
    compression: Compression | None
    findings: list[Finding] = field(default_factory=list)

    @property
    def path(self) -> str:
        """Path as messages show it."""
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
        """Return the unpacked bytes."""
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
    """Open an `.et` file, or standard input for `-`."""
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
    """Merge bytes into larger blocks, as each block has a constant cost."""
    pending = bytearray()
    for block in blocks:
        pending += block
        if len(pending) >= _BLOCK_BYTES:
            yield bytes(pending)
            pending.clear()
    if pending:
        yield bytes(pending)


def _frames(data: bytes, at_begin: bool) -> tuple[list[int], list[int], int, int | None]:
    """Locate complete messages, the start of the first incomplete one, and its length if that is invalid.

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


KNOWN_VERSIONS = ("0.0.4", "1.0.0")
"""Versions that Chakra's converter and generator write; the layout of both is the same."""

_POSITIONS_SHOWN = 3
"""Places in a finding."""


class BatchReader(Struct):
    """Reads batches of a file in turn, and collects problems.

    Args:
        file: the file.
        version: of its metadata; None before that is read.
        attributes: of its metadata.
        positions: positions of each kind of finding.
        too_large: values left out, by column.
    """

    file: FramedFile
    version: str | None = None
    attributes: list[tuple[str, AttributeValue]] = field(default_factory=list)
    positions: dict[FindingCode, list[str]] = field(default_factory=dict)
    too_large: Counter[str] = field(default_factory=Counter)

    def read_metadata(self, batch: Batch) -> Batch:
        """Read the metadata, the first message; returns the others."""
        first = batch.data[batch.messages.start[0] : batch.messages.stop[0]]
        metadata = _parsed(messages().metadata, first)
        if metadata is None or _has_unknown(metadata):
            node = _parsed(messages().node, first)
            if node is not None and not _has_unknown(node):
                self._note(FindingCode.CHAKRA_METADATA_MISSING, batch.where(0))
                self.version = ""
                return batch
            if metadata is None or not metadata.ListFields():
                raise NotATraceError(
                    self.file.path, "its first message is not a Chakra message", EXPECTED, batch.where(0)
                )
            self._note(FindingCode.CHAKRA_FIELDS_UNKNOWN, batch.where(0))
        self.version = metadata.version
        self.attributes = [(attribute.name, _metadata_value(attribute)) for attribute in metadata.attr]
        rest = Slices(batch.messages.start[1:], batch.messages.stop[1:])
        return Batch(batch.data, rest, batch.offset, 1)

    def columns(self, batch: Batch) -> NodeColumns:
        """The columns of a batch's nodes, without those that are damaged."""
        data, nodes = batch.data, batch.messages
        try:
            found = node_columns(data, nodes)
        except (NotPlainError, UnicodeDecodeError, messages().error):
            found = node_columns(*self.vetted(batch))
        self.too_large.update(found.too_large)
        return found

    def findings(self) -> list[Finding]:
        """Problems met, with their first positions."""
        path, found = self.file.path, []
        for code, positions in self.positions.items():
            where = ", ".join(positions[:_POSITIONS_SHOWN]) + (
                ", ..." if len(positions) > _POSITIONS_SHOWN else ""
            )
            lost = code is FindingCode.CHAKRA_NODE_UNREADABLE
            loss = Loss(len(positions), len(positions)) if lost else None
            found.append(Finding(code, path, where, len(positions), loss))
        for column, count in self.too_large.items():
            if count:
                found.append(Finding.of(FindingCode.CHAKRA_VALUE_LEFT_OUT, path, count=count, column=column))
        if self.version and self.version not in KNOWN_VERSIONS:
            found.append(Finding.of(FindingCode.CHAKRA_VERSION_UNKNOWN, path, version=self.version))
        return found

    def vetted(self, batch: Batch) -> tuple[bytes, Slices]:
        """The nodes as protobuf reads them, written again: it says which are damaged, and what repeated fields mean."""
        kept: list[bytes] = []
        starts, stops = batch.messages.start.tolist(), batch.messages.stop.tolist()
        for number, (start, stop) in enumerate(zip(starts, stops, strict=True)):
            node = _parsed(messages().node, batch.data[start:stop])
            if node is None:
                self._note(FindingCode.CHAKRA_NODE_UNREADABLE, batch.where(number))
                continue
            if _has_unknown(node):
                self._note(FindingCode.CHAKRA_FIELDS_UNKNOWN, batch.where(number))
                node.DiscardUnknownFields()
            kept.append(node.SerializeToString())
        sizes = np.fromiter(map(len, kept), dtype=np.int64, count=len(kept))
        ends = np.cumsum(sizes)
        return b"".join(kept), Slices(ends - sizes, ends)

    def _note(self, code: FindingCode, where: str) -> None:
        self.positions.setdefault(code, []).append(where)


def _parsed(kind: Any, content: bytes) -> Any:
    try:
        return kind.FromString(content)
    except messages().error:
        return None


def _has_unknown(message: Any) -> bool:
    """Return whether a message, or one in it, holds fields that the schema does not have."""
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    return bool(known.ByteSize() != message.ByteSize())


def _metadata_value(attribute: Any) -> AttributeValue:
    value = value_of(attribute)
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    return value if isinstance(value, (str, int, float, bool)) else str(value)


_RANK = re.compile(r"\.(\d+)\.et(\.gz|\.zst)?$", re.I)


def read(path: str | Path) -> ChakraRank:
    """Read an `.et` file into columns.

    Args:
        path: the file or its URL, plain, gzip or zstd; `-` for standard input.

    Returns:
        Its nodes (`CHAKRA_NODES`), dependencies, metadata and `findings`. A truncated file is read
        up to the cut.

    Raises:
        InputError: it does not exist, or cannot be read.
        NotATraceError: it is not an `.et` file.
        MissingLibraryError: protobuf is not installed.

    Example:
        >>> rank = tracebraid.chakra.read("job.0.et")
        >>> rank.nodes.group_by("type").len()
    """
    file = open_frames(path)
    reader = BatchReader(file)
    parts = []
    for batch in file.batches():
        rest = batch if batch.first else reader.read_metadata(batch)
        parts.append(reader.columns(rest))
    if reader.version is None:
        raise NotATraceError(file.path, "it contains no complete message", EXPECTED)
    counts = [part.frame.height for part in parts]
    return ChakraRank(
        rank_in_name(text_of(path)) or 0,
        reader.version,
        tuple(reader.attributes),
        _nodes(parts),
        joined_deps([part.data_deps for part in parts], counts),
        joined_deps([part.ctrl_deps for part in parts], counts),
        (*file.findings, *reader.findings()),
    )


def rank_in_name(path: str) -> int | None:
    """Return the number before `.et` in a file name; None if there is none."""
    found = _RANK.search(name_of(path))
    return int(found[1]) if found else None


def _nodes(parts: list[NodeColumns]) -> pl.DataFrame:
    return CHAKRA_NODES.conform(pl.concat([part.frame for part in parts]))


_Ints = NDArray[np.int64]
_AGAIN = "Write the file again"


class NodeIndex(Struct, frozen=True, eq=False):
    """The nodes of a file.

    Args:
        path: the file.
        start: where each node begins in it.
        stop: the byte behind each.
        links: ids and dependencies alone, as a rank whose nodes have no other column.
        node_id: the id of each node.
    """

    path: str
    start: _Ints
    stop: _Ints
    links: ChakraRank
    node_id: _Ints

    def error(self, problem: str, row: int) -> InputError:
        """A problem of a node."""
        advice = "Correct what wrote the file; tracebraid chakra check names all such nodes"
        return InputError(self.path, problem, advice, f"byte {int(self.start[row]):,}")


def node_index(file: FramedFile, ctrl_deps: bool) -> NodeIndex:
    """Read a file, keeping only locations and dependencies of nodes."""
    reader = BatchReader(file)
    starts, stops, parts = [], [], []
    for batch in file.batches():
        rest = batch if batch.first else reader.read_metadata(batch)
        starts.append(rest.messages.start + rest.offset)
        stops.append(rest.messages.stop + rest.offset)
        parts.append(_links(reader, rest))
    if reader.version is None:
        raise NotATraceError(file.path, "it contains no complete message", EXPECTED)
    if file.findings:
        raise InputError(
            file.path, file.findings[0].message, "A Feeder needs complete files", file.findings[0].where
        )
    ids = np.concatenate([part.node_id for part in parts])
    counts = [len(part.node_id) for part in parts]
    data = joined_deps([part.data_deps for part in parts], counts)
    ctrl = joined_deps([part.ctrl_deps for part in parts], counts) if ctrl_deps else NodeDeps.none(len(ids))
    links = ChakraRank(0, reader.version, (), pl.DataFrame({"node_id": ids}), data, ctrl)
    return NodeIndex(file.path, np.concatenate(starts), np.concatenate(stops), links, ids)


def _links(reader: BatchReader, batch: Batch) -> NodeLinks:
    try:
        return node_links(batch.data, batch.messages)
    except NotPlainError:
        data, nodes = reader.vetted(batch)
        damaged = reader.positions.get(FindingCode.CHAKRA_NODE_UNREADABLE)
        if damaged:
            problem = "a message is no node of Chakra's"
            raise InputError(reader.file.path, problem, _AGAIN, damaged[0]) from None
        return node_links(data, nodes)
