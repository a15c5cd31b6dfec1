"""One chunk of an Execution Trace, from bytes to columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.importers.columns import (
    ColumnData,
    Interned,
    Interner,
    TableData,
    int_column,
    interned_column,
    renamed,
)
from tracebraid.importers.json_stream.chunks import NODE_MEMBER, shape_of
from tracebraid.importers.json_stream.recover import (
    Recovered,
    forms_of_numbers,
    paused_collector,
    plain_text,
    recover,
)
from tracebraid.model.column import INT64_NULL, Kind
from tracebraid.model.finding import FindingCase, Issue, Loss
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.schema import ET_COLLECTIVES

COLLECTIVE_COLUMNS = {key: column for column in ET_COLLECTIVES.columns for key in column.keys}
"""The columns of `collectives` by the attribute that fills them."""


def fits(kind: Kind, value: object) -> bool:
    """Return whether a value fits a column of a kind."""
    if kind is Kind.INT:
        return type(value) is int and INT64_NULL < value < 2**63
    return isinstance(value, bool if kind is Kind.BOOL else str)


def fits_collective(name: str, value: object) -> bool:
    """Return whether an attribute has a column in `collectives`, and fits it."""
    return name in COLLECTIVE_COLUMNS and fits(COLLECTIVE_COLUMNS[name].kind, value)


def collective_table(node_ids: NDArray[np.int64], rows: list[dict[str, Any]]) -> TableData:
    """The table `collectives` of nodes that have such attributes, and of these by name."""
    columns: dict[str, ColumnData] = {"node_id": node_ids}
    for name, column in COLLECTIVE_COLUMNS.items():
        values = [row.get(name) for row in rows]
        columns[column.name] = int_column(values) if column.kind is Kind.INT else interned_column(values)
    return TableData(len(rows), columns)


_Ints = NDArray[np.int64]

INT_ATTRS = ("rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid")
"""The attributes with a column of integers in `nodes`."""
TEXT_ATTRS = ("op_schema", "kernel_backend", "kernel_file")
"""The attributes with a column of text in `nodes`."""

_EXACT = 1 << 53
"""A float64 up to here that is whole says which integer it is."""
_KINDS = {**dict.fromkeys(INT_ATTRS, Kind.INT), **dict.fromkeys(TEXT_ATTRS, Kind.NAME)}
FIRST_ATTRS = ("rf_id", "fw_parent", "seq_id")
"""The attributes that come first, as PyTorch writes them."""
_FIRST_OF_ALL = re.compile(
    rb"\[\s*"
    + b"".join(
        rb'\{\s*"name"\s*:\s*"%b"\s*,\s*"type"\s*:\s*"\w*"\s*,\s*"value"\s*:\s*(-?\d{1,18})\s*\}\s*,\s*'
        % name.encode()
        for name in FIRST_ATTRS
    )
)


class Attr(msgspec.Struct, gc=False):
    """One attribute of a node."""

    name: str
    type: str = ""
    value: int | float | str | bool | list[Any] | dict[str, Any] | None = None


_ATTRS = msgspec.json.Decoder(list[Attr])


class Attributes(Struct):
    """Values from the attributes of a chunk's nodes.

    Args:
        columns: columns of the table `nodes`.
        tables: the tables `collectives` and `extra_attrs`.
        owners: for each row of these the number of its node in the chunk.
    """

    columns: dict[str, ColumnData]
    tables: dict[str, TableData]
    owners: dict[str, _Ints]


class _Distinct(Struct):
    """Parse each distinct attribute text."""

    values: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in _KINDS})
    collectives: list[dict[str, Any]] = field(default_factory=list)
    extras: list[tuple[str, str, bytes]] = field(default_factory=list)
    extra_counts: list[int] = field(default_factory=list)

    def add(self, attrs: list[Attr]) -> None:
        row: dict[str, Any] = {}
        collective: dict[str, Any] = {}
        before = len(self.extras)
        for attr in attrs:
            name, value = attr.name, attr.value
            if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
                value = int(value)
            kind = _KINDS.get(name)
            if kind is not None and fits(kind, value):
                row[name] = value
            elif fits_collective(name, value):
                collective[name] = value
            else:
                self.extras.append((name, attr.type, msgspec.json.encode(value)))
        for name, column in self.values.items():
            column.append(row.get(name))
        self.collectives.append(collective)
        self.extra_counts.append(len(self.extras) - before)


def attributes_of(node_ids: _Ints, first: Sequence[_Ints], rest: Interned) -> Attributes:
    """Decode the attributes of nodes; what has no column, or does not fit it, is an extra.

    Args:
        node_ids: the nodes.
        first: the values of the attributes in `FIRST_ATTRS`; missing where others come before these.
        rest: the attributes without these, as JSON.
    """
    distinct = _Distinct()
    for text in rest.values:
        distinct.add(_ATTRS.decode(text))  # type: ignore[arg-type]
    code = rest.codes
    columns: dict[str, ColumnData] = {name: int_column(distinct.values[name])[code] for name in INT_ATTRS}
    for name, values in zip(FIRST_ATTRS, first, strict=True):
        existing = columns[name]
        assert not isinstance(existing, Interned), f"{name} is a column of integers"
        columns[name] = np.where(existing == INT64_NULL, values, existing)
    for name in TEXT_ATTRS:
        texts_of = interned_column(distinct.values[name])
        columns[name] = Interned(texts_of.codes[code], texts_of.values)
    extras, extra_owner = _extras(node_ids, code, distinct)
    has_some = np.array([bool(row) for row in distinct.collectives], dtype=np.bool_)
    nodes = np.flatnonzero(has_some[code])
    collectives = collective_table(node_ids[nodes], [distinct.collectives[i] for i in code[nodes].tolist()])
    return Attributes(
        columns,
        {"collectives": collectives, "extra_attrs": extras},
        {"collectives": nodes, "extra_attrs": extra_owner},
    )


def no_extras() -> TableData:
    """The table `extra_attrs` of nodes that have none."""
    return _extras(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32), _Distinct())[0]


def _without_first(texts: list[bytes]) -> tuple[list[_Ints], list[bytes]]:
    """The attributes in `FIRST_ATTRS`, missing where a text does not start with these; the texts without them."""
    missing = (INT64_NULL,) * len(FIRST_ATTRS)
    values: list[Iterable[int]] = []
    rest: list[bytes] = []
    match = _FIRST_OF_ALL.match
    for text in texts:
        found = match(text)
        if found is None:
            values.append(missing)
            rest.append(text)
        else:
            values.append(map(int, found.groups()))
            rest.append(b"[" + text[found.end() :])
    flat = np.fromiter(chain.from_iterable(values), dtype=np.int64, count=len(texts) * len(FIRST_ATTRS))
    return list(flat.reshape(len(texts), len(FIRST_ATTRS)).T), rest


def _extras(node_ids: _Ints, code: NDArray[np.int32], distinct: _Distinct) -> tuple[TableData, _Ints]:
    lengths = np.array(distinct.extra_counts, dtype=np.int64)
    counts = lengths[code]
    total = int(counts.sum())
    owner = np.repeat(np.arange(len(code)), counts)
    first = np.repeat((np.cumsum(lengths) - lengths)[code], counts)
    row = first + np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    columns: dict[str, ColumnData] = {"node_id": node_ids[owner]}
    for index, name in enumerate(("key", "type", "value")):
        column = interned_column([extra[index] for extra in distinct.extras])
        columns[name] = Interned(column.codes[row], column.values)
    return TableData(total, columns), owner


_Raw = msgspec.Raw

_UNUSUAL = re.compile(rb"[\s\\]")
_VALUES = b'{"values": '
_SHAPES = b'], "shapes": '


class _Arguments(msgspec.Struct, gc=False):
    values: list[_Raw] = []
    shapes: _Raw = _Raw(b"[]")
    types: _Raw = _Raw(b"[]")
    strides: _Raw = _Raw(b"[]")


class _Layout(msgspec.Struct, gc=False):
    shapes: list[_Raw] = []
    types: list[str] = []
    strides: list[_Raw] = []
    values: _Raw | None = None


_ARGUMENTS = msgspec.json.Decoder(list[_Arguments])
_LAYOUT = msgspec.json.Decoder(_Layout)
_LISTS = msgspec.json.Decoder(list[list[_Raw]])


class ArgumentLists(Struct, frozen=True):
    """The arguments of the nodes of a chunk: two lists for each node, of its inputs and of its outputs.

    Args:
        counts: how many values each list has.
        values: the values of all lists in turn, as JSON.
        layouts: an object with the members `shapes`, `types` and `strides` of each list, as JSON.
    """

    counts: _Ints
    values: Interned
    layouts: Interned


def _lists_of(values: list[list[_Raw]], layouts: list[bytes]) -> ArgumentLists:
    """The lists, from the values and the layout of each."""
    counts = np.fromiter(map(len, values), dtype=np.int64, count=len(values))
    texts = interned_column(map(bytes, chain.from_iterable(values)))
    return ArgumentLists(counts, texts, interned_column(layouts))


def arguments_of(texts: list[bytes]) -> ArgumentLists:
    """The arguments in `inputs` and `outputs` of nodes since schema 1.0.2.

    PyTorch writes the values first, so that a cut behind them splits what differs from what repeats. A text that is
    written in another way is decoded in full.
    """
    try:
        return _split(texts)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        found = _ARGUMENTS.decode(b"[" + b",".join(texts) + b"]")
    return _lists_of(
        [arguments.values for arguments in found],
        [
            b'{"shapes":%b,"types":%b,"strides":%b}'
            % (bytes(arguments.shapes), bytes(arguments.types), bytes(arguments.strides))
            for arguments in found
        ],
    )


def _split(texts: list[bytes]) -> ArgumentLists:
    """The arguments of texts as PyTorch writes them; a MsgspecError or ValueError where one is not."""
    if not all(text.startswith(_VALUES) for text in texts):
        raise ValueError("values do not come first")
    begin = len(_VALUES)
    cuts = [text.index(_SHAPES, begin) for text in texts]
    values = [text[begin : cut + 1] for text, cut in zip(texts, cuts, strict=True)]
    lists = _LISTS.decode(b"[" + b",".join(values) + b"]")
    layouts = [b"{" + text[cut + 3 :] for text, cut in zip(texts, cuts, strict=True)]
    if len(lists) != len(texts) or any(_LAYOUT.decode(text).values is not None for text in set(layouts)):
        raise ValueError("values come twice")
    return _lists_of(lists, layouts)


def values_table(node_ids: _Ints, lists: ArgumentLists) -> tuple[TableData, _Ints]:
    """The table `values`, and for each of its rows the number of its node in the chunk.

    Shapes, types and strides follow the values: Triton's stream has no stride, old schemas have none at all.
    """
    counts = lists.counts
    total = int(counts.sum())
    position = np.arange(total, dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    node = np.repeat(np.arange(len(counts)) // 2, counts)
    is_output = np.repeat(np.arange(len(counts), dtype=np.int32) % 2, counts)
    layouts = [_LAYOUT.decode(text) for text in lists.layouts.values]  # type: ignore[arg-type]
    rows = _Rows(np.repeat(lists.layouts.codes, counts), position)
    columns: dict[str, ColumnData] = {
        "node_id": node_ids[node],
        "is_output": Interned(is_output, [False, True]),
        "position": position,
        "type": rows.spread([layout.types for layout in layouts], str, ""),
        "value": renamed(lists.values, _plain_value),
        "shape": rows.spread([layout.shapes for layout in layouts], _plain, None),
        "strides": rows.spread([layout.strides for layout in layouts], _plain, None),
    }
    return TableData(total, columns), node


def _plain(text: Any) -> bytes:
    """Lists of lengths as PyTorch writes them."""
    return plain_text(bytes(text), indent=-1)


def _plain_value(text: Any) -> bytes:
    """A value as PyTorch writes it; most have no white space, and numbers keep their digits."""
    return plain_text(text, indent=-1, whole=False) if _UNUSUAL.search(text) else text


class _Rows(Struct, frozen=True):
    """For each row the code of its list's layout, and its position in the list."""

    code: NDArray[np.int32]
    position: _Ints

    def spread(
        self, lists: list[list[_Raw]] | list[list[str]], key: Callable[[Any], object], absent: object
    ) -> Interned:
        """The elements of the lists by code, row by row; `absent` (None: missing) where a list is too short."""
        elements = Interner()
        codes = [[elements[key(item)] for item in items] for items in lists]
        filler = -1 if absent is None else elements[absent]
        lengths = np.array([len(items) for items in codes], dtype=np.int64)
        first = np.cumsum(lengths) - lengths
        flat = np.array([*chain.from_iterable(codes), filler], dtype=np.int32)
        index = np.where(self.position < lengths[self.code], first[self.code] + self.position, len(flat) - 1)
        return Interned(flat[index], list(elements))


NOT_NODES = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Errors raised if a text is not a list of nodes."""

_Id = Annotated[int, msgspec.Meta(ge=INT64_NULL + 1, le=2**63 - 1)]


class Node(msgspec.Struct, gc=False):
    """A node since schema 1.0.2."""

    id: _Id
    name: str
    ctrl_deps: int | None
    inputs: _Raw
    outputs: _Raw
    attrs: _Raw


class FlatNode(msgspec.Struct, gc=False):
    """A node of schema 1.0.1, whose attributes are members of it, and fit their columns."""

    id: _Id
    name: str
    parent: int | None = None
    rf_id: _Id | None = None
    fw_parent: _Id | None = None
    seq_id: _Id | None = None
    scope: _Id | None = None
    tid: _Id | None = None
    fw_tid: _Id | None = None
    op_schema: str | None = None
    inputs: list[_Raw] = []
    input_shapes: _Raw = _Raw(b"[]")
    input_types: _Raw = _Raw(b"[]")
    outputs: list[_Raw] = []
    output_shapes: _Raw = _Raw(b"[]")
    output_types: _Raw = _Raw(b"[]")


class _CheckedArguments(msgspec.Struct, gc=False):
    values: list[_Raw] = []
    shapes: list[_Raw] = []
    types: list[str] = []
    strides: list[_Raw] = []


class _CheckedNode(msgspec.Struct, gc=False):
    id: _Id
    name: str
    ctrl_deps: int | None
    inputs: _CheckedArguments
    outputs: _CheckedArguments
    attrs: list[Attr]


class _CheckedFlatNode(msgspec.Struct, gc=False):
    id: _Id
    name: str
    parent: int | None = None
    rf_id: int | None = None
    fw_parent: int | None = None
    seq_id: int | None = None
    scope: int | None = None
    tid: int | None = None
    fw_tid: int | None = None
    op_schema: str | None = None
    inputs: list[_Raw] = []
    input_shapes: list[_Raw] = []
    input_types: list[str] = []
    outputs: list[_Raw] = []
    output_shapes: list[_Raw] = []
    output_types: list[str] = []


NODES = msgspec.json.Decoder(list[Node])
"""Decodes nodes since schema 1.0.2."""
FLAT_NODES = msgspec.json.Decoder(list[FlatNode])
"""Decodes nodes of schema 1.0.1."""

_CHECKED = msgspec.json.Decoder(_CheckedNode)
_CHECKED_FLAT = msgspec.json.Decoder(_CheckedFlatNode)


def argument_lists(nodes: list[Node]) -> ArgumentLists:
    """The arguments of nodes."""
    return arguments_of([bytes(text) for node in nodes for text in (node.inputs, node.outputs)])


def flat_argument_lists(nodes: list[FlatNode]) -> ArgumentLists:
    """The arguments of nodes of schema 1.0.1."""
    values = [values for node in nodes for values in (node.inputs, node.outputs)]
    layouts = [
        b'{"shapes":%b,"types":%b}' % (bytes(shapes), bytes(types))
        for node in nodes
        for shapes, types in ((node.input_shapes, node.input_types), (node.output_shapes, node.output_types))
    ]
    return _lists_of(values, layouts)


def attribute_texts(nodes: list[Node]) -> list[bytes]:
    """The attributes of each node, as JSON."""
    return [bytes(node.attrs) for node in nodes]


def node_text(item: Recovered) -> bytes:
    """The JSON of an object that is a node, in the form since schema 1.0.2."""
    try:
        _CHECKED.decode(item.text)
    except msgspec.ValidationError:
        return msgspec.json.encode(_unflattened(_CHECKED_FLAT.decode(item.text)))
    return item.text


def _unflattened(flat: _CheckedFlatNode) -> _CheckedNode:
    attrs = [
        Attr(name, "", value)
        for name in (*INT_ATTRS, "op_schema")
        if (value := getattr(flat, name)) is not None
    ]
    return _CheckedNode(
        flat.id,
        flat.name,
        flat.parent,
        _CheckedArguments(flat.inputs, flat.input_shapes, flat.input_types),
        _CheckedArguments(flat.outputs, flat.output_shapes, flat.output_types),
        attrs,
    )


_CODES = {
    FindingCode.EVENT_UNREADABLE: FindingCode.NODE_UNREADABLE,
    FindingCode.EVENT_MENDED: FindingCode.NODE_MENDED,
}
"""Names for nodes of the codes that `recover` uses for objects."""


class NodeColumns(Struct):
    """Content of one chunk of a file.

    Args:
        tables: columns by table name.
        owners: for each row of the tables beside `nodes` the number of its node in the chunk.
        issues: what could not be read unchanged.
    """

    tables: dict[str, TableData] = field(default_factory=dict)
    owners: dict[str, _Ints] = field(default_factory=dict)
    issues: list[Issue] = field(default_factory=list)


def decode_nodes(data: bytes, start: int, first_key: bytes) -> NodeColumns:
    """Decode the nodes of a chunk, of any schema."""
    with paused_collector():
        array = b"".join((b"[", data, b"]"))
        for text in forms_of_numbers(array):
            for columns_of in (_columns, _flat_columns):
                try:
                    return columns_of(text)
                except NOT_NODES:
                    continue
        return _read_each(data, start, first_key)


def _read_each(data: bytes, start: int, first_key: bytes) -> NodeColumns:
    """The nodes of a chunk that does not decode as a whole, and what could not be read."""
    kept, issues = recover(data, start, shape_of(first_key, NODE_MEMBER))
    nodes: list[tuple[int, bytes]] = []
    for item in kept:
        try:
            nodes.append((item.byte, node_text(item)))
        except NOT_NODES as error:
            issues.append(_unreadable(error, item.byte, item.text))
    issues = [replace(issue, code=_CODES.get(issue.code, issue.code)) for issue in issues]
    try:
        found = _columns(_array(nodes))
    except NOT_NODES:
        # Values that are nested as deep as the decoder can follow: some lie a level too deep for the whole array.
        nodes, too_deep = _readable_alone(nodes)
        issues += too_deep
        found = _columns(_array(nodes))
    found.issues = issues
    return found


def _readable_alone(nodes: list[tuple[int, bytes]]) -> tuple[list[tuple[int, bytes]], list[Issue]]:
    readable: list[tuple[int, bytes]] = []
    issues: list[Issue] = []
    for byte, text in nodes:
        try:
            _columns(_array([(byte, text)]))
        except NOT_NODES as error:
            issues.append(_unreadable(error, byte, text))
        else:
            readable.append((byte, text))
    return readable, issues


def _unreadable(error: Exception, byte: int, text: bytes) -> Issue:
    loss = Loss(1, 1, len(text))
    return Issue.of(FindingCode.NODE_UNREADABLE, byte, loss, case=FindingCase.NO_NODE, error=str(error))


def _array(nodes: list[tuple[int, bytes]]) -> bytes:
    return b"[" + b",".join(text for _, text in nodes) + b"]"


def _columns(array: bytes) -> NodeColumns:
    nodes = NODES.decode(array)
    node_ids = _ids(nodes)
    values, values_owner = values_table(node_ids, argument_lists(nodes))
    first, rest = _without_first(attribute_texts(nodes))
    attributes = attributes_of(node_ids, first, interned_column(rest))
    parents = int_column(list(map(attrgetter("ctrl_deps"), nodes)))
    return node_columns(_names(nodes), (node_ids, parents), (values, values_owner), attributes)


def _flat_columns(array: bytes) -> NodeColumns:
    nodes = FLAT_NODES.decode(array)
    node_ids = _ids(nodes)
    columns: dict[str, ColumnData] = {
        name: int_column(list(map(attrgetter(name), nodes))) for name in INT_ATTRS
    }
    columns["op_schema"] = interned_column(map(attrgetter("op_schema"), nodes))
    nothing = np.empty(0, dtype=np.int64)
    attributes = Attributes(
        columns,
        {"collectives": collective_table(nothing, []), "extra_attrs": no_extras()},
        {"collectives": nothing, "extra_attrs": nothing},
    )
    parents = int_column(list(map(attrgetter("parent"), nodes)))
    values = values_table(node_ids, flat_argument_lists(nodes))
    return node_columns(_names(nodes), (node_ids, parents), values, attributes)


def _ids(nodes: Sequence[Node | FlatNode]) -> _Ints:
    return np.fromiter(map(attrgetter("id"), nodes), dtype=np.int64, count=len(nodes))


def _names(nodes: Sequence[Node | FlatNode]) -> Interned:
    return interned_column(map(attrgetter("name"), nodes))


def node_columns(
    names: Interned, ids: tuple[_Ints, _Ints], values: tuple[TableData, _Ints], attributes: Attributes
) -> NodeColumns:
    """The content of a chunk, from its nodes' names, their ids and those of their parents, values and attributes."""
    columns: dict[str, ColumnData] = {
        "node_id": ids[0],
        "name": names,
        "parent_id": ids[1],
        **attributes.columns,
    }
    return NodeColumns(
        {"nodes": TableData(len(ids[0]), columns), "values": values[0], **attributes.tables},
        {"values": values[1], **attributes.owners},
    )
