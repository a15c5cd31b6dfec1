"""Where each node of an `.et` file lies, and what it waits for: what can be held of a file that is read in parts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.chakra.wire.batch_reader import BatchReader
from tracebraid.chakra.wire.frames import EXPECTED, Batch, FramedFile
from tracebraid.chakra.wire.node_columns import NodeLinks, joined_deps, node_links
from tracebraid.chakra.wire.plain import NotPlainError
from tracebraid.errors import InputError, NotATraceError
from tracebraid.model.chakra.chakra_rank import ChakraRank, NodeDeps
from tracebraid.model.finding_code import FindingCode

__all__ = ["NodeIndex", "node_index"]

_Ints = NDArray[np.int64]
_AGAIN = "Write the file again"


@dataclass(frozen=True, eq=False)
class NodeIndex:
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
    """Read a file through, and keep of it where nodes lie and what they wait for.

    Args:
        file: not compressed.
        ctrl_deps: whether control dependencies are kept.

    Raises:
        InputError: it cannot be read, or is damaged.
        NotATraceError: it is no `.et` file.
    """
    reader = BatchReader(file)
    starts, stops, parts = [], [], []
    for batch in file.batches():
        rest = batch if batch.first else reader.take_metadata(batch)
        starts.append(rest.messages.start + rest.offset)
        stops.append(rest.messages.stop + rest.offset)
        parts.append(_links(reader, rest))
    if reader.version is None:
        raise NotATraceError(file.path, "it holds no whole message", EXPECTED)
    if file.findings:
        raise InputError(
            file.path, file.findings[0].message, "A Feeder takes whole files", file.findings[0].where
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
