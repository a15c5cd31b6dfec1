"""What PyTorch's recorder left behind becomes a whole Execution Trace, wherever it was cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tracebraid.model.execution_trace import MISSING_PARENT
from tracebraid.recorders.postprocess.escape_names import apply_edits
from tracebraid.recorders.postprocess.finish_et import repair_execution_trace

PROCESS, THREAD = "[pytorch|profiler|execution_trace|process]", "[pytorch|profiler|execution_trace|thread]"


def node(node_id: int, name: str, parent: int, tid: int = 1) -> str:
    """A node as PyTorch prints it."""
    side = '{"values": [], "shapes": [], "types": [], "strides": []}'
    attrs = f'{{"name": "rf_id", "type": "uint64", "value": 3}},{{"name": "tid", "type": "uint64", "value": {tid}}}'
    return (
        f'      {{\n        "id": {node_id}, "name": "{name}", "ctrl_deps": {parent},\n        "inputs": {side},\n'
        f'        "outputs": {side},\n        "attrs": [{attrs}]\n      }}'
    )


def trace(*nodes: str) -> bytes:
    head = '{\n  "schema": "1.1.1-chakra.0.0.4", "pid": 7, "start_ts": 5,\n  "nodes": [\n'
    return (head + ",\n".join(nodes) + '\n  ],\n  "finish_ts": 9\n}\n').encode()


WHOLE = trace(
    node(2, THREAD, 1), node(4, "aten::b", 3), node(3, "aten::a", 2), node(5, THREAD, 1, tid=2),
    node(6, "aten::c", 5, tid=2), node(1, PROCESS, 1, tid=0),
)  # fmt: skip
LOOSE = trace(
    node(2, THREAD, 1), node(4, "aten::b", 3), node(5, THREAD, 1, tid=2), node(7, "aten::c", 6, tid=2),
    node(9, "aten::d", 8, tid=3), node(10, "aten::e", 9, tid=3), node(1, PROCESS, 1, tid=0),
)  # fmt: skip


def mended(text: bytes) -> tuple[list[dict[str, Any]], list[str]]:
    edits, findings = repair_execution_trace(text)
    nodes: list[dict[str, Any]] = json.loads(b"".join(apply_edits(text, edits)))["nodes"]
    return nodes, [one.code for one in findings]


def test_a_whole_file_is_left_as_it_is() -> None:
    assert repair_execution_trace(WHOLE) == ([], [])


def test_nodes_whose_parent_is_not_there_hang_under_their_thread_and_say_so() -> None:
    nodes, codes = mended(LOOSE)
    assert codes == ["parent-never-written"]
    parents = {one["name"]: one["ctrl_deps"] for one in nodes if one["name"].startswith("aten")}
    # Thread 3 has no root: the process is nearest.
    assert parents == {"aten::b": 2, "aten::c": 5, "aten::d": 1, "aten::e": 9}
    marks = {one["name"]: a["value"] for one in nodes for a in one["attrs"] if a["name"] == MISSING_PARENT}
    assert marks == {"aten::b": 3, "aten::c": 6, "aten::d": 8}


def test_the_finding_counts_nodes_and_operators() -> None:
    _, (finding,) = repair_execution_trace(LOOSE)
    assert (finding.count, finding.where) == (3, "nodes 4, 7, 9")
    assert "under 3 operators that were never written" in finding.message


@pytest.mark.parametrize("text", [WHOLE, LOOSE])
def test_a_file_cut_at_any_byte_becomes_whole_with_all_nodes_before_the_cut(text: bytes) -> None:
    ends = [at + len("\n      }") for at in range(len(text)) if text.startswith(b"\n      }", at)]
    for cut in range(len(text)):
        edits, findings = repair_execution_trace(text[:cut])
        codes = [one.code for one in findings]
        whole = sum(end <= cut for end in ends)
        if not whole:
            assert codes == ["execution-trace-empty"]
            continue
        nodes = json.loads(b"".join(apply_edits(text[:cut], edits)))["nodes"]
        assert len(nodes) == whole + (whole < len(ends))
        assert {one["ctrl_deps"] for one in nodes} <= {one["id"] for one in nodes}
        assert [one["id"] for one in nodes].count(1) == 1
        assert ("execution-trace-unfinished" in codes) == (cut < len(text.rstrip()))


def test_odd_names_loose_nodes_and_a_missing_end_are_mended_together() -> None:
    text = trace(node(2, THREAD, 1), node(4, 'a "b"', 3), node(6, "c\\", 5))
    nodes, codes = mended(text[: text.index(b'],\n  "finish_ts"')])
    assert codes == ["name-escaped", "execution-trace-unfinished", "parent-never-written"]
    assert [one["name"] for one in nodes] == [THREAD, 'a "b"', "c\\", PROCESS]
    assert [one["ctrl_deps"] for one in nodes] == [1, 2, 2, 1]
