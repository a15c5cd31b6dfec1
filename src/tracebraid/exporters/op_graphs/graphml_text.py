"""The text of GraphML files: http://graphml.graphdrawing.org/specification.html."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from tracebraid.exporters.op_graphs.legible import legible
from tracebraid.model.column import Column, Kind

__all__ = ["GraphmlForm", "graphml_document"]

_NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
_TYPES = {Kind.INT: "long", Kind.BOOL: "boolean", Kind.FLOAT: "double"}


@dataclass(frozen=True)
class GraphmlForm:
    """What a file says of nodes and edges.

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
    """The file, line by line.

    Args:
        form: what it says.
        nodes: id and values of each.
        edges: source, target and values of each.
    """
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
