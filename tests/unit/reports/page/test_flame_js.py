"""The tree of a flame graph in the page: the same totals as the table's, whatever is hidden, sought or zoomed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.deno import evaluated

ROWS = [
    (None, "step", "annotation", 10),
    (None, "other", "op", 25),
    (0, "train.py(3): f", "python", 4),
    (0, "aten::mm", "op", 20),
    (2, "aten::mm", "op", 30),
    (2, "(3 smaller)", "smaller", 50),
    (4, "cudaLaunchKernel", "call", 7),
]
SCRIPT = """
import { boxesOf, neighbour, search, treeOf, without } from "tracebraid/flame/tree.js";
const columns = Object.fromEntries(Object.entries(input).map(([name, values]) =>
  [name, values.map((value) => value === null ? NaN : value)]));
const tree = treeOf({ rows: input.name.length, columns });
const hidden = without(tree, "python");
const rowsOf = (tree) => tree.names.map((name, at) => [name, tree.parent[at], tree.self[at], tree.total[at]]);
output = {
  tree: rowsOf(tree),
  hidden: rowsOf(hidden),
  start: Array.from(tree.start),
  inside: tree.inside,
  found: { ...search(tree, "ATEN"), matches: undefined },
  nothing: search(tree, "").frames,
  boxes: boxesOf(tree, 0, 1460, 1),
  zoomed: boxesOf(tree, 3, 900, 1),
  narrow: boxesOf(tree, 0, 146, 8).map((box) => box.frame),
  keys: ["ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight", "Home", "x"].map((key) => neighbour(tree, 3, key)),
  ends: ["ArrowUp", "ArrowLeft", "ArrowRight"].map((key) => neighbour(tree, 0, key)),
};
"""


@pytest.fixture(scope="module")
def found() -> Any:
    columns = {
        "parent": [parent for parent, *_ in ROWS],
        "name": [name for _, name, *_ in ROWS],
        "kind": [kind for _, _, kind, _ in ROWS],
        "self_ns": [own for *_, own in ROWS],
        "count": [1] * len(ROWS),
    }
    return evaluated(SCRIPT, columns)


def test_totals_are_of_all_that_is_inside(found: Any) -> None:
    totals = {(name, parent): total for name, parent, _, total in found["tree"]}
    assert totals["all", -1] == sum(own for *_, own in ROWS) == 146
    assert totals["step", 0] == 121
    assert totals["train.py(3): f", 1] == 91


def test_children_stand_side_by_side_the_smaller_ones_last(found: Any) -> None:
    assert found["inside"][0] == [1, 2]
    assert found["inside"][3] == [5, 6]
    assert found["start"][2] == 121
    assert found["start"][6] == found["start"][5] + 37


def test_hidden_functions_leave_their_time_to_what_is_around_them(found: Any) -> None:
    by_name = {name: (parent, own, total) for name, parent, own, total in found["hidden"]}
    assert "train.py(3): f" not in by_name
    assert by_name["step"] == (0, 14, 121)
    assert by_name["aten::mm"] == (1, 50, 57)
    assert by_name["all"][2] == 146


def test_a_match_in_a_match_counts_once(found: Any) -> None:
    assert found["found"] == {"frames": 2, "time": 57}
    assert found["nothing"] == 0


def test_boxes_are_as_wide_as_their_time(found: Any) -> None:
    boxes = {box["frame"]: box for box in found["boxes"]}
    assert len(boxes) == len(ROWS) + 1
    assert boxes[1] == {"frame": 1, "row": 1, "left": 0, "width": 1210}
    assert boxes[2]["left"] == 1210
    zoomed = {box["frame"]: box for box in found["zoomed"]}
    assert [zoomed[frame]["width"] for frame in (0, 1, 3)] == [900] * 3
    assert zoomed[6]["width"] == pytest.approx(900 * 50 / 91)
    assert 2 not in zoomed
    assert 7 not in found["narrow"]


def test_keys_lead_to_neighbours(found: Any) -> None:
    assert found["keys"] == [5, 1, 3, 4, 0, 3]
    assert found["ends"] == [0, 0, 0]
