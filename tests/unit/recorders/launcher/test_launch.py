"""A command that is run again into a folder leaves nothing of the earlier capture there, if it captured anything."""

from __future__ import annotations

import ast
import json
import os
import sys
from pathlib import Path

import pytest

import tracebraid
from tracebraid.model.capture_outcome import CaptureOutcome, NothingCaptured, ProcessNote
from tracebraid.recorders.launcher.launch import cause_of, launch
from tracebraid.recorders.launcher.notes import NOTES_VARIABLE, read_notes, write_note
from tracebraid.recorders.session.schedule import Schedule
from tracebraid.recorders.session.settings import Settings
from tracebraid.reports.capture import nothing_text

MANIFEST = json.dumps({"windows": [{"files": [{"path": "torch_et_0.json.gz"}]}]})
WRITES = f"open('manifest_0.json', 'w').write({MANIFEST!r})"
EARLIER = [
    "manifest_0.json",
    "manifest_1.json",
    "torch_et_1.json.gz",
    "kineto_trace_1.json.gz",
    "window_0/torch_et_0.json.gz",
    "process_1/manifest_0.json",
    "process_1/window_0/torch_et_0.json.gz",
]
OTHERS = ["notes.txt", "window_1/notes.txt", "other/torch_et_0.json.gz"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An earlier capture of two ranks and a window, and files of others, a minute old."""
    for name in (*EARLIER, *OTHERS):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text("{}")
        os.utime(path, (path.stat().st_mtime - 60,) * 2)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def left_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.full
def test_files_of_the_earlier_capture_are_removed_and_no_others(folder: Path) -> None:
    outcome = launch([sys.executable, "-c", WRITES], Settings(str(folder), Schedule(), overwrite=True))
    assert outcome.nothing is None
    assert left_in(folder) == {"manifest_0.json", *OTHERS}
    assert not (folder / "window_0").exists()
    assert not (folder / "process_1").exists()


@pytest.mark.full
def test_a_command_that_captured_nothing_leaves_the_earlier_capture(folder: Path) -> None:
    outcome = launch([sys.executable, "-c", "pass"], Settings(str(folder), Schedule(), overwrite=True))
    assert outcome.nothing is not None
    assert left_in(folder) == {*EARLIER, *OTHERS}


# --- Why nothing was captured, from what processes left ----------------------------------------------


PYTHON = ["python", "train.py"]
LOOP = {
    "counted_by": "optimizer",
    "name": "SGD",
    "training": True,
    "steps": 5,
    "followed": True,
    "longest": 5,
    "objects": 1,
    "threads": 1,
    "steps_elsewhere": 0,
}
STEPPED = [LOOP]
ON_THREADS = [{**LOOP, "steps": 1, "longest": 1, "threads": 60, "steps_elsewhere": 59}]
ONE_CALL_EACH = [{**LOOP, "steps": 60, "longest": 1, "objects": 60}]


@pytest.mark.parametrize(
    ("notes", "cause"),
    [
        ([], NothingCaptured.NO_PYTHON),
        ([ProcessNote(1, "python")], NothingCaptured.NO_TORCH),
        (
            [ProcessNote(1, "python"), ProcessNote(2, "failed", "no tracebraid")],
            NothingCaptured.NOT_INSTALLED,
        ),
        ([ProcessNote(1, "watching")], NothingCaptured.KILLED),
        ([ProcessNote(1, "recording", loops=STEPPED)], NothingCaptured.KILLED),
        ([ProcessNote(1, "ended")], NothingCaptured.NO_STEPS),
        ([ProcessNote(1, "ended", optimizers_made=1)], NothingCaptured.OPTIMIZER_UNSEEN),
        ([ProcessNote(1, "ended", optimizers_made=1, compiled=True)], NothingCaptured.OPTIMIZER_COMPILED),
        ([ProcessNote(1, "ended"), ProcessNote(2, "ended", loops=STEPPED)], NothingCaptured.TOO_FEW_STEPS),
        ([ProcessNote(1, "ended", loops=ON_THREADS)], NothingCaptured.OTHER_THREADS),
        ([ProcessNote(1, "ended", loops=ONE_CALL_EACH)], NothingCaptured.SHORT_LOOPS),
        ([ProcessNote(1, "ended", loops=STEPPED, exception="ValueError")], NothingCaptured.EXCEPTION),
        ([ProcessNote(1, "ended", own_capture=True, loops=STEPPED)], NothingCaptured.OWN_CAPTURE),
        ([ProcessNote(1, "ended", lost="disk", loops=STEPPED)], NothingCaptured.WINDOW_LOST),
        ([ProcessNote(1, "ended", problem="there already", loops=STEPPED)], NothingCaptured.REFUSED),
    ],
    ids=str,
)
def test_the_process_that_came_furthest_tells(notes: list[ProcessNote], cause: NothingCaptured) -> None:
    assert cause_of(notes, PYTHON)[0] is cause


@pytest.mark.parametrize(
    ("loops", "said", "more_steps_help"),
    [
        (STEPPED, "5 steps of SGD", True),
        ([{**LOOP, "steps": 1, "longest": 1}], "1 step of SGD", True),
        (ON_THREADS, "60 steps of SGD on 60 threads", False),
        (ONE_CALL_EACH, "60 objects of SGD took 1 step each", False),
    ],
    ids=["few", "one", "threads", "short loops"],
)
def test_more_steps_are_advised_where_they_help(
    loops: list[dict[str, object]], said: str, more_steps_help: bool
) -> None:
    cause, detail = cause_of([ProcessNote(1, "ended", loops=loops)], PYTHON)
    what, advice = nothing_text(CaptureOutcome(0, "traces", cause, detail))
    assert said in what
    assert ("ore steps" in advice) == more_steps_help


@pytest.mark.parametrize(
    ("command", "cause"),
    [
        (["python3.11", "-I", "train.py"], NothingCaptured.PYTHON_OPTIONS),
        (["/usr/bin/python", "-u", "-sE", "-c", "1"], NothingCaptured.PYTHON_OPTIONS),
        (["sh", "-c", "python -S train.py"], NothingCaptured.PYTHON_OPTIONS),
        (["env", "PYTHONPATH=src", "python", "train.py"], NothingCaptured.PATH_REPLACED),
        (["env", "-i", "python", "train.py"], NothingCaptured.PATH_REPLACED),
        (["sh", "-c", "PYTHONPATH=. python train.py"], NothingCaptured.PATH_REPLACED),
        (["python", "train.py", "-I"], NothingCaptured.NO_PYTHON),
        (["python", "-W", "ignore", "train.py"], NothingCaptured.NO_PYTHON),
        (["true"], NothingCaptured.NO_PYTHON),
    ],
    ids=str,
)
def test_without_a_note_the_command_may_tell(command: list[str], cause: NothingCaptured) -> None:
    assert cause_of([], command)[0] is cause


def test_a_shell_script_that_replaces_the_path_tells(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/sh\nexport PYTHONPATH=src\npython train.py\n")
    assert cause_of([ProcessNote(1, "python")], [str(script)]) == (
        NothingCaptured.PATH_REPLACED,
        str(script),
    )


def test_notes_are_read_back_and_what_is_no_note_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NOTES_VARIABLE, str(tmp_path))
    write_note("watching")
    write_note("ended", loops=STEPPED, optimizers_made=1)
    (tmp_path / "7.python").touch()
    (tmp_path / "8.failed").write_text("no tracebraid")
    (tmp_path / "9.json").write_text("half of a no")
    (tmp_path / "10.part").touch()
    (tmp_path / "else.txt").touch()
    mine, *others = sorted(read_notes(tmp_path), key=lambda note: note.stage != "ended")
    assert (mine.stage, mine.loops, mine.optimizers_made) == ("ended", STEPPED, 1)
    assert sorted((note.pid, note.stage, note.problem) for note in others) == [
        (7, "python", ""),
        (8, "failed", "no tracebraid"),
        (9, "python", ""),
    ]


def test_a_folder_of_notes_that_is_gone_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NOTES_VARIABLE, str(tmp_path / "gone"))
    write_note("watching")
    monkeypatch.delenv(NOTES_VARIABLE)
    write_note("watching")
    assert list(tmp_path.iterdir()) == []


# --- The injected file runs in each Python that there is: none must stumble over its syntax ----------


INJECTED = Path(tracebraid.__file__).parent / "recorders" / "launcher" / "inject" / "sitecustomize.py"
AFTER_PYTHON_2 = (
    *(
        ast.AnnAssign,
        ast.JoinedStr,
        ast.Nonlocal,
        ast.Starred,
        ast.NamedExpr,
        ast.Await,
        ast.AsyncFunctionDef,
    ),
    *(ast.YieldFrom, ast.MatMult, ast.Match),
)


def test_it_is_alone_in_its_folder() -> None:
    """Each other file there would be a module that every program sees at its start."""
    names = {path.name for path in INJECTED.parent.iterdir()} - {"__pycache__", "sitecustomize.pyc"}
    assert names == {"sitecustomize.py"}


def test_an_old_python_3_can_read_it() -> None:
    ast.parse(INJECTED.read_text(), feature_version=(3, 4))


def test_python_2_can_read_it() -> None:
    text = INJECTED.read_text()
    assert text.isascii()
    for item in ast.walk(ast.parse(text)):
        assert not isinstance(item, AFTER_PYTHON_2)
        if isinstance(item, ast.FunctionDef):
            given = [*item.args.args, item.args.vararg, item.args.kwarg]
            assert [one for one in given if one is not None and one.annotation is not None] == []
            assert (item.returns, item.args.kwonlyargs, item.args.posonlyargs) == (None, [], [])
        if isinstance(item, ast.Raise):
            assert item.cause is None
        if isinstance(item, ast.ImportFrom):
            assert item.module != "__future__"


def test_it_imports_nothing_but_what_every_python_has_loaded() -> None:
    imports = [item for item in ast.walk(ast.parse(INJECTED.read_text())) if isinstance(item, ast.Import)]
    assert {alias.name for item in imports for alias in item.names} == {"os", "sys"}
