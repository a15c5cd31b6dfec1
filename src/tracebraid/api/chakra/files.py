"""Chakra's `.et` files read, written, and fed to a simulator."""

from __future__ import annotations

from pathlib import Path

from tracebraid.chakra.feeding import Feeder
from tracebraid.chakra.wire.reading import read_rank
from tracebraid.chakra.wire.writing import write_rank
from tracebraid.model.chakra.chakra_rank import ChakraRank

__all__ = ["Feeder", "read_chakra", "write_chakra"]


def read_chakra(path: str | Path) -> ChakraRank:
    """Read an `.et` file into columns.

    Args:
        path: the file or its URL, plain, gzip or zstd; `-` for standard input.

    Returns:
        Its nodes (`CHAKRA_NODES`), what they wait for, its metadata, and in `findings` what was noticed: of a file that
        was cut, all before the cut is read.

    Raises:
        InputError: it is not there, or cannot be read.
        NotATraceError: it is no `.et` file.
        MissingLibraryError: protobuf or numba is not installed.

    Example:
        >>> rank = tracebraid.read_chakra("job.0.et")
        >>> rank.nodes.group_by("type").len()
    """
    return read_rank(path)


def write_chakra(path: str | Path, rank: ChakraRank) -> int:
    """Write an `.et` file; the same columns give the same bytes.

    Args:
        path: the new file; simulators expect `<prefix>.<rank>.et`. Where it ends in `.gz` it is gzip, which they do
            not read.
        rank: what it holds.

    Returns:
        Its size in bytes.

    Raises:
        ArgumentError: a value fits no attribute of Chakra's; the message names the node.
        OutputError: it cannot be written, or is there already.
        MissingLibraryError: protobuf is not installed.

    Example:
        >>> tracebraid.write_chakra("again.0.et", tracebraid.read_chakra("job.0.et"))
    """
    return write_rank(Path(path), rank)
