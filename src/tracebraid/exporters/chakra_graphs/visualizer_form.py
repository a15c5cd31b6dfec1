"""Graphs as Chakra's visualizer writes them: a node is its id and its name, an edge its list of dependencies."""

from __future__ import annotations

from collections.abc import Iterator

from tracebraid.exporters.op_graphs.dot import label, quoted
from tracebraid.exporters.op_graphs.graphml_text import GraphmlForm, graphml_document
from tracebraid.model.chakra.part import ChakraPart, DependencyKind
from tracebraid.model.column import Column, Kind

__all__ = ["visualizer_dot", "visualizer_graphml"]

_ARROWS = {DependencyKind.DATA.value: "normal", DependencyKind.CONTROL.value: "tee"}
_FORM = GraphmlForm(
    "", (Column("label", Kind.TEXT, "its name"),), (Column("dependency", Kind.TEXT, "data or control"),)
)


def visualizer_dot(part: ChakraPart) -> Iterator[bytes]:
    """DOT: boxes with the names, and an arrowhead for each list of dependencies; missing nodes are bare ids.

    Args:
        part: the whole of a file.
    """
    yield b"digraph {\n"
    for node_id, name in part.nodes.select("node_id", "name").iter_rows():
        yield f'\t{node_id} [label={label(name or "")} id={quoted(str(node_id))} shape="box"]\n'.encode()
    for source, target, kind in part.edges.iter_rows():
        yield f"\t{source} -> {target} [arrowhead={_ARROWS[kind]}]\n".encode()
    yield b"}\n"


def visualizer_graphml(part: ChakraPart) -> Iterator[bytes]:
    """GraphML with the attributes `label` of nodes and `dependency` of edges; an edge of both lists is a control edge.

    Args:
        part: the whole of a file.
    """
    nodes: list[tuple[str, dict[str, object]]] = [
        (str(node_id), {"label": name or ""})
        for node_id, name in part.nodes.select("node_id", "name").iter_rows()
    ]
    nodes += [(str(node_id), {"label": None}) for node_id in part.missing]
    last = part.edges.unique(["source", "target"], keep="last", maintain_order=True)
    edges = ((str(source), str(target), {"dependency": kind}) for source, target, kind in last.iter_rows())
    return graphml_document(_FORM, nodes, edges)
