"""`read_rank`: an `.et` file as columns."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from tracebraid.chakra.wire.batch_reader import BatchReader
from tracebraid.chakra.wire.frames import EXPECTED, open_frames
from tracebraid.chakra.wire.node_columns import NodeColumns, joined_deps
from tracebraid.errors import NotATraceError
from tracebraid.filesystem.paths import name_of, text_of
from tracebraid.model.chakra.chakra_rank import ChakraRank
from tracebraid.model.schema.chakra import CHAKRA_NODES

__all__ = ["rank_in_name", "read_rank"]

_RANK = re.compile(r"\.(\d+)\.et(\.gz|\.zst)?$", re.I)


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
    reader = BatchReader(file)
    parts = []
    for batch in file.batches():
        rest = batch if batch.first else reader.take_metadata(batch)
        parts.append(reader.columns(rest))
    if reader.version is None:
        raise NotATraceError(file.path, "it holds no whole message", EXPECTED)
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
    """The number before `.et` in a file's name; None where there is none."""
    found = _RANK.search(name_of(path))
    return int(found[1]) if found else None


def _nodes(parts: list[NodeColumns]) -> pl.DataFrame:
    return CHAKRA_NODES.conform(pl.concat([part.frame for part in parts]))
