"""Write columns as `.et` files."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from tracebraid.chakra.codes import CollectiveCommType, NodeType
from tracebraid.chakra.schema import ChakraRank, NodeDeps
from tracebraid.chakra.wire.messages import TYPE_ONLY, attributes_of, messages
from tracebraid.errors import ArgumentError
from tracebraid.files import write_whole
from tracebraid.wire_format import (
    Bytes,
    Constant,
    Ints,
    Message,
    Part,
    Scattered,
    Varints,
    bytes_field,
    encoded,
)


class AttributeKind(Enum):
    """Encoding of an attribute: its member of `AttributeProto.value`.

    Its value is the member's number in the schema.
    """

    INT32 = 7
    INT64 = 9
    UINT64 = 13
    BOOL = 27
    STRING = 29


_INT32 = AttributeKind.INT32
_INT64 = AttributeKind.INT64
_UINT64 = AttributeKind.UINT64
_BOOL = AttributeKind.BOOL
_STRING = AttributeKind.STRING

ATTRIBUTE_COLUMNS: dict[str, AttributeKind] = {
    "is_cpu_op": _BOOL,
    "comm_type": _INT64,
    "comm_size": _INT64,
    "comm_priority": _INT32,
    "comm_src": _INT32,
    "comm_dst": _INT32,
    "comm_tag": _INT32,
    "pg_name": _STRING,
    "num_ops": _INT64,
    "tensor_size": _UINT64,
    "duration_ns": _INT64,
    "kind": _STRING,
    "op": _STRING,
    "et_node_id": _INT64,
    "event_id": _INT64,
    "module": _STRING,
    "step": _STRING,
    "stream": _INT64,
    "thread": _INT64,
    "collective": _STRING,
}
"""Attributes in the order of writing. Types of those that simulators read are what Chakra's own feeder expects:
it takes 0 for an attribute of another kind. `shapes` stands in `Node.inputs`, where Chakra's tools have it."""


_ROWS_AT_ONCE = 1 << 14
"""Number of nodes encoded at once: about 10 MB of memory."""
_ATTRIBUTE = 10
_RANGES = {AttributeKind.INT32: (-(2**31), 2**31 - 1), AttributeKind.UINT64: (0, 2**63 - 1)}
"""Values that a column may have, where it is not all of 64 bits with a sign."""


def write(path: str | Path, rank: ChakraRank, *, overwrite: bool = False) -> int:
    """Write an `.et` file; the same columns give the same bytes.

    Args:
        path: the new file; simulators expect `<prefix>.<rank>.et`. The suffix `.gz` selects gzip, which they do
            not read.
        rank: the content.
        overwrite: whether an existing file is replaced.

    Returns:
        Its size in bytes.

    Raises:
        ArgumentError: a value does not fit any Chakra attribute; the message names the node.
        OutputError: it exists, or cannot be written.
        MissingLibraryError: protobuf is not installed.

    Example:
        >>> tracebraid.chakra.write("again.0.et", tracebraid.chakra.read("job.0.et"))
    """
    return write_whole(Path(path), rank_bytes(rank), overwrite)


def rank_bytes(rank: ChakraRank) -> Iterator[bytes]:
    """The bytes of an `.et` file, some thousand nodes at a time."""
    metadata = messages().metadata(version=rank.version)
    for name, value in rank.attributes:
        metadata.attr.extend(attributes_of(name, value))
    yield encoded(None, [Constant(metadata.SerializeToString(), 1)])
    for start in range(0, rank.nodes.height, _ROWS_AT_ONCE):
        yield encoded(None, _node_parts(rank, start))


def _node_parts(rank: ChakraRank, start: int) -> list[Part]:
    """The fields of some nodes, in the order of their numbers."""
    nodes = rank.nodes.slice(start, _ROWS_AT_ONCE)
    stop = start + nodes.height
    types = _numbers_of(nodes, "type", NodeType)
    return _never_empty(
        nodes["node_id"],
        _texts(2, nodes["name"]),
        _numbers(3, types),
        _deps(4, rank.ctrl_deps, start, stop),
        _deps(5, rank.data_deps, start, stop),
        _numbers(6, _not_negative(nodes, "start_time_micros")),
        _numbers(7, _not_negative(nodes, "duration_micros")),
        _io(8, nodes["inputs"], nodes["shapes"]),
        _io(9, nodes["outputs"], None),
        *_attributes(nodes),
    )


def _never_empty(ids: pl.Series, *others: Part) -> list[Part]:
    """The parts of nodes. Where a node has no field at all its id, 0, is written: readers end at an empty message."""
    numbers = ids.fill_null(0).to_numpy()
    empty = np.add.reduce([part.sizes for part in others]) == 0
    rows = np.flatnonzero((numbers != 0) | empty)
    return [Scattered(rows, Varints(1, numbers[rows]), len(numbers)), *others]


def _numbers(field: int, values: pl.Series) -> Part:
    """A number of each node; protobuf writes no 0."""
    numbers = values.fill_null(0).to_numpy()
    rows = np.flatnonzero(numbers)
    return Scattered(rows, Varints(field, numbers[rows]), len(numbers))


def _texts(field: int, values: pl.Series) -> Part:
    """A text of each node; protobuf writes no empty one."""
    texts = values.cast(pl.String).fill_null("")
    rows = (texts != "").arg_true()
    return Scattered(rows.to_numpy().astype(np.int64), Bytes(field, _encoded(texts.gather(rows))), len(texts))


def _encoded(texts: pl.Series) -> list[bytes]:
    return [text.encode() for text in texts.to_list()]


def _deps(field: int, deps: NodeDeps, start: int, stop: int) -> Part:
    """Packed lists of ids."""
    first = deps.first[start : stop + 1]
    counts = np.diff(first)
    rows = np.flatnonzero(counts)
    ids = Varints(None, deps.node_id[first[0] : first[-1]])
    lists = Scattered(np.repeat(np.arange(len(rows)), counts[rows]), ids, len(rows))
    return Scattered(rows, Message(field, [lists]), len(counts))


def _io(field: int, objects: pl.Series, shapes: pl.Series | None) -> Part:
    """`IOInfo` of the nodes that have one; equal ones are made once."""
    pairs = pl.DataFrame({"object": objects.cast(pl.String)}).with_columns(
        (pl.lit(None, dtype=pl.String) if shapes is None else shapes.cast(pl.String)).alias("shapes")
    )
    rows = pairs.select(pl.any_horizontal(pl.all().is_not_null()).arg_true()).to_series()
    known: dict[tuple[str | None, str | None], bytes] = {}
    contents = []
    for pair in pairs[rows].iter_rows():
        if pair not in known:
            known[pair] = _io_content(*pair)
        contents.append(known[pair])
    return Scattered(rows.to_numpy().astype(np.int64), Bytes(field, contents), len(objects))


def _io_content(text: str | None, shapes: str | None) -> bytes:
    members = _object(text, "inputs or outputs") | ({} if shapes is None else {"shapes": shapes})
    try:
        content: bytes = messages().io_info(**members).SerializeToString()
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"{text!r} cannot be inputs or outputs of a node: {error}") from None
    return content


def _object(text: str | None, what: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ArgumentError(f"{text!r} cannot be {what} of a node: {error}") from None
    return found


def _attributes(nodes: pl.DataFrame) -> list[Part]:
    """Encode the attributes with columns, in order, then all others in the order of their objects."""
    further, typed = _further(nodes)
    parts: list[Part] = []
    for name, kind in ATTRIBUTE_COLUMNS.items():
        there = nodes[name].is_not_null().to_numpy().copy()
        there[typed.get(name, [])] = False
        rows = np.flatnonzero(there)
        value = _attribute_values(nodes, name, kind, rows)
        attribute = Message(_ATTRIBUTE, [Constant(bytes_field(1, name.encode()), len(rows)), value])
        parts.append(Scattered(rows, attribute, nodes.height))
    rows = np.array([row for row, _ in further], dtype=np.int64)
    return [*parts, Scattered(rows, Bytes(_ATTRIBUTE, [content for _, content in further]), nodes.height)]


def _attribute_values(nodes: pl.DataFrame, name: str, kind: AttributeKind, rows: Ints) -> Part:
    values = nodes[name].gather(rows)
    if kind is AttributeKind.STRING:
        return Bytes(kind.value, _encoded(values.cast(pl.String)))
    if name == "comm_type":
        values = _numbers_of(nodes[rows], name, CollectiveCommType)
    numbers = values.cast(pl.Int64).to_numpy()
    least, most = _RANGES.get(kind, (-(2**63), 2**63 - 1))
    wrong = np.flatnonzero((numbers < least) | (numbers > most))
    if len(wrong):
        node = nodes["node_id"][int(rows[wrong[0]])]
        raise ArgumentError(
            f"node {node}: {name} is {numbers[wrong[0]]}, which is not from {least} to {most}"
        )
    return Varints(kind.value, numbers)


def _further(nodes: pl.DataFrame) -> tuple[list[tuple[int, bytes]], dict[str, list[int]]]:
    """Attributes without a column by row; and by column the rows whose attribute is among them, for its type."""
    found: list[tuple[int, bytes]] = []
    typed: dict[str, list[int]] = {}
    known: dict[str, tuple[list[bytes], list[str]]] = {}
    texts = nodes["attributes"].cast(pl.String).to_list()
    for row, text in enumerate(texts):
        if text is None:
            continue
        if text not in known:
            known[text] = _further_of(text)
        contents, columns = known[text]
        if columns:
            contents = _with_types(nodes, row, text)
            for name in columns:
                typed.setdefault(name, []).append(row)
        found += [(row, content) for content in contents]
    return found, typed


def _further_of(text: str) -> tuple[list[bytes], list[str]]:
    """Parse the attributes of a text, and the columns whose type it states."""
    columns, contents = [], []
    for name, value in _object(text, "attributes").items():
        if name in ATTRIBUTE_COLUMNS and any(TYPE_ONLY in item for item in _objects(value)):
            columns.append(name)
        else:
            contents += [attribute.SerializeToString() for attribute in attributes_of(name, value)]
    return contents, columns


def _with_types(nodes: pl.DataFrame, row: int, text: str) -> list[bytes]:
    """All attributes of the text of a node, where its columns have values of other types than the usual ones."""
    contents = []
    for name, value in _object(text, "attributes").items():
        items = value if isinstance(value, list) else [value]
        if name in ATTRIBUTE_COLUMNS:
            items = [item for item in (_typed(nodes, row, name, item) for item in items) if item is not None]
        contents += [attribute.SerializeToString() for attribute in attributes_of(name, items)]
    return contents


def _typed(nodes: pl.DataFrame, row: int, name: str, item: object) -> object:
    """An item of an attribute with the column's value where it says only the type; None if that is null."""
    if not isinstance(item, dict) or TYPE_ONLY not in item:
        return item
    value = nodes[name][row]
    if value is None:
        return None
    if name == "comm_type":
        value = int(_numbers_of(nodes[[row]], name, CollectiveCommType)[0])
    if isinstance(value, bool) and item[TYPE_ONLY] != "bool_val":
        value = int(value)
    return {item[TYPE_ONLY]: value} | {key: text for key, text in item.items() if key != TYPE_ONLY}


def _objects(value: object) -> list[dict[str, object]]:
    return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict)]


def _numbers_of(nodes: pl.DataFrame, column: str, codes: type[IntEnum]) -> pl.Series:
    """Return the numbers of codes; codes missing in the schema are numbers already."""
    names = nodes[column].cast(pl.String)
    known = {code.name: code.value for code in codes}
    numbers: pl.Series = names.replace_strict(known, default=names, return_dtype=pl.String).cast(
        pl.Int64, strict=False
    )
    wrong = (numbers.is_null() & names.is_not_null()).arg_true()
    if len(wrong):
        node, name = nodes["node_id"][int(wrong[0])], names[int(wrong[0])]
        raise ArgumentError(
            f"node {node}: {column} is {name!r}, which is none of Chakra's: {', '.join(known)}"
        )
    return numbers


def _not_negative(nodes: pl.DataFrame, column: str) -> pl.Series:
    values = nodes[column]
    wrong = (values < 0).arg_true()
    if len(wrong):
        row = int(wrong[0])
        raise ArgumentError(f"node {nodes['node_id'][row]}: {column} is {values[row]}, which is below 0")
    return values
