"""A part of Chakra's graph in DOT, the language of Graphviz: https://graphviz.org/doc/info/lang.html."""

from __future__ import annotations

from collections.abc import Iterator

from tracebraid.exporters.chakra_graphs.captions import captions
from tracebraid.exporters.chakra_graphs.colours import MISSING, colours_of
from tracebraid.exporters.op_graphs.dot import label, quoted, shortened
from tracebraid.model.chakra.part import ChakraPart, DependencyKind

__all__ = ["dot_lines"]

_STYLES = {DependencyKind.DATA: "", DependencyKind.CONTROL: 'arrowhead="tee",style="dashed"'}
_ATTRIBUTES = (
    "type",
    "duration_micros",
    "comm_type",
    "comm_size",
    "pg_name",
    "step",
    "module",
    "stream",
    "thread",
)


def dot_lines(part: ChakraPart) -> Iterator[bytes]:
    """The file, line by line; what a node waits for and the file does not have is dashed.

    Args:
        part: what is written.
    """
    yield b'digraph chakra {\n  graph [rankdir="TB"];\n'
    yield b'  node [fontname="sans-serif",fontsize="10",shape="box",style="filled"];\n'
    for row in part.nodes.iter_rows(named=True):
        colours = colours_of(row["type"])
        attributes = [
            f"label={label(shortened(row['name'] or ''), ', '.join(captions(row)))}",
            f'fillcolor="{colours.fill}",color="{colours.line}"',
            f"name={quoted(row['name'] or '')}",
            *(f"{key}={quoted(str(row[key]))}" for key in _ATTRIBUTES if row[key] is not None),
        ]
        yield f'  "{row["node_id"]}" [{",".join(attributes)}];\n'.encode()
    for node_id in part.missing:
        text = label(f"{node_id}: not in the file")
        yield f'  "{node_id}" [label={text},style="dashed",color="{MISSING}"];\n'.encode()
    for source, target, kind in part.edges.iter_rows():
        style = _STYLES[DependencyKind(kind)]
        kept = f",{style}" if style else ""
        yield f'  "{source}" -> "{target}" [kind="{kind}"{kept}];\n'.encode()
    yield b"}\n"
