"""A part of Chakra's graph in GraphML."""

from __future__ import annotations

from collections.abc import Iterator

from tracebraid.exporters.op_graphs.graphml_text import GraphmlForm, graphml_document
from tracebraid.model.chakra.part import CHAKRA_EDGES, ChakraPart
from tracebraid.model.column import Column, Kind
from tracebraid.model.schema.chakra import CHAKRA_NODES

__all__ = ["graphml_lines"]

_IN_FILE = Column("in_file", Kind.BOOL, "false: it is waited for, and is not there")
_FORM = GraphmlForm("chakra", (*CHAKRA_NODES.columns, _IN_FILE), (CHAKRA_EDGES.column("kind"),))


def graphml_lines(part: ChakraPart) -> Iterator[bytes]:
    """The file, line by line: every column of the nodes is a `data` element, nulls are none.

    Args:
        part: what is written.
    """
    return graphml_document(
        _FORM,
        _nodes(part),
        ((str(row["source"]), str(row["target"]), row) for row in part.edges.iter_rows(named=True)),
    )


def _nodes(part: ChakraPart) -> Iterator[tuple[str, dict[str, object]]]:
    for row in part.nodes.iter_rows(named=True):
        yield str(row["node_id"]), {**row, _IN_FILE.name: True}
    blank = dict.fromkeys(column.name for column in CHAKRA_NODES.columns)
    for node_id in part.missing:
        yield str(node_id), {**blank, "node_id": node_id, _IN_FILE.name: False}
