"""A graph of ops in DOT, the language of Graphviz: https://graphviz.org/doc/info/lang.html."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tracebraid.exporters.op_graphs.legible import legible
from tracebraid.model.answers import OpEdge, OpNode
from tracebraid.model.printable import printable

__all__ = ["dot_lines", "label", "quoted", "shortened"]

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
    """A text as an ID of DOT: in quotes, its quotes and backslashes behind a backslash.

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
    """The file, line by line.

    Args:
        nodes: `OP_GRAPH_NODES`.
        edges: `OP_GRAPH_EDGES`.
    """
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
