"""`Feeder`: the nodes of an `.et` file in turn, each when all that it waits for is done."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracebraid.chakra.checking.rank_facts import cycle_of
from tracebraid.chakra.dependencies import RankDependencies, rank_dependencies, run_order
from tracebraid.chakra.schema import CHAKRA_NODES
from tracebraid.chakra.wire.fields import Slices
from tracebraid.chakra.wire.reading import Batch, BatchReader, NodeIndex, node_index, open_frames
from tracebraid.errors import ArgumentError, InputError

_Ints = NDArray[np.int64]

_BLOCK_NODES = 1 << 10
"""Number of consecutive nodes read at once."""
_BLOCKS_AT_MOST = 16
"""Number of cached blocks: nodes that are ready at the same time mostly lie near each other."""
_SHOWN = 5
"""Nodes that a message names."""


class Feeder:
    """The nodes of an `.et` file in turn, each when all that it waits for is done, as simulators take them.

    It holds where each node lies and what it waits for, and reads nodes in small blocks when they are taken: some 60
    bytes for each node and 16 for each dependency, however much nodes hold. Nodes that are ready come in the order of
    the file, so the order is the same each time.

    Args:
        path: the `.et` file or its URL, not compressed; `-` for standard input.
        ctrl_deps: whether control dependencies count as data dependencies do; Chakra's older feeder ignores them.

    Raises:
        InputError: it cannot be read, is compressed or damaged, two nodes have one id, or nodes wait for nodes that are
            not there, or for each other; the message names them.
        NotATraceError: it is no `.et` file.
        MissingLibraryError: protobuf is not installed.

    Example:
        >>> feeder = tracebraid.chakra.Feeder("job.0.et")
        >>> while feeder.ready():
        ...     node = feeder.take()
        ...     feeder.finish(node["node_id"])
    """

    def __init__(self, path: str | Path, ctrl_deps: bool = True) -> None:
        self._file = open_frames(path)
        if self._file.compression is not None:
            raise InputError(
                self._file.path, "it is compressed, so nodes cannot be read one by one", "Unpack it first"
            )
        self._index = node_index(self._file, ctrl_deps)
        dependencies = rank_dependencies(self._index.links)
        _refuse_faults(self._index, dependencies)
        self._waits = np.diff(dependencies.first)
        rows = np.repeat(np.arange(len(self._waits)), self._waits)
        order = np.argsort(dependencies.before, kind="stable")
        self._first_later = np.searchsorted(dependencies.before[order], np.arange(len(self._waits) + 1))
        self._later = rows[order]
        self._ready = np.flatnonzero(self._waits == 0).tolist()
        self._taken: dict[int, int] = {}
        self._left = len(self._waits)
        self._blocks: OrderedDict[int, list[dict[str, Any]]] = OrderedDict()

    def __len__(self) -> int:
        """Nodes that are not finished yet."""
        return self._left

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield all remaining nodes; each is finished when the next is requested."""
        while self._ready:
            node = self.take()
            yield node
            self.finish(node["node_id"])

    @property
    def version(self) -> str:
        """Version of the schema, from the file's metadata."""
        return self._index.links.version

    def ready(self) -> int:
        """Return the number of ready nodes."""
        return len(self._ready)

    def take(self) -> dict[str, Any]:
        """Take the first ready node: the columns of `CHAKRA_NODES` by name, and lists of `data_deps` and `ctrl_deps`.

        Raises:
            ArgumentError: no node is ready: finish some issued ones.
            InputError: the node cannot be read.
        """
        if not self._ready:
            raise ArgumentError(
                f"no node is ready: {len(self._taken):,} are taken and not finished, {self._left:,} are left"
            )
        row = heapq.heappop(self._ready)
        node = self._node(row)
        self._taken[node["node_id"]] = row
        return node

    def put_back(self, node_id: int) -> None:
        """Return an issued node: it is ready again.

        Raises:
            ArgumentError: it was not issued, or is finished.
        """
        heapq.heappush(self._ready, self._returned(node_id))

    def finish(self, node_id: int) -> None:
        """Mark an issued node as finished: nodes that waited only for it become ready.

        Raises:
            ArgumentError: it was not issued, or is finished already.
        """
        row = self._returned(node_id)
        self._left -= 1
        for later in self._later[self._first_later[row] : self._first_later[row + 1]].tolist():
            self._waits[later] -= 1
            if self._waits[later] == 0:
                heapq.heappush(self._ready, later)

    def _returned(self, node_id: int) -> int:
        """Remove a node from the issued ones; return its row."""
        if node_id not in self._taken:
            known = bool((self._index.node_id == node_id).any())
            raise ArgumentError(
                f"node {node_id} {'was not taken, or is finished' if known else 'is not in the file'}"
            )
        return self._taken.pop(node_id)

    def _node(self, row: int) -> dict[str, Any]:
        block = row // _BLOCK_NODES
        if block not in self._blocks:
            self._blocks[block] = self._read(block * _BLOCK_NODES)
            if len(self._blocks) > _BLOCKS_AT_MOST:
                self._blocks.popitem(last=False)
        self._blocks.move_to_end(block)
        return dict(self._blocks[block][row % _BLOCK_NODES])

    def _read(self, first: int) -> list[dict[str, Any]]:
        start, stop = (ends[first : first + _BLOCK_NODES] for ends in (self._index.start, self._index.stop))
        offset = int(start[0])
        data = self._file.file.read(offset, int(stop[-1]))
        batch = Batch(data, Slices(start - offset, stop - offset), offset, first)
        columns = BatchReader(self._file).columns(batch)
        if columns.frame.height < len(start):
            raise InputError(
                self._file.path, "a node is damaged", "Write the file again", f"behind byte {offset:,}"
            )
        nodes = columns.frame.select(column.name for column in CHAKRA_NODES.columns).to_dicts()
        for name, (rows, ids) in (("data_deps", columns.data_deps), ("ctrl_deps", columns.ctrl_deps)):
            for node in nodes:
                node[name] = []
            for row, node_id in zip(rows.tolist(), ids.tolist(), strict=True):
                nodes[row][name].append(node_id)
        return nodes


def _refuse_faults(index: NodeIndex, dependencies: RankDependencies) -> None:
    """Reject nodes that could never run."""
    ids = index.node_id
    unique, first, counts = np.unique(ids, return_index=True, return_counts=True)
    if (counts > 1).any():
        shown = _shown(unique[counts > 1][np.argsort(first[counts > 1])])
        raise index.error(f"several nodes have one id: {shown}", int(first[counts > 1].min()))
    if len(dependencies.dangling_row):
        row = int(dependencies.dangling_row[0])
        missing = _shown(np.unique(dependencies.dangling_id))
        raise index.error(f"node {ids[row]} waits for nodes that are not in the file: {missing}", row)
    if len(dependencies.self_row):
        row = int(dependencies.self_row[0])
        raise index.error(f"nodes wait for themselves: {_shown(ids[dependencies.self_row])}", row)
    circle = cycle_of(dependencies, run_order(dependencies))
    if circle:
        raise index.error(f"nodes wait for each other in a circle: {_shown(ids[circle])}", circle[0])


def _shown(ids: _Ints) -> str:
    return ", ".join(str(node_id) for node_id in ids[:_SHOWN].tolist()) + (
        ", ..." if len(ids) > _SHOWN else ""
    )
