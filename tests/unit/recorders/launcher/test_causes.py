"""Why nothing was captured, from what processes left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracebraid.model.capture_outcome import NothingCaptured, ProcessNote
from tracebraid.recorders.launcher.causes import cause_of
from tracebraid.recorders.launcher.notes import NOTES_VARIABLE, read_notes, write_note

PYTHON = ["python", "train.py"]
STEPPED = [{"counted_by": "optimizer", "name": "SGD", "training": True, "steps": 5, "followed": True}]


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
