"""Graphs of Chakra's nodes: every node and dependency is there once, and no name is markup."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any
from xml.etree import ElementTree as ET

import polars as pl
import pytest

from tests.unit.chakra.generating.synthetic import small_jobs
from tests.unit.chakra.showing.made_rank import FIRST_ID, MISSING, NAMES, made_rank
from tracebraid.chakra.generating.generate import generated_ranks
from tracebraid.chakra.showing.part import chosen_part
from tracebraid.exporters.chakra_graphs.dot import dot_lines
from tracebraid.exporters.chakra_graphs.graphml import graphml_lines
from tracebraid.exporters.chakra_graphs.layout import layout_of
from tracebraid.exporters.chakra_graphs.svg import svg_lines
from tracebraid.model.chakra.part import ChakraPart, PartChoice

SVG = "{http://www.w3.org/2000/svg}"
GRAPHML = "{http://graphml.graphdrawing.org/xmlns}"


@pytest.fixture(scope="module")
def part() -> ChakraPart:
    return chosen_part(made_rank(), PartChoice())


def svg_of(part: ChakraPart) -> ET.Element:
    return ET.fromstring(b"".join(svg_lines(part, 'a "title" <b>')))


def test_dot_has_all_nodes_and_edges(part: ChakraPart) -> None:
    text = b"".join(dot_lines(part)).decode()
    quoted = r'"(?:[^"\\]|\\.)*"'
    statement = rf"  {quoted}(?: -> {quoted})? \[(?:\w+={quoted},?)+\];"
    lines = text.splitlines()
    assert lines[0] == "digraph chakra {"
    assert all(re.fullmatch(statement, line) for line in lines[3:-1])
    assert sum(" -> " in line for line in lines) == part.edges.height
    assert len(lines) == 4 + part.nodes.height + 1 + part.edges.height


def test_graphml_has_all_nodes_edges_and_columns(part: ChakraPart) -> None:
    root = ET.fromstring(b"".join(graphml_lines(part)))
    keys = {key.get("id"): key.get("attr.name") for key in root.iter(f"{GRAPHML}key")}
    nodes = {
        node.get("id"): {keys[data.get("key")]: data.text for data in node}
        for node in root.iter(f"{GRAPHML}node")
    }
    assert list(nodes) == [*(str(FIRST_ID + row) for row in range(11)), str(MISSING)]
    assert nodes["10"]["name"] == NAMES[0]
    assert nodes["15"]["type"] == "MEM_LOAD_NODE"
    assert nodes["15"]["in_file"] == "true"
    assert nodes[str(MISSING)] == {"node_id": str(MISSING), "in_file": "false"}
    edges = [(edge.get("source"), edge.get("target"), edge[0].text) for edge in root.iter(f"{GRAPHML}edge")]
    assert edges == [(str(source), str(target), kind) for source, target, kind in part.edges.iter_rows()]


def test_a_picture_has_all_nodes_and_edges_and_nothing_active(part: ChakraPart) -> None:
    root = svg_of(part)
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags == {"svg", "title", "defs", "marker", "path", "rect", "text", "g"}
    assert all(
        not name.startswith("on") and "href" not in name for element in root.iter() for name in element.attrib
    )
    boxes = [group for group in root.iter(f"{SVG}g") if group.find(f"{SVG}rect") is not None]
    assert len(boxes) == part.nodes.height + 1
    arrows = [
        path for path in root.iter(f"{SVG}path") if path.get("marker-end") and path.get("d", "")[0] == "M"
    ]
    assert len(arrows) == part.edges.height + 1, "and that of the legend"
    shown = " ".join("".join(element.itertext()) for element in boxes)
    assert NAMES[0] in shown
    assert "\u202e" not in shown
    assert "\x1b" not in shown


def test_what_goes_up_or_comes_from_nowhere_is_red(part: ChakraPart) -> None:
    red = [path for path in svg_of(part).iter(f"{SVG}path") if "wrong" in path.get("marker-end", "")]
    assert len(red) == 2, "the circle, and the node that is missing"


def test_boxes_do_not_overlap_and_arrows_go_down() -> None:
    for name in ("all_sharded_16", "tree-all-reduce_8"):
        for rank in generated_ranks(small_jobs()[name]):
            part = chosen_part(rank, PartChoice(step="0"))
            layout = layout_of(part)
            at = [(box.row, box.column) for box in layout.boxes.values()]
            assert len(set(at)) == len(at) == part.nodes.height
            assert max(row for row, _ in at) < layout.rows
            assert max(column for _, column in at) < layout.columns
            for source, target in part.edges.select("source", "target").iter_rows():
                assert layout.boxes[source].row < layout.boxes[target].row


def rectangles(root: ET.Element) -> list[tuple[int, int, int, int]]:
    def box(element: ET.Element) -> tuple[int, int, int, int]:
        x, y, width, height = (int(element.get(key, "0")) for key in ("x", "y", "width", "height"))
        return x, y, x + width, y + height

    return [box(found) for group in root.iter(f"{SVG}g") if (found := group.find(f"{SVG}rect")) is not None]


def test_boxes_stay_within_the_picture(part: ChakraPart) -> None:
    root = svg_of(part)
    width, height = int(root.get("width", "0")), int(root.get("height", "0"))
    boxes = rectangles(root)
    assert all(
        0 <= left < right <= width and 0 <= top < bottom <= height for left, top, right, bottom in boxes
    )
    for one, other in combinations(boxes, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def test_a_node_without_a_name_or_type_is_drawn() -> None:
    rank = made_rank()
    blank: Any = pl.lit(None)
    nodes = rank.nodes.with_columns(name=blank.cast(pl.Categorical), type=blank.cast(pl.Categorical))
    bare = chosen_part(rank, PartChoice())
    bare = ChakraPart(0, nodes, bare.edges, bare.missing, 0, nodes.height)
    assert len(rectangles(svg_of(bare))) == 12
    assert b"".join(dot_lines(bare))
    assert b"".join(graphml_lines(bare))


def test_what_a_stream_does_stands_in_a_column_in_its_order() -> None:
    rank = next(generated_ranks(small_jobs()["all_sharded_16"]))
    part = chosen_part(rank, PartChoice(name="all-reduce"))
    boxes = layout_of(part).boxes
    assert part.edges.height < part.nodes.height - 1, "these nodes are no chain by themselves"
    at = [(boxes[node_id].column, boxes[node_id].row) for node_id in part.nodes.get_column("node_id")]
    assert {column for column, _ in at} == {0}
    assert [row for _, row in at] == list(range(len(at)))
