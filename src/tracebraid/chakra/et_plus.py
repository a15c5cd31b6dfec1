"""Read ET+ JSON: a linked trace of one rank, as Tracebraid, Chakra and trace_link write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import polars as pl
from msgspec import Struct

from tracebraid.errors import NotATraceError, WrongTraceError
from tracebraid.importers.frames import findings_of, groups_of_text
from tracebraid.importers.json_stream.chunks import NODE_MEMBER, ArrayFile, open_array, shape_of
from tracebraid.importers.json_stream.recover import recover
from tracebraid.importers.json_stream.source import open_source
from tracebraid.model.collectives import type_of
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.finding import Finding, Issue, Loss
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.quantities import NS_PER_US

_INT, _NAME, _TEXT, _JSON = Kind.INT, Kind.NAME, Kind.TEXT, Kind.JSON
ET_PLUS_NODES = Table(
    "et_plus_nodes",
    "One row per node of an ET+ file, in the order of the file.",
    (
        Column("node_id", _INT, "its id"),
        Column("name", _NAME, "its name"),
        Column("parent_id", _INT, "node that encloses it, or that launched it; null: none"),
        Column("ts_ns", _INT, "start, on a clock of the file's own; null: it was not linked"),
        Column("dur_ns", _INT, "inclusive duration; null: not linked"),
        Column("exclusive_ns", _INT, "exclusive duration; null: not linked"),
        Column("category", _NAME, "of device work, such as `kernel`; null: an op of the host"),
        Column("stream", _INT, "stream of device work; null: none"),
        Column("tid", _INT, "thread of an op; null: unknown"),
        Column("shapes", _JSON, "shapes of its inputs; null: none"),
        Column("collective_name", _NAME, "name of the collective in the trace; null: none"),
        Column("pg_name", _TEXT, "process group; null: not said"),
        Column("pg_size", _INT, "ranks of the process group; null: not said"),
        Column("in_bytes", _INT, "bytes that a communication gives; null: unknown, or no communication"),
        Column("out_bytes", _INT, "bytes that it gets; null: unknown, or no communication"),
        Column("peer", _INT, "the other rank of a send or receive; null: not said"),
    ),
)


class EtPlus(Struct, frozen=True, eq=False):
    """A linked trace of one rank.

    Args:
        path: of the file.
        schema: its version.
        header: members of the file beside its nodes.
        nodes: `ET_PLUS_NODES`.
        waits: pairs of ids: the node that waits, and the one that it waits for (`inter_thread_dep`, `sync_dep`).
        groups: ranks of the process groups that the file lists; none: all ranks.
        findings: findings while it was read.
    """

    path: str
    schema: str
    header: Mapping[str, object]
    nodes: pl.DataFrame
    waits: Sequence[tuple[int, int]]
    groups: Mapping[str, tuple[int, ...]]
    findings: tuple[Finding, ...] = ()


_PARAM_COMMS = "record_param_comms"
_ELEMENT_BYTES = {
    **dict.fromkeys(("double", "float64", "long", "int64", "long int", "complexfloat", "complex64"), 8),
    **dict.fromkeys(("float", "float32", "int", "int32"), 4),
    **dict.fromkeys(("half", "float16", "bfloat16", "short", "int16", "c10::half", "c10::bfloat16"), 2),
    **dict.fromkeys(("byte", "char", "bool", "uint8", "int8", "unsigned char"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), 1),
    **dict.fromkeys(("complexdouble", "complex128"), 16),
}
"""Element sizes of the types in PyTorch's attributes of collectives, in lower case."""
_TENSOR_MEMBERS = 6
"""A tensor in an Execution Trace: its id, storage, offset, number of elements, bytes of an element, device."""
_MOST_NESTED = 4
"""Lists of lists of tensors that are gone into."""
_INT64 = 2**63
_Id = Annotated[int, msgspec.Meta(ge=-_INT64, le=_INT64 - 1)]


class _Attribute(msgspec.Struct):
    name: str = ""
    value: Any = None


class _Values(msgspec.Struct):
    values: msgspec.Raw = msgspec.Raw()
    shapes: msgspec.Raw = msgspec.Raw()


class EtPlusNode(msgspec.Struct):
    """A node; members that a form does not have are absent."""

    id: _Id
    name: str = ""
    ctrl_deps: int | None = None
    parent: int | None = None
    ts: float | None = None
    dur: float | None = None
    inclusive_dur: float | None = None
    exclusive_dur: float | None = None
    cat: str | None = None
    stream: Any = None
    tid: Any = None
    pg_name: Any = None
    inter_thread_dep: int | None = None
    sync_dep: list[int] | int | None = None
    inputs: msgspec.Raw = msgspec.Raw()
    outputs: msgspec.Raw = msgspec.Raw()
    input_shapes: msgspec.Raw = msgspec.Raw()
    attrs: list[_Attribute] = []


def row_of(node: EtPlusNode) -> tuple[Any, ...]:
    """The node as a row of `ET_PLUS_NODES`."""
    attrs = {attribute.name: attribute.value for attribute in node.attrs}
    parent = node.ctrl_deps if node.ctrl_deps is not None else node.parent
    inclusive = node.inclusive_dur if node.inclusive_dur is not None else node.dur
    exclusive = node.exclusive_dur if node.exclusive_dur is not None else inclusive
    is_timed = node.ts is not None and inclusive is not None
    inputs, shapes = _values(node.inputs)
    pg_name = node.pg_name if node.pg_name is not None else attrs.get("pg_name")
    in_bytes, out_bytes = _bytes(node, attrs, inputs)
    return (
        node.id,
        node.name,
        None if parent == node.id else _int(parent),
        _ns(node.ts) if is_timed else None,
        _ns(inclusive) if is_timed else None,
        _ns(exclusive) if is_timed else None,
        node.cat,
        _int(node.stream),
        _int(attrs.get("tid", node.tid)),
        _shapes(bytes(node.input_shapes) or shapes),
        _text(attrs.get("collective_name")),
        _text(pg_name),
        _int(attrs.get("pg_size")),
        in_bytes,
        out_bytes,
        _int(attrs.get("dst_rank", attrs.get("src_rank"))),
    )


def waits_of(node: EtPlusNode) -> list[tuple[int, int]]:
    """Parse a node, and its dependencies besides its parent; ids fit in int64."""
    sync = node.sync_dep if isinstance(node.sync_dep, list) else [node.sync_dep]
    waits = map(_int, (node.inter_thread_dep, *sync))
    return [(node.id, other) for other in waits if other is not None]


def _values(inputs: msgspec.Raw) -> tuple[bytes, bytes]:
    """The texts of values and shapes: members of an object, or the list itself of a flat node."""
    text = bytes(inputs)
    if not text.startswith(b"{"):
        return text, b""
    members = msgspec.json.decode(text, type=_Values)
    return bytes(members.values), bytes(members.shapes)


def _bytes(node: EtPlusNode, attrs: dict[str, Any], inputs: bytes) -> tuple[int | None, int | None]:
    """Return the sent and received bytes of a communication, by its attributes, else by its tensors."""
    element = _ELEMENT_BYTES.get(str(attrs.get("dtype", "")).lower())
    counts = _int(attrs.get("in_msg_nelems")), _int(attrs.get("out_msg_nelems"))
    if element is not None and any(counts):
        given, got = (None if count is None else _int(count * element) for count in counts)
        return given, got
    if node.name != _PARAM_COMMS and type_of(node.name) is None:
        return None, None
    return _tensor_bytes(inputs), _tensor_bytes(_values(node.outputs)[0])


def _tensor_bytes(text: bytes) -> int | None:
    """Bytes of all tensors in a list of values; None: it has none."""
    try:
        values = msgspec.json.decode(text) if text else None
    except (msgspec.MsgspecError, RecursionError):
        return None
    total, found = 0, False
    level: list[Any] = [values]
    for _ in range(_MOST_NESTED):
        level = [item for items in level if isinstance(items, list) for item in items]
        tensors = [item for item in level if _is_tensor(item)]
        found = found or bool(tensors)
        total += sum(item[3] * item[4] for item in tensors)
        level = [item for item in level if not _is_tensor(item)]
    return total if found and total < _INT64 else None


def _is_tensor(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == _TENSOR_MEMBERS
        and all(isinstance(member, int) and member >= 0 for member in value[3:5])
        and isinstance(value[5], str)
    )


def _ns(micros: float | None) -> int:
    """Whole ns; a float64 of µs since 1970 has a quarter of a µs."""
    value = micros or 0.0
    return round(value * NS_PER_US) if abs(value) < _INT64 / NS_PER_US else 0


def _shapes(text: bytes) -> str | None:
    return text.decode() if text.strip(b" []") else None


def _int(value: Any) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and -_INT64 <= value < _INT64 else None


def _text(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)


_CHUNK_BYTES = 4 << 20
_GROUPS_NODE = "process_group:init"
_NODES = msgspec.json.Decoder(list[EtPlusNode])


def read_et_plus(path: str | Path) -> EtPlus:
    """Read an ET+ file of Tracebraid, Chakra or trace_link: `.json`, also `.gz` or `.zst`."""
    file = open_array(open_source(path))
    if file.array != "nodes":
        advice = "Give the linked file (ET+) that `tracebraid link` or chakra_trace_link wrote"
        raise WrongTraceError(file.source.path, "this is a Kineto trace, but ET+ was expected", advice)
    rows: list[tuple[Any, ...]] = []
    waits: list[tuple[int, int]] = []
    groups: dict[str, tuple[int, ...]] = {}
    issues: list[Issue] = []
    for chunk in file.chunks(_CHUNK_BYTES):
        for node in _decoded(file, chunk.data, chunk.start, issues):
            rows.append(row_of(node))
            waits += waits_of(node)
            if _GROUPS_NODE in node.name:
                groups |= _groups(node)
    if not rows:
        raise NotATraceError(
            file.source.path, "it contains no readable node", "Was the file written to its end?"
        )
    nodes = pl.DataFrame(rows, schema=ET_PLUS_NODES.polars_schema(), orient="row")
    # Of nodes that share an id the first counts, as everywhere.
    if not nodes.unique("node_id", keep="first").get_column("ts_ns").is_not_null().any():
        advice = "Link it with its Kineto trace first: `tracebraid link`"
        raise NotATraceError(file.source.path, "no node has a time, so it is not a linked trace", advice)
    schema = str(file.header.get("schema", ""))
    found = findings_of(file, issues)
    return EtPlus(file.source.path, schema, file.header, nodes, waits, groups, tuple(found))


def _decoded(file: ArrayFile, data: bytes, start: int, issues: list[Issue]) -> list[EtPlusNode]:
    """Decode the nodes of a chunk; unreadable ones are skipped."""
    try:
        # What nodes keep as it stands is decoded later: all of it has to be text.
        return _NODES.decode("[" + data.strip().strip(b",").decode() + "]")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    kept, found = recover(data, start, shape_of(file.first_key, NODE_MEMBER))
    issues += found
    nodes = []
    for recovered in kept:
        try:
            nodes.append(msgspec.json.decode(msgspec.json.encode(recovered.value), type=EtPlusNode))
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
            details = {"error": str(error)}
            issues.append(Issue(FindingCode.NODE_UNREADABLE, recovered.byte, Loss(1, 1), details))
    return nodes


def _groups(node: EtPlusNode) -> dict[str, tuple[int, ...]]:
    """The process groups that a node lists."""
    try:
        inputs = msgspec.json.decode(bytes(node.inputs))
    except (msgspec.MsgspecError, RecursionError):
        return {}
    values = inputs.get("values") if isinstance(inputs, dict) else inputs
    texts = [value for value in values if isinstance(value, str)] if isinstance(values, list) else []
    return {
        name: tuple(ranks)
        for text in texts
        for name, ranks in groups_of_text(text).select("pg_name", "ranks").iter_rows()
        if name is not None and ranks is not None
    }
