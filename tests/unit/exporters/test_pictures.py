"""Flames, graphs of ops and of Chakra nodes, and a critical path over a trace."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from collections import defaultdict
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import polars as pl
import pytest
from msgspec.structs import replace

import tracebraid
from tests.builders import Json
from tests.planted import Cause, PlannedJob
from tests.planted.chakra_rank import FIRST_ID, MISSING, NAMES, made_rank
from tests.planted.synthetic import small_jobs
from tracebraid.chakra import PartChoice
from tracebraid.chakra.generating.generate import generated_ranks
from tracebraid.chakra.graphs import dot_lines, graphml_lines, layout_of, svg_lines
from tracebraid.chakra.part import ChakraPart, chosen_part
from tracebraid.errors import OutputError
from tracebraid.exporters.flames import (
    FrameNames,
    collapsed_lines,
    escaped,
    speedscope_end,
    speedscope_profile,
    speedscope_start,
)
from tracebraid.exporters.op_graphs import dot_lines as op_dot_lines
from tracebraid.exporters.op_graphs import graphml_lines as op_graphml_lines
from tracebraid.exporters.op_graphs import label, legible, quoted
from tracebraid.exporters.path_overlay import overlay_chunks
from tracebraid.model.answers.ops import FLAME_FRAMES, OP_GRAPH_EDGES, OP_GRAPH_NODES, OpEdge, OpNode
from tracebraid.model.graph import CriticalPath

HOSTILE = [
    "a;b",
    "new\nline\r\n",
    "</script><script>",
    "100%3B",
    "quote\" ' back\\slash",
    "\x00\x1b[31m\x7f\x85\u2028",
    "\u202ertl 🙂 é",
    "x" * 10_000,
    "ends with 12",
    " ",
]


def frames_of(rows: list[tuple[int | None, str, int]]) -> pl.DataFrame:
    """A tree: parent, name and self time of each frame, parents first, in the order of depth."""
    depth: list[int] = []
    total = [own for _, _, own in rows]
    for parent, _, _ in rows:
        depth.append(0 if parent is None else depth[parent] + 1)
    for number in range(len(rows) - 1, -1, -1):
        parent = rows[number][0]
        if parent is not None:
            total[parent] += total[number]
    return FLAME_FRAMES.conform(
        pl.DataFrame(
            {
                "rank": 0,
                "tree": "host",
                "frame": range(len(rows)),
                "parent": [parent for parent, _, _ in rows],
                "name": [name for _, name, _ in rows],
                "kind": "op",
                "depth": depth,
                "count": 1,
                "self_ns": [own for _, _, own in rows],
                "total_ns": total,
            }
        )
    )


TREE = frames_of([(None, "a", 5), (None, "b", 0), (0, "c", 7), (0, "b", 1), (1, "c", 2**52), (3, "a", 3)])
STACKS = {("a",): 5, ("a", "c"): 7, ("a", "b"): 1, ("a", "b", "a"): 3, ("b", "c"): 2**52}


def own_times(profile: dict[str, Any], names: list[str]) -> dict[tuple[str, ...], int]:
    """Self times by stack of an evented profile; its events must be in order and balanced."""
    times: dict[tuple[str, ...], int] = defaultdict(int)
    stack: list[int] = []
    at = profile["startValue"]
    for event in profile["events"]:
        assert event["at"] >= at
        times[tuple(names[frame] for frame in stack)] += event["at"] - at
        at = event["at"]
        if event["type"] == "O":
            stack.append(event["frame"])
        else:
            assert event["type"] == "C"
            assert stack.pop() == event["frame"]
    assert not stack
    assert at <= profile["endValue"]
    return {path: time for path, time in times.items() if time}


def speedscope(*trees: pl.DataFrame) -> dict[str, Any]:
    shared = FrameNames()
    chunks = [speedscope_start("title")]
    for number, tree in enumerate(trees):
        chunks += [b","] if number else []
        chunks += speedscope_profile(tree, f"profile {number}", shared)
    found: dict[str, Any] = json.loads(b"".join([*chunks, *speedscope_end(shared)]))
    return found


def test_a_profile_of_speedscope_has_the_self_time_of_each_stack() -> None:
    found = speedscope(TREE, TREE[:1])
    names = [frame["name"] for frame in found["shared"]["frames"]]
    assert len(set(names)) == len(names)
    assert own_times(found["profiles"][0], names) == STACKS
    assert found["profiles"][0]["endValue"] == sum(STACKS.values())
    assert [profile["name"] for profile in found["profiles"]] == ["profile 0", "profile 1"]


def test_a_file_of_speedscope_has_the_members_that_its_schema_demands() -> None:
    found = speedscope(TREE)
    assert found["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert all(set(frame) <= {"name", "file", "line", "col"} for frame in found["shared"]["frames"])
    for profile in found["profiles"]:
        assert set(profile) == {"type", "name", "unit", "startValue", "endValue", "events"}
        assert profile["type"] == "evented"
        assert profile["unit"] == "nanoseconds"
        assert all(set(event) == {"type", "frame", "at"} for event in profile["events"])
        assert all(0 <= event["frame"] < len(found["shared"]["frames"]) for event in profile["events"])


def test_a_line_of_collapsed_stacks_is_a_stack_and_its_self_time() -> None:
    lines = b"".join(collapsed_lines(TREE, ("rank 0", "host time"))).decode().splitlines()
    found = {}
    for line in lines:
        stack, _, own = line.rpartition(" ")
        first, second, *names = stack.split(";")
        assert (first, second) == ("rank 0", "host time")
        found[tuple(names)] = int(own)
    assert found == STACKS


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_is_one_frame_and_can_be_read_back(name: str) -> None:
    assert unquote(escaped(name)) == name
    tree = frames_of([(None, name, 4), (0, "in it", 6)])
    lines = b"".join(collapsed_lines(tree, ())).decode().splitlines()
    assert [[unquote(part) for part in line.rpartition(" ")[0].split(";")] for line in lines] == [
        [name],
        [name, "in it"],
    ]
    found = speedscope(tree)
    assert own_times(found["profiles"][0], [frame["name"] for frame in found["shared"]["frames"]]) == {
        (name,): 4,
        (name, "in it"): 6,
    }


HOSTILE_NAMES = [
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
    nodes, edges = graph_of(HOSTILE_NAMES)
    found = tokens(b"".join(op_dot_lines(nodes, edges)).decode())
    names = [
        unquoted(found[at + 2]) for at, token in enumerate(found) if token == "name" and found[at + 1] == "="
    ]
    assert names == [legible(name) for name in HOSTILE_NAMES]
    arrows = [(found[at - 1], found[at + 1]) for at, token in enumerate(found) if token == "->"]
    assert arrows == [(f'"r0e{number}"', f'"r0e{number + 1}"') for number in range(len(HOSTILE_NAMES) - 1)]
    assert found.count("{") == found.count("}") == 1
    assert (found[0], found[-1]) == ("digraph", "}")


def test_graphml_is_read_back_whatever_the_names_are() -> None:
    nodes, edges = graph_of(HOSTILE_NAMES)
    root = ET.fromstring(b"".join(op_graphml_lines(nodes, edges)))
    keys = {key.get("id"): (key.get("for"), key.get("attr.name")) for key in root.iter(f"{NAMESPACE}key")}
    found = []
    for node in root.iter(f"{NAMESPACE}node"):
        data = {}
        for entry in node.iter(f"{NAMESPACE}data"):
            of, name = keys[entry.get("key")]
            assert of == "node"
            data[name] = entry.text or ""
        found.append(data)
    assert [data["name"] for data in found] == [legible(name) for name in HOSTILE_NAMES]
    assert "node_id" not in found[0]
    assert [int(data["duration_ns"]) for data in found] == nodes.get_column("duration_ns").to_list()
    ends = [(edge.get("source"), edge.get("target")) for edge in root.iter(f"{NAMESPACE}edge")]
    assert ends == [(f"r0e{number}", f"r0e{number + 1}") for number in range(len(HOSTILE_NAMES) - 1)]
    assert all(key.get("attr.type") in {"long", "string"} for key in root.iter(f"{NAMESPACE}key"))


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_quotes_end_where_the_text_ends(name: str) -> None:
    for token in (quoted(name), label(name, name)):
        assert tokens(token) == [token]


def test_a_label_shows_entities_and_escapes_as_text() -> None:
    assert label("&lt; \\n", "b") == '"&amp;lt; \\\\n\\nb"'


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs Graphviz")
def test_graphviz_reads_it() -> None:
    text = b"".join(op_dot_lines(*graph_of(HOSTILE_NAMES)))
    subprocess.run(["dot", "-Tcanon"], input=text, check=True, capture_output=True)


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


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> CriticalPath:
    job = PlannedJob(2)
    for number in (1, 2):
        with job.step(number):
            job.compute(100_000)
            job.delay(number % 2, Cause.KERNEL, 400_000)
            job.collective("allreduce")
    folder = job.write(tmp_path_factory.mktemp("job"))
    return tracebraid.critical_path(tracebraid.open(folder), replays=5)


@pytest.fixture(scope="module")
def overlay(path: CriticalPath) -> Json:
    return json.loads(b"".join(overlay_chunks(path)))


def of_phase(overlay: Json, phase: str) -> list[Json]:
    return [event for event in overlay["traceEvents"] if event["ph"] == phase]


@pytest.mark.full
def test_each_segment_is_an_event_at_its_time(path: CriticalPath, overlay: Json) -> None:
    events = of_phase(overlay, "X")
    base = overlay["baseTimeNanoseconds"]
    times = [(base + round(1000 * event["ts"]), round(1000 * event["dur"])) for event in events]
    assert times == path.segments.select("start_ns", "duration_ns").rows()
    assert [event["args"]["order"] for event in events] == path.segments["order"].to_list()


def test_an_arrow_leads_from_each_segment_to_the_next_of_its_step(path: CriticalPath, overlay: Json) -> None:
    starts, ends = of_phase(overlay, "s"), of_phase(overlay, "f")
    assert len(starts) == len(ends) == path.segments.height - path.steps.height > 0
    assert [event["id"] for event in starts] == [event["id"] for event in ends]
    assert len({event["id"] for event in starts}) == len(starts)
    at = {(event["pid"], event["tid"], event["ts"]) for event in of_phase(overlay, "X")}
    for event in (*starts, *ends):
        assert (event["pid"], event["tid"], event["ts"]) in at


def test_events_of_a_lane_do_not_overlap_and_every_lane_has_a_name(overlay: Json) -> None:
    lanes = defaultdict(list)
    for event in of_phase(overlay, "X"):
        lanes[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in lanes.values():
        spans.sort()
        assert all(end <= begin + 1e-6 for (_, end), (begin, _) in pairwise(spans))
    named = [event for event in of_phase(overlay, "M") if event["name"] == "thread_name"]
    assert {(event["pid"], event["tid"]) for event in named} == set(lanes)
    assert {pid for pid, _ in lanes} == {0, 1}


def test_equal_paths_give_equal_bytes_and_no_file_is_replaced(path: CriticalPath, tmp_path: Path) -> None:
    first, second = tmp_path / "a.json.gz", tmp_path / "b.json.gz"
    tracebraid.write_path_overlay(path, first)
    tracebraid.write_path_overlay(path, second)
    assert first.read_bytes() == second.read_bytes()
    assert gzip.decompress(first.read_bytes()) == b"".join(overlay_chunks(path))
    with pytest.raises(OutputError):
        tracebraid.write_path_overlay(path, first)
    assert tracebraid.read_timeline(first).events.height == path.segments.height


def test_a_path_of_nothing_is_well_formed(path: CriticalPath) -> None:
    empty = replace(path, segments=path.segments.clear(), steps=path.steps.clear())
    assert json.loads(b"".join(overlay_chunks(empty)))["traceEvents"] == []
