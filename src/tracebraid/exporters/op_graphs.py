"""Graphs of ops in the formats of graph tools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

import polars as pl
from msgspec import Struct

from tracebraid.model.answers.ops import OP_GRAPH_EDGES, OP_GRAPH_NODES, OpEdge, OpNode
from tracebraid.model.column import Column, Kind
from tracebraid.model.printable import printable

_CONTROL = re.compile("[\x00-\x1f\x7f]")
_REFUSED = re.compile("[\x80-\x9f\ud800-\udfff\ufffe\uffff]")
_PICTURES = 0x2400
"""Unicode's pictures of control characters begin here, in their order."""
_DELETE = 0x7F


def legible(text: str) -> str:
    """Control characters as their pictures, `␊` for a line break; the others as the replacement character."""
    pictured = _CONTROL.sub(lambda match: _picture(ord(match[0])), text)
    return _REFUSED.sub("\ufffd", pictured)


def _picture(code: int) -> str:
    return "\u2421" if code == _DELETE else chr(_PICTURES + code)


_SHAPES = {OpNode.OP: "box", OpNode.ANNOTATION: "folder", OpNode.DEVICE_WORK: "ellipse"}
_STYLES = {
    OpEdge.CALL: 'color="gray50"',
    OpEdge.LAUNCH: 'color="blue"',
    OpEdge.DATA: 'color="darkgreen",style="bold"',
    OpEdge.FORWARD_BACKWARD: 'color="red",style="dashed",constraint="false"',
}
_LABEL_CHARS = 80
"""Characters of a name in a label; the attribute `name` has all of it."""
_ATTRIBUTES = ("step", "node_id", "input_dims", "duration_ns", "host_self_ns", "kernels", "device_total_ns")


def quoted(text: str) -> str:
    """Quote a text as an ID of DOT: quotes and backslashes are escaped.

    Graphviz takes away that of quotes alone: tools that show the attribute show each backslash twice.
    """
    safe = legible(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{safe}"'


def label(*lines: str) -> str:
    """Lines as a label of DOT, where backslashes and entities have a meaning of their own; pictures show them."""
    safe = (
        printable(legible(line)).replace("\\", "\\\\").replace("&", "&amp;").replace('"', '\\"')
        for line in lines
    )
    return '"' + "\\n".join(safe) + '"'


def shortened(text: str) -> str:
    """A text as labels have it."""
    return text if len(text) <= _LABEL_CHARS else f"{text[:_LABEL_CHARS]}…"


def dot_lines(nodes: pl.DataFrame, edges: pl.DataFrame) -> Iterator[bytes]:
    """The file, line by line."""
    yield b'digraph ops {\n  graph [rankdir="TB"];\n  node [fontname="sans-serif",fontsize="10"];\n'
    for row in nodes.iter_rows(named=True):
        kind = OpNode(row["kind"])
        name = row["name"]
        attributes = [
            f"label={label(shortened(name), *_facts(row))}",
            f'shape="{_SHAPES[kind]}"',
            f"kind={quoted(kind.value)}",
            f"name={quoted(name)}",
            *(f"{key}={quoted(str(row[key]))}" for key in _ATTRIBUTES if row[key] is not None),
        ]
        yield f'  "r{row["rank"]}e{row["event_id"]}" [{",".join(attributes)}];\n'.encode()
    for rank, source, target, kind in edges.select("rank", "source", "target", "kind").iter_rows():
        yield f'  "r{rank}e{source}" -> "r{rank}e{target}" [kind="{kind}",{_STYLES[OpEdge(kind)]}];\n'.encode()
    yield b"}\n"


def _facts(row: dict[str, object]) -> Iterator[str]:
    """Lines of a label below the name."""
    dims = row["input_dims"]
    if dims is not None:
        yield shortened(str(dims))
    times = [f"{row['duration_ns']:,} ns"]
    if row["device_total_ns"]:
        times.append(f"device {row['device_total_ns']:,} ns")
    yield ", ".join(times)


_NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
_TYPES = {Kind.INT: "long", Kind.BOOL: "boolean", Kind.FLOAT: "double"}


class GraphmlForm(Struct, frozen=True):
    """Attributes of nodes and edges in a file.

    Args:
        name: of the graph.
        node_columns: each is a `data` element of a node, nulls are none.
        edge_columns: likewise of an edge.
    """

    name: str
    node_columns: Sequence[Column]
    edge_columns: Sequence[Column]


_Row = Mapping[str, object]


def graphml_document(
    form: GraphmlForm, nodes: Iterable[tuple[str, _Row]], edges: Iterable[tuple[str, str, _Row]]
) -> Iterator[bytes]:
    """The file, line by line."""
    yield f'<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="{_NAMESPACE}">\n'.encode()
    yield "".join(_keys(form)).encode()
    yield f'<graph id="{form.name}" edgedefault="directed">\n'.encode()
    for node, row in nodes:
        yield f'<node id="{node}">{_data("n", form.node_columns, row)}</node>\n'.encode()
    for source, target, row in edges:
        ends = f'source="{source}" target="{target}"'
        yield f"<edge {ends}>{_data('e', form.edge_columns, row)}</edge>\n".encode()
    yield b"</graph>\n</graphml>\n"


def _keys(form: GraphmlForm) -> Iterator[str]:
    for prefix, of, columns in (("n", "node", form.node_columns), ("e", "edge", form.edge_columns)):
        for column in columns:
            kind = _TYPES.get(column.kind, "string")
            yield (
                f'<key id="{prefix}_{column.name}" for="{of}" attr.name="{column.name}" attr.type="{kind}"/>\n'
            )


def _data(prefix: str, columns: Sequence[Column], row: _Row) -> str:
    values = ((column.name, row[column.name]) for column in columns)
    return "".join(
        f'<data key="{prefix}_{name}">{_text(value)}</data>' for name, value in values if value is not None
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else escape(legible(str(value)))


_FORM = GraphmlForm(
    "ops", OP_GRAPH_NODES.columns, (OP_GRAPH_EDGES.column("rank"), OP_GRAPH_EDGES.column("kind"))
)


def graphml_lines(nodes: pl.DataFrame, edges: pl.DataFrame) -> Iterator[bytes]:
    """The file, line by line: every column of the nodes is a `data` element, nulls are none."""
    return graphml_document(
        _FORM,
        ((f"r{row['rank']}e{row['event_id']}", row) for row in nodes.iter_rows(named=True)),
        (
            (f"r{row['rank']}e{row['source']}", f"r{row['rank']}e{row['target']}", row)
            for row in edges.iter_rows(named=True)
        ),
    )
