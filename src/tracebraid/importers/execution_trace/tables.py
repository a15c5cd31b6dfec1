"""An `ExecutionTrace` from the tables of a file, of whatever form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.importers.columns import int_column
from tracebraid.importers.discovery import rank_from_name
from tracebraid.importers.execution_trace.decode import COLLECTIVE_COLUMNS, collective_table, fits_collective
from tracebraid.importers.frames import frame_of, groups_of_text
from tracebraid.importers.json_stream.recover import with_whole_numbers
from tracebraid.model.column import INT64_NULL
from tracebraid.model.et_names import PROCESS_GROUP_INIT, ROOTS
from tracebraid.model.execution_trace import ExecutionTrace, TensorGraph, devices_of
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.op_schema import RECORDED_TENSOR_USES, written_positions
from tracebraid.model.schema import (
    ET_COLLECTIVES,
    ET_TENSOR_EDGES,
    ET_TENSOR_USES,
    ET_TENSORS,
    PROCESS_GROUPS,
)
from tracebraid.model.stage import Stage


def tidy_nodes(nodes: pl.DataFrame, repeated: list[int], path: str) -> tuple[pl.DataFrame, list[Finding]]:
    """The nodes in the order of their ids, roots marked and without parent, no cycles of parents.

    A parent that is not in the trace stays as the file has it. What was found is said in findings.
    """
    findings: list[Finding] = []
    ordered = nodes.sort("node_id")
    if repeated:
        twice = pl.Series(sorted(set(repeated)))
        findings.append(_finding(FindingCode.DUPLICATE_ID, path, twice, len(repeated)))
    ordered = ordered.with_columns(
        as_text("name").is_in(ROOTS).alias("is_root"),
        pl.when(pl.col("parent_id") != pl.col("node_id")).then("parent_id").alias("parent_id"),
    )
    ids = ordered.get_column("node_id")
    dangling = ordered.filter(pl.col("parent_id").is_not_null() & ~pl.col("parent_id").is_in(ids.implode()))
    if not dangling.is_empty():
        findings.append(
            _finding(FindingCode.PARENT_MISSING, path, dangling.get_column("node_id"), dangling.height)
        )
    cut = _cycle_entries(_parent_rows(ordered))
    if len(cut):
        at = ids.gather(cut)
        findings.append(_finding(FindingCode.PARENT_CYCLE, path, at, len(cut)))
        ordered = ordered.with_columns(
            pl.when(~pl.col("node_id").is_in(at.implode())).then("parent_id").alias("parent_id")
        )
    return ordered, findings


def _parent_rows(nodes: pl.DataFrame) -> NDArray[np.int64]:
    """Return the row of each node's parent; -1 if missing in the trace. Nodes are in the order of ids."""
    ids = nodes.get_column("node_id").to_numpy()
    parents = nodes.get_column("parent_id").fill_null(-(2**62)).to_numpy()
    rows = np.minimum(np.searchsorted(ids, parents), len(ids) - 1)
    return np.where(ids[rows] == parents, rows, -1)


def last_inside(nodes: pl.DataFrame) -> NDArray[np.int64]:
    """Return the row of the last node inside each node; itself if there is none.

    A parent with a larger id than its child (PyTorch's observer writes such ones when an operator ends on
    another thread) cannot be around it, and does not count here.
    """
    parents = _parent_rows(nodes).tolist()
    last = list(range(len(parents)))
    for row in range(len(parents) - 1, -1, -1):
        parent = parents[row]
        if 0 <= parent < row and last[parent] < last[row]:
            last[parent] = last[row]
    return np.array(last, dtype=np.int64)


def _cycle_entries(parents: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first row of each cycle."""
    if (parents < np.arange(len(parents))).all():
        return np.empty(0, dtype=np.int64)
    up = parents.tolist()
    seen = [0] * len(up)
    entries = []
    for start in range(len(up)):
        row = start
        while row >= 0 and not seen[row]:
            seen[row] = start + 1
            row = up[row]
        if row >= 0 and seen[row] == start + 1:
            entries.append(row)
    return np.array(entries, dtype=np.int64)


def _finding(code: FindingCode, path: str, ids: pl.Series, count: int) -> Finding:
    shown = ", ".join(str(node) for node in ids.head(3).to_list())
    more = ", ..." if len(ids) > 3 else ""
    return Finding(code, path, f"node{'s' if len(ids) > 1 else ''} {shown}{more}", count)


_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]


def tensor_graph(nodes: pl.DataFrame, uses: pl.DataFrame, last_inside: _Ints) -> TensorGraph:
    """Build tensor nodes and edges."""
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
    """Return (writer, time) of the latest write of the same key before each read; -1 if there is none."""
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


_TUPLE = tuple[int, int, int, int, int, str]
"""tensor_id, storage_id, storage_offset (elements), numel, itemsize (bytes), device."""

_TUPLES = msgspec.json.Decoder(list[_TUPLE])
_INNER_TYPE = re.compile(r"Tensor\(((?:[^()]|\([^()]*\))*)\)")
_ALONE = r"^Tensor\("
_IN_LIST = r"^.+Tensor\("
_NUMBERS = ("tensor_id", "storage_id", "storage_offset", "numel", "itemsize_bytes")


def tensor_uses(values: pl.DataFrame) -> pl.DataFrame:
    """One row per tensor in the table `values`, with the members of its tuple: `RECORDED_TENSOR_USES`."""
    rows = values.with_row_index("row").with_columns(pl.col("type").cast(pl.String))
    text = pl.col("type")
    alone = _alone(rows.filter(text.str.contains(_ALONE)))
    inside = _inside_lists(
        rows.filter(text.str.contains(_IN_LIST) & ~text.str.contains(_ALONE)).with_columns(
            pl.col("value", "shape").cast(pl.String)
        )
    )
    both = pl.concat([alone, inside]) if inside.height else alone
    return both.sort("row", "item", nulls_last=False).select(list(RECORDED_TENSOR_USES.polars_schema()))


def devices_of_values(values: pl.DataFrame) -> frozenset[str]:
    """The devices of `tensor_uses`: each distinct value is parsed once, and nothing is made of it."""
    kind = as_text("type")
    tensors = values.filter(kind.str.contains(_ALONE) | kind.str.contains(_IN_LIST))
    distinct = tensors.select("value", kind.str.contains(_ALONE).alias("alone")).drop_nulls().unique()
    texts, alone = distinct.get_column("value").cast(pl.String).to_list(), distinct.get_column("alone")
    found = {
        members[-1]
        for members in _parsed([text for text, is_alone in zip(texts, alone, strict=True) if is_alone])
        if members is not None
    }
    for text in (text for text, is_alone in zip(texts, alone, strict=True) if not is_alone):
        found.update(members[-1] for members, _, _ in _inside(text, None, []))
    return frozenset(found)


def _alone(rows: pl.DataFrame) -> pl.DataFrame:
    """The values that are one tensor each; each distinct value is parsed once."""
    texts = rows.get_column("value").unique().drop_nulls()
    parsed = _parsed(texts.cast(pl.String).to_list())
    members = {"value": texts, **_members(parsed)}
    known = pl.DataFrame(members).filter(pl.Series([found is not None for found in parsed], dtype=pl.Boolean))
    dtype = pl.col("type").str.slice(len("Tensor(")).str.head(-1)
    schema = {"row": rows.schema["row"], **RECORDED_TENSOR_USES.polars_schema()}
    return (
        rows.join(known, on="value", how="inner", maintain_order="left")
        .with_columns(dtype.alias("dtype"), pl.lit(None, pl.Int64).alias("item"))
        .select(list(schema))
        .cast(schema)  # type: ignore[arg-type]
    )


def _parsed(texts: list[str]) -> list[_TUPLE | None]:
    """Parse the tuple of each text; None if invalid."""
    try:
        return [*_TUPLES.decode(f"[{','.join(texts)}]")]
    except (msgspec.MsgspecError, UnicodeError):
        return [_parsed_alone(text) for text in texts]


def _parsed_alone(text: str) -> _TUPLE | None:
    try:
        found = _TUPLES.decode(with_whole_numbers(f"[{text}]".encode()))
    except (msgspec.MsgspecError, UnicodeError):
        return None
    return found[0] if len(found) == 1 else None


def _members(tuples: list[_TUPLE | None]) -> dict[str, pl.Series]:
    """The members of tuples as columns."""
    empty: tuple[Any, ...] = (None,) * (len(_NUMBERS) + 1)
    members = list(zip(*(found or empty for found in tuples), strict=True)) if tuples else [()] * len(empty)
    columns = {
        name: _integers(name, list(column)) for name, column in zip(_NUMBERS, members[:-1], strict=True)
    }
    return {**columns, "device": pl.Series(members[-1], dtype=pl.Categorical)}


def _inside_lists(rows: pl.DataFrame) -> pl.DataFrame:
    """The tensors inside the values that are lists or tuples of tensors."""
    names = ("row", "node_id", "is_output", "position", "type", "value", "shape")
    found: list[tuple[Any, ...]] = []
    for row, node, is_output, position, kind, text, shape in rows.select(names).iter_rows():
        dtypes = _INNER_TYPE.findall(kind)
        found += [
            (row, node, is_output, position, item, *members, dtype, its_shape)
            for item, (members, dtype, its_shape) in enumerate(_inside(text, shape, dtypes))
        ]
    schema = {"row": rows.schema["row"], **RECORDED_TENSOR_USES.polars_schema()}
    columns = list(zip(*found, strict=True)) if found else [()] * len(schema)
    numbers = {"node_id", "position", "item", *_NUMBERS}
    series = [
        _integers(name, list(column)) if name in numbers else pl.Series(name, column, dtype=dtype)
        for (name, dtype), column in zip(schema.items(), columns, strict=True)
    ]
    return pl.DataFrame(series)


def _inside(text: Any, shape: Any, dtypes: list[str]) -> Iterator[tuple[_TUPLE, str, str]]:
    """The tensors inside a list or tuple, at any depth, in order: members, type and shape of each."""
    try:
        value = msgspec.json.decode(with_whole_numbers(str(text).encode()))
        shapes = msgspec.json.decode(shape) if shape else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    types = iter(dtypes)
    stack: list[tuple[Any, Any]] = [(value, shapes)]
    while stack:
        item, its_shape = stack.pop()
        if not isinstance(item, list):
            continue
        members = _as_tuple(item)
        if members is not None:
            yield members, next(types, ""), msgspec.json.encode(its_shape).decode()
            continue
        inner = (
            its_shape if isinstance(its_shape, list) and len(its_shape) == len(item) else [None] * len(item)
        )
        stack += reversed(list(zip(item, inner, strict=True)))


def _as_tuple(item: list[Any]) -> _TUPLE | None:
    if len(item) == 6 and isinstance(item[5], str) and all(type(part) is int for part in item[:5]):
        return (item[0], item[1], item[2], item[3], item[4], item[5])
    return None


def _integers(name: str, values: list[int | None]) -> pl.Series:
    """Convert to int64; null if out of range."""
    column = pl.Series(name, int_column(values))
    return column.set(column == INT64_NULL, None)


KNOWN_SCHEMAS = (
    "1.0.1",
    "1.0.2-chakra.0.0.4",
    "1.0.3-chakra.0.0.4",
    "1.0.4-chakra.0.0.4",
    "1.1.0-chakra.0.0.4",
    "1.1.1-chakra.0.0.4",
)


class Recorded(Struct, frozen=True):
    """The tables of an Execution Trace as the file has them.

    Args:
        path: the file.
        header: its members beside the nodes.
        nodes: the table `nodes`, each id once; `is_root` is null.
        values: the table `values`.
        collectives: the table `collectives`.
        extra_attrs: the table `extra_attrs`.
        uses: see `model.et_arrow.RECORDED_TENSOR_USES`; None if they are to be found in `values`.
        repeated: ids of nodes that were left out because an earlier node has that id.
        findings: what could not be read as it stood.
    """

    path: str
    header: dict[str, object]
    nodes: pl.DataFrame
    values: pl.DataFrame
    collectives: pl.DataFrame
    extra_attrs: pl.DataFrame
    uses: pl.DataFrame | None = None
    repeated: tuple[int, ...] = ()
    findings: tuple[Finding, ...] = ()


def assemble(recorded: Recorded) -> ExecutionTrace:
    """Put the tree of nodes in order. Tensors are followed from node to node on demand."""
    path, schema = recorded.path, str(recorded.header.get("schema", ""))
    findings = list(recorded.findings)
    if schema not in KNOWN_SCHEMAS:
        findings.append(Finding.of(FindingCode.SCHEMA_UNKNOWN, path, schema=schema))
    nodes, tree_findings = tidy_nodes(recorded.nodes, list(recorded.repeated), path)
    values, uses = _by_node(recorded.values), recorded.uses

    def graph() -> TensorGraph:
        return tensor_graph(nodes, tensor_uses(values) if uses is None else uses, last_inside(nodes))

    def devices() -> frozenset[str]:
        return devices_of_values(values) if uses is None else devices_of(uses)

    return ExecutionTrace(
        path=path,
        schema=schema,
        rank=rank_from_name(path),
        header=recorded.header,
        nodes=nodes,
        values=values,
        tensor_graph=Stage(graph),
        tensor_devices=Stage(devices),
        collectives=_by_node(recorded.collectives),
        extra_attrs=_by_node(recorded.extra_attrs),
        process_groups=_process_groups(nodes, values),
        findings=(*findings, *tree_findings),
    )


def _by_node(frame: pl.DataFrame) -> pl.DataFrame:
    """A table in the order of node ids, which is that of starts; a file has nodes in the order of their ends."""
    node_id = frame.get_column("node_id")
    return frame if node_id.is_sorted() else frame.sort(node_id, maintain_order=True)


def _process_groups(nodes: pl.DataFrame, values: pl.DataFrame) -> pl.DataFrame:
    """The groups of the last `process_group:init` node: its list holds all groups so far."""
    inits = nodes.filter(as_text("name") == PROCESS_GROUP_INIT).get_column("node_id")
    if inits.is_empty():
        return PROCESS_GROUPS.empty()
    texts = values.filter(pl.col("node_id").is_in(inits.implode()) & ~pl.col("is_output")).get_column("value")
    if texts.is_empty():
        return PROCESS_GROUPS.empty()
    return groups_of_text(str(texts.cast(pl.String).to_list()[-1]))


def is_collective(attrs: pl.DataFrame) -> pl.Series:
    """For each row of attributes (`node_id`, `key`, `value` as JSON) whether `collectives` has it."""
    candidates = attrs.with_row_index("row").filter(
        pl.col("key").cast(pl.String).is_in(list(COLLECTIVE_COLUMNS))
    )
    rows = [
        row
        for row, key, value in candidates.select("row", "key", "value").iter_rows()
        if fits_collective(key, msgspec.json.decode(value))
    ]
    return pl.Series(np.isin(np.arange(attrs.height), rows))


def collectives_of(attrs: pl.DataFrame) -> pl.DataFrame:
    """The table `collectives` of rows of attributes that all have a column in it."""
    rows: dict[int, dict[str, Any]] = {}
    for node, key, value in attrs.select("node_id", "key", "value").iter_rows():
        rows.setdefault(node, {})[key] = msgspec.json.decode(value)
    node_ids = np.array(list(rows), dtype=np.int64)
    return frame_of(ET_COLLECTIVES, [collective_table(node_ids, list(rows.values()))])
