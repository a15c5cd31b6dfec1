"""Graphs of ops as DOT and GraphML, read back."""

from __future__ import annotations

import re
import shutil
import subprocess
from xml.etree import ElementTree as ET

import polars as pl
import pytest

from tracebraid.exporters.op_graphs.dot import dot_lines, label, quoted
from tracebraid.exporters.op_graphs.graphml import graphml_lines
from tracebraid.exporters.op_graphs.legible import legible
from tracebraid.model.answers import OP_GRAPH_EDGES, OP_GRAPH_NODES, OpEdge, OpNode

HOSTILE = [
    'quote" and \\" and back\\slash\\',
    "new\nline\r\ttab",
    "</data><node id='x'/>&amp;&lt;",
    "\x00\x01\x1b[31m\x7f\x9f",
    "\u202ertl 🙂 é ￾",
    "x" * 10_000,
    "<b>no html</b>",
    "]]>",
    "\\N \\G \\n",
    "",
]
TOKEN = re.compile(r'\s*("(?:\\.|[^"\\])*"|->|[A-Za-z_][A-Za-z_0-9]*|[{}\[\];=,])', re.DOTALL)
"""Tokens of DOT as its scanner takes them: in quotes two characters that begin with a backslash are taken together."""
NAMESPACE = "{http://graphml.graphdrawing.org/xmlns}"


def graph_of(names: list[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """A chain of ops of these names."""
    count = len(names)
    nodes = pl.DataFrame(
        {
            "rank": 0,
            "event_id": range(count),
            "kind": OpNode.OP.value,
            "name": names,
            "node_id": pl.Series([None, *range(1, count)], dtype=pl.Int64),
            "input_dims": "[[2, 3]]",
            "duration_ns": range(1_000, 1_000 + count),
        }
    )
    edges = pl.DataFrame(
        {"rank": 0, "source": range(count - 1), "target": range(1, count), "kind": OpEdge.DATA.value}
    )
    return OP_GRAPH_NODES.conform(nodes, fill_missing=True), OP_GRAPH_EDGES.conform(edges)


def tokens(text: str) -> list[str]:
    """All tokens; fails where something is none."""
    found, at = [], 0
    while at < len(text.rstrip()):
        match = TOKEN.match(text, at)
        assert match is not None, text[at : at + 50]
        found.append(match[1])
        at = match.end()
    return found


def unquoted(token: str) -> str:
    return re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL)


def test_dot_is_read_back_whatever_the_names_are() -> None:
    nodes, edges = graph_of(HOSTILE)
    found = tokens(b"".join(dot_lines(nodes, edges)).decode())
    names = [
        unquoted(found[at + 2]) for at, token in enumerate(found) if token == "name" and found[at + 1] == "="
    ]
    assert names == [legible(name) for name in HOSTILE]
    arrows = [(found[at - 1], found[at + 1]) for at, token in enumerate(found) if token == "->"]
    assert arrows == [(f'"r0e{number}"', f'"r0e{number + 1}"') for number in range(len(HOSTILE) - 1)]
    assert found.count("{") == found.count("}") == 1
    assert (found[0], found[-1]) == ("digraph", "}")


def test_graphml_is_read_back_whatever_the_names_are() -> None:
    nodes, edges = graph_of(HOSTILE)
    root = ET.fromstring(b"".join(graphml_lines(nodes, edges)))
    keys = {key.get("id"): (key.get("for"), key.get("attr.name")) for key in root.iter(f"{NAMESPACE}key")}
    found = []
    for node in root.iter(f"{NAMESPACE}node"):
        data = {}
        for entry in node.iter(f"{NAMESPACE}data"):
            of, name = keys[entry.get("key")]
            assert of == "node"
            data[name] = entry.text or ""
        found.append(data)
    assert [data["name"] for data in found] == [legible(name) for name in HOSTILE]
    assert "node_id" not in found[0]
    assert [int(data["duration_ns"]) for data in found] == nodes.get_column("duration_ns").to_list()
    ends = [(edge.get("source"), edge.get("target")) for edge in root.iter(f"{NAMESPACE}edge")]
    assert ends == [(f"r0e{number}", f"r0e{number + 1}") for number in range(len(HOSTILE) - 1)]
    assert all(key.get("attr.type") in {"long", "string"} for key in root.iter(f"{NAMESPACE}key"))


@pytest.mark.parametrize("name", HOSTILE)
def test_quotes_end_where_the_text_ends(name: str) -> None:
    for token in (quoted(name), label(name, name)):
        assert tokens(token) == [token]


def test_a_label_shows_entities_and_escapes_as_text() -> None:
    assert label("&lt; \\n", "b") == '"&amp;lt; \\\\n\\nb"'


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs Graphviz")
def test_graphviz_reads_it() -> None:
    text = b"".join(dot_lines(*graph_of(HOSTILE)))
    subprocess.run(["dot", "-Tcanon"], input=text, check=True, capture_output=True)
