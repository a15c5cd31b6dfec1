"""A command that is run again into a folder leaves nothing of the earlier capture there, if it captured anything."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from tracebraid.recorders.launcher.launch import launch
from tracebraid.recorders.session.schedule import Schedule
from tracebraid.recorders.session.settings import Settings

MANIFEST = json.dumps({"windows": [{"files": [{"path": "torch_et_0.json.gz"}]}]})
WRITES = f"open('manifest_0.json', 'w').write({MANIFEST!r})"
EARLIER = [
    "manifest_0.json",
    "manifest_1.json",
    "torch_et_1.json.gz",
    "kineto_trace_1.json.gz",
    "window_0/torch_et_0.json.gz",
]
OTHERS = ["notes.txt", "window_1/notes.txt", "other/torch_et_0.json.gz"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An earlier capture of two ranks and a window, and files of others, a minute old."""
    for name in (*EARLIER, *OTHERS):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")
        os.utime(path, (time.time() - 60,) * 2)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def left_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_files_of_the_earlier_capture_are_removed_and_no_others(folder: Path) -> None:
    outcome = launch([sys.executable, "-c", WRITES], Settings(str(folder), Schedule(), overwrite=True))
    assert outcome.nothing is None
    assert left_in(folder) == {"manifest_0.json", *OTHERS}
    assert not (folder / "window_0").exists()


def test_a_command_that_captured_nothing_leaves_the_earlier_capture(folder: Path) -> None:
    outcome = launch([sys.executable, "-c", "pass"], Settings(str(folder), Schedule(), overwrite=True))
    assert outcome.nothing is not None
    assert left_in(folder) == {*EARLIER, *OTHERS}
