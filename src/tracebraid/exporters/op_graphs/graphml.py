"""A graph of ops in GraphML: http://graphml.graphdrawing.org/specification.html."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

import polars as pl

from tracebraid.exporters.op_graphs.legible import legible
from tracebraid.model.answers import OP_GRAPH_EDGES, OP_GRAPH_NODES
from tracebraid.model.column import Kind

__all__ = ["graphml_lines"]

_NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
_OF_EDGES = ("rank", "kind")


def graphml_lines(nodes: pl.DataFrame, edges: pl.DataFrame) -> Iterator[bytes]:
    """The file, line by line: every column of the nodes is a `data` element, nulls are none.

    Args:
        nodes: `OP_GRAPH_NODES`.
        edges: `OP_GRAPH_EDGES`.
    """
    yield f'<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="{_NAMESPACE}">\n'.encode()
    yield "".join(_keys()).encode()
    yield b'<graph id="ops" edgedefault="directed">\n'
    for row in nodes.iter_rows(named=True):
        data = "".join(_data("n", name, value) for name, value in row.items() if value is not None)
        yield f'<node id="r{row["rank"]}e{row["event_id"]}">{data}</node>\n'.encode()
    for row in edges.iter_rows(named=True):
        ends = f'source="r{row["rank"]}e{row["source"]}" target="r{row["rank"]}e{row["target"]}"'
        data = "".join(_data("e", name, row[name]) for name in _OF_EDGES)
        yield f"<edge {ends}>{data}</edge>\n".encode()
    yield b"</graph>\n</graphml>\n"


def _keys() -> Iterator[str]:
    for prefix, of, table in (("n", "node", OP_GRAPH_NODES), ("e", "edge", OP_GRAPH_EDGES)):
        for column in table.columns:
            if of == "edge" and column.name not in _OF_EDGES:
                continue
            kind = "long" if column.kind is Kind.INT else "string"
            yield (
                f'<key id="{prefix}_{column.name}" for="{of}" attr.name="{column.name}" attr.type="{kind}"/>\n'
            )


def _data(prefix: str, name: str, value: object) -> str:
    return f'<data key="{prefix}_{name}">{escape(legible(str(value)))}</data>'
