"""What PyTorch's recorder left behind becomes a whole Execution Trace, wherever it was cut."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracebraid
from tracebraid.model.execution_trace import MISSING_PARENT
from tracebraid.recorders.postprocess.edits import (
    Edit,
    apply_edits,
    escape_names,
    first_error,
    mapped,
    merged,
    own_files,
    own_frames,
)
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
    assert "3 operators that were never written" in finding.message


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


# --- Names that PyTorch's writers do not escape become JSON, and stay the names they were ------------


QUOTES = b'"""'
NAMES = st.text(st.characters(codec="utf-8"), max_size=30)


def et(*names: str) -> bytes:
    """Nodes as PyTorch prints them, names as they are."""
    nodes = (
        f'      {{\n        "id": {number}, "name": "{name}", "ctrl_deps": 1,\n'
        '        "inputs": {"values": []}\n      }'
        for number, name in enumerate(names, start=2)
    )
    return ('{\n  "nodes": [\n' + ",\n".join(nodes) + "\n  ]\n}\n").encode()


ARROW = (
    '  {\n    "ph": "s", "id": 1, "pid": 1, "tid": 1, "ts": 1,\n    "cat": "fwdbwd", "name": "fwdbwd"\n  },\n'
)


def kineto(*names: str) -> bytes:
    """Events as Kineto prints them, names as they are, each after an arrow."""
    events = (
        f'{ARROW}  {{\n    "ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 1, "tid": 1,\n'
        '    "ts": 1, "dur": 1\n  }'
        for name in names
    )
    return ('{\n  "traceEvents": [\n' + ",\n".join(events) + "\n  ]\n}\n").encode()


def mended_names(text: bytes, kind: str, never_escaped: bool = False) -> list[str]:
    edits, _ = escape_names(text, kind, never_escaped)
    whole = json.loads(b"".join(apply_edits(text, edits)))
    return [one["name"] for one in whole["nodes" if kind == "et" else "traceEvents"] if one.get("ph") != "s"]


@given(st.lists(NAMES, min_size=1, max_size=5))
def test_any_names_of_a_writer_that_escapes_nothing_come_back(names: list[str]) -> None:
    assert mended_names(et(*names), "et", never_escaped=True) == names


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\\")), min_size=1, max_size=5))
def test_any_names_without_backslashes_come_back_from_either_writer(names: list[str]) -> None:
    assert mended_names(et(*names), "et") == names
    assert mended_names(kineto(*names), "kineto") == names


def test_a_name_that_is_escaped_already_stays() -> None:
    assert mended_names(et('a \\"b\\" \\n'), "et") == ['a "b" \n']
    assert escape_names(et('a \\"b\\" \\n'), "et") == ([], [])


def test_bytes_that_are_no_utf_8_are_written_out() -> None:
    text = et("a?b").replace(b"a?b", b"a\xffb")
    edits, findings = escape_names(text, "et")
    assert b"a\\\\xffb" in b"".join(apply_edits(text, edits))
    assert [one.count for one in findings] == [1]


def test_the_finding_counts_the_names_and_tells_the_first_place() -> None:
    text = et('"', "plain", "\x01")
    _, (finding,) = escape_names(text, "et")
    place = text.index(QUOTES) + 1
    assert (finding.code, finding.count, finding.where) == ("name-escaped", 2, f"byte {place}")


@pytest.mark.parametrize("text", [b"{}", b"[1, 2]", b'"\\u00e9"'])
def test_json_has_no_error(text: bytes) -> None:
    assert first_error(text) == ""


@pytest.mark.parametrize("text", [b"", b"{", b'{"a": "b"c"}', b"{}x"])
def test_what_is_no_json_has_a_place(text: bytes) -> None:
    assert first_error(text)


def test_edits_may_touch_each_other() -> None:
    edits = [Edit(0, 0, b"<"), Edit(1, 2, b"B"), Edit(2, 3, b""), Edit(4, 4, b">")]
    assert b"".join(apply_edits(b"abcd", edits)) == b"<aBd>"


# --- This package's own Python frames, taken out of what Kineto wrote --------------------------------


OURS = "tracebraid/recorders/session/capture.py"
EVENT = """
  {{
    "ph": "X", "cat": "{cat}", "name": "{name}", "pid": 7, "tid": 7,
    "ts": {ts}, "dur": 5.000,
    "args": {{
      {args}
    }}
  }}"""


def frame(name: str, number: int, caller: int | None, more: str = "") -> str:
    args = f'"Python parent id": {json.dumps(caller)}, {more}"Python id": {number}, "Ev Idx": 9'
    return EVENT.format(cat="python_function", name=name, ts=number, args=args)


def without_ours(*events: str) -> list[dict[str, Any]]:
    text = f'{{"traceEvents": [{",".join(events)}]}}'.encode()
    edited = b"".join(apply_edits(text, own_frames(text, [OURS.encode()])))
    found: list[dict[str, Any]] = json.loads(edited)["traceEvents"]
    return found


OP = EVENT.format(cat="cpu_op", name=f"{OURS}(3): no frame", ts=3, args='"External id": 1')
LAST = EVENT.format(cat="cpu_op", name="aten::mm", ts=30, args='"External id": 2')


def test_our_frames_go_and_nothing_else_does() -> None:
    theirs = [frame("train.py(3): train", 1, None), OP, frame(f"my/{OURS}(9): theirs", 4, 1)]
    found = without_ours(theirs[0], frame(f"{OURS}(113): step", 2, 1), *theirs[1:], LAST)
    assert found == json.loads(f"[{','.join([*theirs, LAST])}]")


def test_what_our_frames_call_hangs_under_their_caller() -> None:
    found = without_ours(
        frame("train.py(3): train", 1, None),
        frame(f"{OURS}(113): step", 2, 1),
        frame(f"{OURS}(120): _end", 3, 2),
        frame("torch/optim/adamw.py(9): step", 4, 3, '"Python module id": 5, '),
        LAST,
    )
    assert [one["args"].get("Python parent id") for one in found] == [None, 1, None]
    assert [one["name"] for one in found][1] == "torch/optim/adamw.py(9): step"


def test_without_a_caller_it_has_none() -> None:
    found = without_ours(frame(f"{OURS}(113): step", 2, None), frame("user.py(1): f", 4, 2), LAST)
    assert found[0]["args"]["Python parent id"] is None


def frame_of_214(name: str, number: int, caller: int | None, called_from: str) -> str:
    """As torch 2.14 writes frames: in another order, roots without a parent, and with the line of the call."""
    parent = [] if caller is None else [f'"Python parent id": {caller}', f'"CallFrom": "{called_from}"']
    args = ", ".join([f'"Python id": {number}', '"Ev Idx": 9', *parent])
    return EVENT.format(cat="python_function", name=name, ts=number, args=args)


def test_frames_of_torch_2_14_hang_under_their_caller_with_the_line_that_called_ours() -> None:
    found = without_ours(
        frame_of_214("train.py(3): train", 1, None, ""),
        frame_of_214(f"{OURS}(113): step", 2, 1, "train.py:7"),
        frame_of_214(f"{OURS}(120): _end", 3, 2, f"{OURS}:115"),
        frame_of_214("torch/optim/adamw.py(9): step", 4, 3, f"{OURS}:121"),
        frame_of_214("torch/nn/modules/module.py(5): __call__", 5, 1, "train.py:6"),
        LAST,
    )
    assert [(one["args"].get("Python parent id"), one["args"].get("CallFrom")) for one in found] == [
        (None, None),
        (1, "train.py:7"),
        (1, "train.py:6"),
        (None, None),
    ]


def test_a_root_of_ours_of_torch_2_14_leaves_roots() -> None:
    ours = frame_of_214(f"{OURS}(113): step", 2, None, "")
    found = without_ours(ours, frame_of_214("user.py(1): f", 4, 2, f"{OURS}:115"), LAST)
    assert (found[0]["args"]["Python parent id"], found[0]["args"]["CallFrom"]) == (None, "")


def test_the_last_event_of_a_file_stays_so_that_it_is_json() -> None:
    assert len(without_ours(LAST, frame(f"{OURS}(113): step", 2, 1))) == 2


def test_files_are_known_by_their_path_and_by_that_below_the_folders_of_imports() -> None:
    files = own_files()
    here = Path(tracebraid.__file__).parent / "recorders/session/capture.py"
    assert str(here).encode() in files
    assert OURS.encode() in files
    assert b"capture.py" not in files


def test_edits_inside_of_what_goes_are_left_out() -> None:
    removal, inside, before = Edit(5, 20, b""), Edit(7, 9, b"x"), Edit(1, 3, b"y")
    assert merged([before, inside], [removal]) == [before, removal]


def test_what_fails_while_a_trace_is_edited_is_the_error_itself(tmp_path: Path) -> None:
    """The edited text has views of the mapped file, which the traceback keeps."""
    (tmp_path / "part").write_bytes(b"text")

    def fail(edited: Iterator[memoryview | bytes]) -> None:
        raise OSError(f"{next(edited)!r}: disk full")

    with pytest.raises(OSError, match="disk full"), mapped(tmp_path / "part") as text:
        fail(apply_edits(text, []))
