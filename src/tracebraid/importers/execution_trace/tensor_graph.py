"""Tensor nodes and the edges through them, right although ids are addresses that are used again.

Nodes are ordered by id, which is the order of their starts. A node reads its inputs when it starts and writes
its outputs when its last descendant has ended. On that clock:

- a tensor node begins where an operator gives out a (tensor_id, storage_id, device) that is neither one of its
  own inputs nor given out by an operator inside it; each use belongs to the latest such beginning before it;
- a node writes the tensors that it begins, and those that its schema marks as changed (`Tensor(a!)`), unless a
  node inside it writes them;
- the producer of a read is the latest writer of that tensor before the reader's start. If the same storage was
  written after that through another tensor, that writer is a producer too (`via` = storage); giving out a view
  of it is no writing.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.op_schema import written_positions
from tracebraid.model.schema import ET_TENSOR_EDGES, ET_TENSOR_USES, ET_TENSORS
from tracebraid.model.tensor_graph import TensorGraph

__all__ = ["tensor_graph"]

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]


def tensor_graph(nodes: pl.DataFrame, uses: pl.DataFrame, last_inside: _Ints) -> TensorGraph:
    """Build tensor nodes and edges.

    Args:
        nodes: table `nodes`, in the order of ids.
        uses: one row per tensor in an input or output, with the members of its tuple.
        last_inside: row in `nodes` of the last node inside each node (itself where there is none).
    """
    if uses.is_empty():
        return TensorGraph(ET_TENSORS.empty(), ET_TENSOR_USES.empty(), ET_TENSOR_EDGES.empty())
    work = _Work(nodes, uses, last_inside)
    begins = work.begins()
    tensor = work.tensor_of_use(begins)
    edges = _edges(work, tensor, begins, work.changes())
    return TensorGraph(
        _tensors_table(work, tensor, begins),
        uses.select("node_id", "is_output", "position", "item").with_columns(pl.Series("tensor", tensor)),
        edges,
    )


class _Work:
    """The uses as arrays: which node, which address, at what time on the clock of starts (even) and ends (odd)."""

    def __init__(self, nodes: pl.DataFrame, uses: pl.DataFrame, last_inside: _Ints) -> None:
        self.nodes, self.uses = nodes, uses
        self.node_ids: _Ints = nodes.get_column("node_id").to_numpy()
        self.row: _Ints = np.searchsorted(self.node_ids, uses.get_column("node_id").to_numpy())
        self.is_output: _Bools = uses.get_column("is_output").to_numpy()
        self.last: _Ints = last_inside[self.row]
        self.time: _Ints = np.where(self.is_output, 2 * self.last + 1, 2 * self.row)
        self.key = _numbered(uses.select("tensor_id", "storage_id", "device"))
        self.storage = np.where(
            uses.get_column("storage_id").to_numpy() == 0, -1, _numbered(uses.select("storage_id", "device"))
        )

    def begins(self) -> _Bools:
        """Outputs that are a new tensor: no input of the node, and not given out by a node inside it."""
        own_input = _contains(
            _pairs(self.row, self.key), _pairs(self.row[~self.is_output], self.key[~self.is_output])
        )
        fresh = self.is_output & ~own_input
        return fresh & ~_again_inside(fresh, self.key, self.row, self.last)

    def views(self) -> _Bools:
        """Outputs that share their storage with an input of the node: giving out a view writes nothing."""
        inputs = _pairs(self.row[~self.is_output], self.storage[~self.is_output])
        return self.is_output & _contains(_pairs(self.row, self.storage), inputs)

    def changes(self) -> _Bools:
        """Inputs and outputs that the node's schema marks as written, and that no node inside it writes."""
        schemas = self.nodes.get_column("op_schema").cast(pl.String).to_list()
        marked = {schema: written_positions(schema) for schema in set(schemas) if schema and "!" in schema}
        if not marked:
            return np.zeros(len(self.row), dtype=np.bool_)
        codes = {schema: code for code, schema in enumerate(marked, 1)}
        schema = np.array([codes.get(text, 0) for text in schemas], dtype=np.int64)[self.row]
        positions: _Ints = self.uses.get_column("position").to_numpy()
        known = [
            (codes[text] << 1 | is_output, position)
            for text, written in marked.items()
            for is_output, changed in enumerate(written)
            for position in changed
        ]
        among = np.array(known, dtype=np.int64).reshape(-1, 2)
        written = _contains(_pairs(schema << 1 | self.is_output, positions), _pairs(among[:, 0], among[:, 1]))
        return written & ~_again_inside(written, self.key, self.row, self.last)

    def tensor_of_use(self, begins: _Bools) -> _Ints:
        """The tensor node of each use: numbered by address and by how often it began before, in order of first use."""
        order = np.lexsort((~begins, self.time, self.key))
        begun = np.cumsum(begins[order])
        at_start = np.r_[0, np.flatnonzero(np.diff(self.key[order])) + 1]
        before: _Ints = np.repeat(
            begun[at_start] - begins[order][at_start], np.diff(np.r_[at_start, len(order)])
        )
        life = np.empty(len(order), dtype=np.int64)
        life[order] = begun - before
        return _numbered(pl.DataFrame({"key": self.key, "life": life}))


def _edges(work: _Work, tensor: _Ints, begins: _Bools, changes: _Bools) -> pl.DataFrame:
    writes = begins | changes
    reads = np.flatnonzero(~work.is_output)
    written_at = np.where(writes, 2 * work.last + 1, 0)
    w = np.flatnonzero(writes)
    producer, when = _latest_before(tensor[w], written_at[w], work.row[w], tensor[reads], work.time[reads])
    direct = producer >= 0
    parts = [_edge_frame(work, producer[direct], reads[direct], tensor, "tensor")]
    w = w[(work.storage[w] >= 0) & ~(work.views() & ~changes)[w]]
    other, later = _latest_before(
        work.storage[w], written_at[w], work.row[w], work.storage[reads], work.time[reads]
    )
    through = (other >= 0) & (later > when) & (other != producer) & (work.storage[reads] >= 0)
    parts.append(_edge_frame(work, other[through], reads[through], tensor, "storage"))
    return (
        pl.concat(parts)
        .unique(["producer", "consumer", "tensor"], keep="first", maintain_order=True)
        .sort("consumer", "producer", "tensor")
    )


def _edge_frame(work: _Work, producer: _Ints, reads: _Ints, tensor: _Ints, via: str) -> pl.DataFrame:
    columns = {
        "producer": work.node_ids[producer],
        "consumer": work.node_ids[work.row[reads]],
        "tensor": tensor[reads],
        "via": pl.Series([via], dtype=pl.Categorical).new_from_index(0, len(reads)),
    }
    return pl.DataFrame(columns, schema=ET_TENSOR_EDGES.polars_schema())


def _latest_before(
    written: _Ints, written_at: _Ints, writer: _Ints, read: _Ints, read_at: _Ints
) -> tuple[_Ints, _Ints]:
    """(writer, time of writing) of the latest write of the same thing before each read; -1 where there is none."""
    order = np.lexsort((writer, written_at, written))
    keys = _pairs(written, written_at)[order]
    index = np.searchsorted(keys, _pairs(read, read_at)) - 1
    found = index >= 0
    hit = order[np.maximum(index, 0)] if len(order) else np.zeros(len(read), dtype=np.int64)
    if not len(order):
        return np.full(len(read), -1), np.full(len(read), -1)
    found &= written[hit] == read
    return np.where(found, writer[hit], -1), np.where(found, written_at[hit], -1)


def _again_inside(flagged: _Bools, key: _Ints, row: _Ints, last: _Ints) -> _Bools:
    """Flagged uses whose key is flagged once more on a node inside their node."""
    uses = np.flatnonzero(flagged)
    order = uses[np.lexsort((row[uses], key[uses]))]
    again = np.zeros(len(flagged), dtype=np.bool_)
    pairs = _pairs(key[order], row[order])
    following = np.searchsorted(pairs, pairs, side="right")
    inside = following < len(order)
    after = order[np.minimum(following, len(order) - 1)] if len(order) else order
    again[order] = inside & (key[after] == key[order]) & (row[after] <= last[order])
    return again


def _tensors_table(work: _Work, tensor: _Ints, begins: _Bools) -> pl.DataFrame:
    producer = np.full(int(tensor.max()) + 1, -1, dtype=np.int64)
    producer[tensor[begins]] = work.node_ids[work.row[begins]]
    first = (
        work.uses.with_columns(pl.Series("tensor", tensor), pl.Series("time", work.time))
        .sort("tensor", "time", maintain_order=True)
        .unique("tensor", keep="first", maintain_order=True)
        .with_columns(pl.Series("producer", producer))
        .with_columns(pl.when(pl.col("producer") >= 0).then("producer"))
    )
    return ET_TENSORS.conform(first)


def _pairs(first: _Ints, second: _Ints) -> _Ints:
    """Two columns of small numbers as one that sorts like them."""
    return (first.astype(np.int64) << 34) | second.astype(np.int64)


def _contains(values: _Ints, among: _Ints) -> _Bools:
    found: _Bools = pl.Series(values).is_in(pl.Series(among).implode()).to_numpy()
    return found


def _numbered(frame: pl.DataFrame) -> _Ints:
    """The number of each row's combination of values, in the order of first appearance."""
    numbers: _Ints = frame.select(pl.struct(pl.all()).rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()
    first: _Ints = pl.Series(numbers).unique(maintain_order=True).to_numpy()
    renumber = np.empty(len(first), dtype=np.int64)
    renumber[first] = np.arange(len(first))
    result: _Ints = renumber[numbers]
    return result
