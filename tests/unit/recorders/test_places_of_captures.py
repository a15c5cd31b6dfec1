"""What captures of several processes of one rank leave in a folder: run here one after the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.captured import files_of, manifest_of
from tracebraid.errors import OutputError
from tracebraid.recorders.session.place import Place
from tracebraid.recorders.session.schedule import Schedule
from tracebraid.recorders.session.settings import Settings

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.compiler]
Capture = pytest.importorskip("tracebraid.recorders.session.capture").Capture

PAIR = ["kineto_trace_0.json.gz", "manifest_0.json", "torch_et_0.json.gz"]
DIED = {"pid": 7, "attempt": 0, "steps_seen": 9, "ended_by": "RuntimeError"}


def captured(place: Place | None, steps: int, raises: bool = False) -> list[str]:
    """A loop in a process that has this place, or none unless it has files: what was said."""
    said: list[str] = []
    own = place or Place(Path("unused"), 0)
    settings = Settings(str(own.folder), Schedule(0, 1, 0, 2), calibrate=False)
    capture = Capture(settings, warn=said.append, is_guest=True, take_place=lambda rank, has_files: place)
    capture.begin(first_step=0)
    for _ in range(steps):
        torch.ones(2) + 1
        capture.step()
    capture.finish("RuntimeError" if raises else "end")
    return said


def test_a_whole_capture_takes_the_place_of_a_cut_one_and_says_which_attempt_it_is(tmp_path: Path) -> None:
    assert captured(Place(tmp_path, 0), 2, raises=True) == []
    first = manifest_of(tmp_path)
    assert (first["windows"][0]["steps"], first["windows"][0]["complete"]) == ([1], False)
    (tmp_path / ".torch_et_0.json.gz.7-ab.recording.part").touch()
    assert captured(Place(tmp_path, 0, attempt=1, replaces=True, died=(DIED,)), 4) == []
    assert files_of(tmp_path) == PAIR
    manifest = manifest_of(tmp_path)
    assert (manifest["windows"][0]["steps"], manifest["windows"][0]["complete"]) == ([1, 2], True)
    assert (manifest["process"], manifest["attempt"], manifest["died_before"]) == (0, 1, [DIED])


@pytest.mark.parametrize("steps", [0, 1], ids=["before the window", "inside it"])
def test_an_empty_capture_leaves_a_cut_one(tmp_path: Path, steps: int) -> None:
    captured(Place(tmp_path, 0), 2, raises=True)
    before = {name: (tmp_path / name).read_bytes() for name in files_of(tmp_path)}
    assert captured(Place(tmp_path, 0, replaces=True, died=(DIED,)), steps, raises=True) == []
    assert {name: (tmp_path / name).read_bytes() for name in files_of(tmp_path)} == before


def test_an_empty_capture_takes_the_place_of_an_empty_one(tmp_path: Path) -> None:
    captured(Place(tmp_path, 0), 0, raises=True)
    assert captured(Place(tmp_path, 0, attempt=1, replaces=True), 1) == []
    assert files_of(tmp_path) == ["manifest_0.json"]
    assert (manifest_of(tmp_path)["attempt"], manifest_of(tmp_path)["steps_seen"]) == (1, 1)


def in_code(folder: Path, steps: int) -> dict[str, Any]:
    """A loop that the program captures itself: the manifest that is left."""
    with Capture(
        Settings(str(folder), Schedule(0, 1, 0, 2), calibrate=False), warn=lambda _: None
    ) as capture:
        for _ in range(steps):
            torch.ones(2) + 1
            capture.step()
    return manifest_of(folder)


def test_a_capture_in_the_code_takes_the_place_of_that_of_an_attempt_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for attempt in (0, 1):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", str(attempt))
        assert in_code(tmp_path, 4)["attempt"] == attempt
        assert files_of(tmp_path) == PAIR
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    assert in_code(tmp_path, 1)["attempt"] == 1


@pytest.mark.parametrize(
    ("attempt", "parent"),
    [("1", ""), ("0", ""), ("", ""), ("2", "7 1")],
    ids=["same", "before", "none", "other"],
)
def test_a_capture_in_the_code_refuses_files_of_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempt: str, parent: str
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    in_code(tmp_path, 4)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", attempt)
    if parent:
        monkeypatch.setattr("tracebraid.recorders.session.manifest.parent", lambda: parent)
    with pytest.raises(OutputError):
        in_code(tmp_path, 4)


def test_without_a_place_nothing_is_left(tmp_path: Path) -> None:
    assert captured(None, 0) == []
    assert files_of(tmp_path) == []


def test_a_further_process_has_a_folder_of_its_own(tmp_path: Path) -> None:
    for place in (Place(tmp_path, 0), Place(tmp_path / "process_1", 0, 1)):
        assert captured(place, 4) == []
    assert files_of(tmp_path) == sorted([*PAIR, *(f"process_1/{name}" for name in PAIR)])
    assert json.loads((tmp_path / "process_1" / "manifest_0.json").read_text())["process"] == 1


def marked(window: dict[str, Any]) -> list[tuple[int, str]]:
    marks = window["process"]["steps"]
    moments = [moment for mark in marks for moment in (mark["begin_ns"], mark["end_ns"])]
    assert moments == sorted(moments)
    return [(mark["step"], mark["name"]) for mark in marks]


def test_the_manifest_states_the_recorded_steps_exactly(tmp_path: Path) -> None:
    captured(Place(tmp_path, 0), 4)
    (window,) = manifest_of(tmp_path)["windows"]
    assert marked(window) == [(1, "ProfilerStep#1"), (2, "ProfilerStep#2")]
