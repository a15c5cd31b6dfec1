"""The parts of an Execution Trace's JSON text: its header, and each node's inputs, outputs and attributes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from tracebraid.errors import ArgumentError
from tracebraid.files import refuse_inputs, write_whole
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.schema import ET_COLLECTIVES

__all__ = [
    "FLAT_SCHEMA",
    "Bodies",
    "ValueLists",
    "as_json",
    "document",
    "et_of",
    "header_of",
    "refuse_input",
    "write_lines",
]

_ATTR_TYPES = {
    "rf_id": "uint64",
    "fw_parent": "uint64",
    "seq_id": "int64",
    "scope": "uint64",
    "tid": "uint64",
    "fw_tid": "uint64",
    "op_schema": "string",
    "kernel_backend": "string",
    "kernel_file": "string",
}
_HEADER_KEYS = ("pid", "time", "start_ts")
FLAT_SCHEMA = "1.0.1"
"""The schema whose nodes have their attributes, shapes and types as members of their own."""
_NESTED_SCHEMA = "1.0.2-chakra.0.0.4"


def et_of(linked: LinkedTrace) -> ExecutionTrace:
    """The Execution Trace that ET+ is made of.

    Raises:
        ArgumentError: the rank has none.
    """
    if linked.et is None:
        raise ArgumentError(
            f"rank {linked.rank} has no Execution Trace, and ET+ is one with times: give its ET too"
        )
    return linked.et


def header_of(et: ExecutionTrace) -> dict[str, object]:
    """The members before the nodes. Nodes of schema 1.0.1 are written in the form of 1.0.2, which holds the same."""
    schema = _NESTED_SCHEMA if et.schema == FLAT_SCHEMA else et.schema
    return {"schema": schema, **{key: et.header[key] for key in _HEADER_KEYS if key in et.header}}


def document(
    header: Mapping[str, object], nodes: Iterable[str], footer: Mapping[str, object]
) -> Iterator[str]:
    """The text of an Execution Trace file, a node to a line: the members before its nodes, they, and those after."""
    yield "{\n" + ",\n".join(f"  {as_json(key)}: {as_json(value)}" for key, value in header.items())
    yield ',\n  "nodes": [\n    '
    separator = ""
    for node in nodes:
        yield separator + node
        separator = ",\n    "
    yield (
        "\n  ]" + "".join(f",\n  {as_json(key)}: {as_json(value)}" for key, value in footer.items()) + "\n}\n"
    )


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Write the text of a file, as gzip where the path ends in `.gz`; an existing one is replaced once it is whole.

    Raises:
        OutputError: the file cannot be written.
    """
    write_whole(Path(path), (line.encode() for line in lines), overwrite=True)


def refuse_input(linked: LinkedTrace, path: str | Path) -> None:
    """Refuse an output that is one of the files which the rank is read from.

    Raises:
        OutputError: it is.
    """
    refuse_inputs(Path(path), [linked.timeline.path, *([] if linked.et is None else [linked.et.path])])


def as_json(value: object) -> str:
    """A value as JSON text."""
    return msgspec.json.encode(value).decode()


class ValueLists:
    """The text of each node's inputs and outputs: the lists of their values, shapes, types and strides."""

    def __init__(self, et: ExecutionTrace) -> None:
        self.with_strides = et.values.get_column("strides").null_count() < et.values.height
        self._rows: dict[tuple[int, bool], list[tuple[str, str, str, str]]] = defaultdict(list)
        text = [as_text(name) for name in ("value", "shape", "type", "strides")]
        for node, is_output, *parts in et.values.select("node_id", "is_output", *text).iter_rows():
            self._rows[node, is_output].append(tuple(parts))

    def of(self, node: int, is_output: bool) -> tuple[str, str, str, str]:
        """(values, shapes, types, strides) of a node's inputs or outputs, each a JSON list."""
        rows = self._rows.get((node, is_output), [])
        values = ",".join(row[0] or "null" for row in rows)
        shapes = ",".join(row[1] or "[]" for row in rows)
        types = ",".join(as_json(row[2] or "") for row in rows)
        strides = ",".join(row[3] for row in rows if row[3] is not None)
        return f"[{values}]", f"[{shapes}]", f"[{types}]", f"[{strides}]"


class Bodies:
    """The text of each node's inputs, outputs and attributes, as the Execution Trace has them.

    Args:
        et: the trace.
        without: names of further attributes to leave out.
    """

    def __init__(self, et: ExecutionTrace, without: Collection[str] = ()) -> None:
        self._lists = ValueLists(et)
        self._attrs = _attrs(et, without)

    def of(self, node: int) -> str:
        """`"inputs": ..., "outputs": ..., "attrs": ...` of a node."""
        attrs = ", ".join(self._attrs[node])
        return f'"inputs": {self._values(node, False)}, "outputs": {self._values(node, True)}, "attrs": [{attrs}]'

    def _values(self, node: int, is_output: bool) -> str:
        values, shapes, types, strides = self._lists.of(node, is_output)
        last = f', "strides": {strides}' if self._lists.with_strides else ""
        return f'{{"values": {values}, "shapes": {shapes}, "types": {types}{last}}}'


def _attrs(et: ExecutionTrace, without: Collection[str]) -> dict[int, list[str]]:
    """The attributes of each node as JSON objects, in the order in which PyTorch writes them."""
    found: dict[int, list[str]] = defaultdict(list)
    columns = [name for name in _ATTR_TYPES if et.nodes.get_column(name).null_count() < et.nodes.height]
    for node, *values in et.nodes.select("node_id", *columns).iter_rows():
        found[node] += [
            _attr(name, _ATTR_TYPES[name], value)
            for name, value in zip(columns, values, strict=True)
            if value is not None
        ]
    names = {column.name: column.keys[0] for column in ET_COLLECTIVES.columns if column.keys}
    for node, *values in et.collectives.select("node_id", *names).iter_rows():
        for name, value in zip(names.values(), values, strict=True):
            if value is not None:
                kind = "bool" if isinstance(value, bool) else "uint64" if isinstance(value, int) else "string"
                found[node].append(_attr(name, kind, value))
    extra = et.extra_attrs.filter(~as_text("key").is_in(list(without)))
    for node, key, kind, value in extra.iter_rows():
        found[node].append(f'{{"name": {as_json(key)}, "type": {as_json(kind)}, "value": {value}}}')
    return found


def _attr(name: str, kind: str, value: object) -> str:
    return f'{{"name": {as_json(name)}, "type": {as_json(kind)}, "value": {as_json(value)}}}'
