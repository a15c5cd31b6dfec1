"""The parts of an Execution Trace's JSON text: its header, and each node's inputs, outputs and attributes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import polars as pl

from tracebraid.errors import ArgumentError
from tracebraid.files import refuse_inputs, write_whole
from tracebraid.model.check import Repair
from tracebraid.model.et_names import THREAD_ROOTS
from tracebraid.model.execution_trace import MISSING_PARENT, ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.op_tree import JudgedParent, Verdict, judge_parents
from tracebraid.model.schema import ET_COLLECTIVES

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
    """The Execution Trace that ET+ is made of."""
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
    """Write the text of a file, as gzip where the path ends in `.gz`; an existing one is replaced once it is whole."""
    write_whole(Path(path), (line.encode() for line in lines), overwrite=True)


def refuse_input(linked: LinkedTrace, path: str | Path) -> None:
    """Reject an output that is one of the files which the rank is read from."""
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


def write_repaired_et(linked: LinkedTrace, path: str | Path) -> Repair:
    """Write the rank's Execution Trace, with nodes whose parent is proven wrong under that of the op that called them.

    `model.parents.judge_parents` defines proof; nodes without it are unchanged. Nodes are written in the order of their
    ids. Where nothing has to change, nothing is written.
    """
    et = linked.et
    if et is None:
        raise ArgumentError(f"rank {linked.rank} has no Execution Trace to repair")
    judged = _judged(linked, et)
    parents = repaired_parents(et, judged)
    before = dict(et.nodes.select("node_id", "parent_id").iter_rows())
    linked_nodes = linked.host_links.get_column("node_id").drop_nulls()
    marks = as_text("key") == MISSING_PARENT
    solved = marks & pl.col("node_id").is_in(linked_nodes.implode())
    marked = not et.extra_attrs.filter(solved).is_empty()
    et = replace(et, extra_attrs=et.extra_attrs.filter(~solved))
    changed = tuple(node for node, parent in sorted(parents.items()) if before[node] != parent)
    if changed or marked:
        write_lines(path, _lines(et, {**before, **parents}))
    left = tuple(parent.node_id for parent in judged if parent.verdict is Verdict.UNPROVEN)
    return Repair(str(path), len(before), changed, bool(changed or marked), left)


def _judged(linked: LinkedTrace, et: ExecutionTrace) -> list[JudgedParent]:
    return judge_parents(et, linked.timeline, linked.host_tree_by_et, linked.host_links)


def repaired_parents(et: ExecutionTrace, judged: Iterable[JudgedParent]) -> dict[int, int]:
    """The parent of each node but the roots.

    A node gets another parent only where its own is proven wrong: the node of the op that
    called it, else under its thread's root. What is not linked stays where it is; without a parent in the file, a
    node gets its thread's root.
    """
    proven = {parent.node_id: parent.by_time for parent in judged if parent.is_proven}
    roots, process = _roots(et)
    known, all_roots = set(et.nodes.get_column("node_id")), {process, *roots.values()}
    parents = {}
    for node, parent, tid in et.op_nodes.select("node_id", "parent_id", "tid").iter_rows():
        root = roots.get(tid, process)
        if node in proven:
            by_time = proven[node]
            parents[node] = root if by_time is None else by_time
        else:
            parents[node] = root if parent not in known or parent in all_roots else parent
    return parents


def _roots(et: ExecutionTrace) -> tuple[dict[int, int], int]:
    """The root of each logical thread, and the process's."""
    roots = et.nodes.filter("is_root")
    threads = roots.filter(as_text("name").is_in(THREAD_ROOTS))
    process = roots.get_column("node_id").min()
    return dict(threads.select("tid", "node_id").iter_rows()), process if isinstance(process, int) else 1


def _lines(et: ExecutionTrace, parents: dict[int, int | None]) -> Iterator[str]:
    header = header_of(et)
    rest = {key: value for key, value in et.header.items() if key not in header}
    return document(header, _nodes(et, parents), rest)


def _nodes(et: ExecutionTrace, parents: dict[int, int | None]) -> Iterator[str]:
    bodies = Bodies(et)
    for node, name in et.nodes.select("node_id", as_text("name")).iter_rows():
        parent = parents[node]
        head = f'"id": {node}, "name": {as_json(name)}, "ctrl_deps": {node if parent is None else parent}'
        yield f"{{{head}, {bodies.of(node)}}}"
