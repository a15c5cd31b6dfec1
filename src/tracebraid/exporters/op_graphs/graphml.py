"""A graph of ops in GraphML."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tracebraid.exporters.op_graphs.graphml_text import GraphmlForm, graphml_document
from tracebraid.model.answers import OP_GRAPH_EDGES, OP_GRAPH_NODES

__all__ = ["graphml_lines"]

_FORM = GraphmlForm(
    "ops", OP_GRAPH_NODES.columns, (OP_GRAPH_EDGES.column("rank"), OP_GRAPH_EDGES.column("kind"))
)


def graphml_lines(nodes: pl.DataFrame, edges: pl.DataFrame) -> Iterator[bytes]:
    """The file, line by line: every column of the nodes is a `data` element, nulls are none.

    Args:
        nodes: `OP_GRAPH_NODES`.
        edges: `OP_GRAPH_EDGES`.
    """
    return graphml_document(
        _FORM,
        ((f"r{row['rank']}e{row['event_id']}", row) for row in nodes.iter_rows(named=True)),
        (
            (f"r{row['rank']}e{row['source']}", f"r{row['rank']}e{row['target']}", row)
            for row in edges.iter_rows(named=True)
        ),
    )
