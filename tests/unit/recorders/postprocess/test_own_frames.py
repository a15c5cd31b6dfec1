"""This package's own Python frames, taken out of what Kineto wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tracebraid
from tracebraid.recorders.postprocess.escape_names import Edit, apply_edits
from tracebraid.recorders.postprocess.own_frames import merged, own_files, own_frames

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
