"""`read_rank`: an `.et` file as columns."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.chakra.wire.attribute_values import value_of
from tracebraid.chakra.wire.fields import Slices
from tracebraid.chakra.wire.frames import EXPECTED, Batch, FramedFile, open_frames
from tracebraid.chakra.wire.messages import messages
from tracebraid.chakra.wire.node_columns import NodeColumns, node_columns
from tracebraid.chakra.wire.plain import NotPlainError
from tracebraid.errors import NotATraceError
from tracebraid.filesystem.paths import name_of, text_of
from tracebraid.model.chakra.chakra_rank import AttributeValue, ChakraRank, NodeDeps
from tracebraid.model.finding import Finding, Loss
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.schema.chakra import CHAKRA_NODES

__all__ = ["KNOWN_VERSIONS", "rank_in_name", "read_rank"]

KNOWN_VERSIONS = ("0.0.4", "1.0.0")
"""Versions that Chakra's converter and generator write; the layout of both is the same."""

_RANK = re.compile(r"\.(\d+)\.et(\.gz|\.zst)?$", re.I)
_POSITIONS_SHOWN = 3
"""Places in a finding."""


def read_rank(path: str | Path) -> ChakraRank:
    """Read an `.et` file.

    Args:
        path: the file or its URL, plain, gzip or zstd; `-` for standard input.

    Raises:
        InputError: it is not there, or cannot be read.
        NotATraceError: it is no `.et` file.
        MissingLibraryError: protobuf or numba is not installed.
    """
    file = open_frames(path)
    reader = _Reader(file)
    parts = []
    for batch in file.batches():
        rest = batch if batch.first else reader.take_metadata(batch)
        parts.append(reader.columns(rest))
    if reader.version is None:
        raise NotATraceError(file.path, "it holds no whole message", EXPECTED)
    return ChakraRank(
        rank_in_name(text_of(path)) or 0,
        reader.version,
        tuple(reader.attributes),
        _nodes(parts),
        _joined([part.data_deps for part in parts], [part.frame.height for part in parts]),
        _joined([part.ctrl_deps for part in parts], [part.frame.height for part in parts]),
        (*file.findings, *reader.findings()),
    )


def rank_in_name(path: str) -> int | None:
    """The number before `.et` in a file's name; None where there is none."""
    found = _RANK.search(name_of(path))
    return int(found[1]) if found else None


@dataclass
class _Reader:
    """What was met in a file.

    Args:
        file: the file.
        version: of its metadata; None before that is read.
        attributes: of its metadata.
        positions: of each kind of finding, where it was met.
        too_large: values left out, by column.
    """

    file: FramedFile
    version: str | None = None
    attributes: list[tuple[str, AttributeValue]] = field(default_factory=list)
    positions: dict[FindingCode, list[str]] = field(default_factory=dict)
    too_large: Counter[str] = field(default_factory=Counter)

    def take_metadata(self, batch: Batch) -> Batch:
        """Read the metadata, the first message; returns the others.

        Raises:
            NotATraceError: the first message is neither metadata nor a node.
        """
        first = batch.data[batch.messages.start[0] : batch.messages.stop[0]]
        metadata = _parsed(messages().metadata, first)
        if metadata is None or _has_unknown(metadata):
            node = _parsed(messages().node, first)
            if node is None or _has_unknown(node):
                raise NotATraceError(
                    self.file.path, "its first message is none of Chakra's", EXPECTED, batch.where(0)
                )
            self._note(FindingCode.CHAKRA_METADATA_MISSING, batch.where(0))
            self.version = ""
            return batch
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
            found = self._vetted(batch)
        self.too_large.update(found.too_large)
        return found

    def findings(self) -> list[Finding]:
        """What was met, with the first positions."""
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

    def _vetted(self, batch: Batch) -> NodeColumns:
        """The columns of nodes as protobuf reads them: it says which are damaged, and what repeated fields mean."""
        kept: list[bytes] = []
        starts, stops = batch.messages.start.tolist(), batch.messages.stop.tolist()
        for number, (start, stop) in enumerate(zip(starts, stops, strict=True)):
            content = batch.data[start:stop]
            node = _parsed(messages().node, content)
            if node is None:
                self._note(FindingCode.CHAKRA_NODE_UNREADABLE, batch.where(number))
                continue
            if _has_unknown(node):
                self._note(FindingCode.CHAKRA_FIELDS_UNKNOWN, batch.where(number))
                node.DiscardUnknownFields()
            kept.append(node.SerializeToString())
        sizes = np.fromiter(map(len, kept), dtype=np.int64, count=len(kept))
        ends = np.cumsum(sizes)
        return node_columns(b"".join(kept), Slices(ends - sizes, ends))

    def _note(self, code: FindingCode, where: str) -> None:
        self.positions.setdefault(code, []).append(where)


def _parsed(kind: Any, content: bytes) -> Any:
    try:
        return kind.FromString(content)
    except messages().error:
        return None


def _has_unknown(message: Any) -> bool:
    """Whether a message, or one in it, holds fields that the schema does not have."""
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    return bool(known.ByteSize() != message.ByteSize())


def _metadata_value(attribute: Any) -> AttributeValue:
    value = value_of(attribute)
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    return value if isinstance(value, (str, int, float, bool)) else str(value)


def _nodes(parts: list[NodeColumns]) -> pl.DataFrame:
    return CHAKRA_NODES.conform(pl.concat([part.frame for part in parts]))


def _joined(parts: list[tuple[NDArray[np.int64], NDArray[np.int64]]], heights: list[int]) -> NodeDeps:
    counts = [np.bincount(rows, minlength=height) for (rows, _), height in zip(parts, heights, strict=True)]
    first = np.zeros(sum(heights) + 1, dtype=np.int64)
    np.cumsum(np.concatenate(counts), out=first[1:])
    return NodeDeps(first, np.concatenate([ids for _, ids in parts]))
