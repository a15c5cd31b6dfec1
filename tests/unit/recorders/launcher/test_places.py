"""Processes of one rank have a place each, and dead ones with an empty or cut capture give way."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tracebraid.errors import CaptureError
from tracebraid.recorders.launcher.notes import NOTES_VARIABLE, write_note
from tracebraid.recorders.launcher.places import Places
from tracebraid.recorders.own_process import started_at
from tracebraid.recorders.session.place import Place, left_by_dead

RESTARTS = "TORCHELASTIC_RESTART_COUNT"
ALIVE = started_at(os.getppid())
"""When this process's parent was started, which lives: other processes of the tests have its number."""


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(NOTES_VARIABLE, str(tmp_path / "notes"))
    monkeypatch.delenv(RESTARTS, raising=False)
    (tmp_path / "notes").mkdir()
    return tmp_path / "notes"


def other(
    notes: Path, pid: int, process: int | None = 0, rank: int = 0, alive: bool = False, **more: Any
) -> None:
    """Another process, which has a place: a dead one, or that of the number of this process's parent."""
    said = {"started": ALIVE if alive else "long ago", "rank": rank, "process": process, **more}
    (notes / f"{pid}.json").write_text(json.dumps({"stage": "recording", **said}))
    if process is not None:
        (notes / f"{rank}.{process}.claim").write_text(str(pid))


def taken(folder: Path, has_files: bool = True, rank: int = 0) -> Place | None:
    return Places(folder).take(rank, has_files)


LIVES: dict[str, Any] = {"pid": os.getppid(), "alive": True}
CUT: dict[str, Any] = {
    "pid": 4_000_001,
    "windows": 1,
    "ended_by": "RuntimeError",
    "steps_seen": 9,
    "attempt": 0,
}
EMPTY: dict[str, Any] = {**CUT, "windows": 0, "steps_seen": 4}
WHOLE: dict[str, Any] = {**CUT, "whole": True}


@pytest.mark.parametrize(
    ("owner", "has_files", "expected"),
    [
        (None, True, (0, False)),
        (None, False, (0, False)),
        (LIVES, True, (1, False)),
        (LIVES, False, None),
        (CUT, True, (0, True)),
        (CUT, False, None),
        (EMPTY, True, (0, True)),
        (EMPTY, False, (0, True)),
        (WHOLE, True, (1, False)),
        (WHOLE, False, None),
        ({**EMPTY, "rank": 1}, True, (0, False)),
    ],
    ids=str,
)
def test_the_first_place_is_taken_whose_owner_is_dead_without_a_whole_capture(
    tmp_path: Path,
    notes: Path,
    owner: dict[str, Any] | None,
    has_files: bool,
    expected: tuple[int, bool] | None,
) -> None:
    if owner is not None:
        other(notes, **owner)
    place = taken(tmp_path, has_files)
    assert (None if place is None else (place.process, place.replaces)) == expected
    if place is not None:
        assert place.folder == (tmp_path / f"process_{place.process}" if place.process else tmp_path)


def test_a_place_is_kept_and_others_of_the_rank_have_further_ones(tmp_path: Path, notes: Path) -> None:
    places = Places(tmp_path)
    write_note("recording", rank=0)
    first = places.take(0, True)
    assert places.take(0, True) is places.take(0, False) is first
    assert [taken(tmp_path), taken(tmp_path)] == [
        Place(tmp_path / "process_1", 0, 1),
        Place(tmp_path / "process_2", 0, 2),
    ]
    assert taken(tmp_path, rank=1) == Place(tmp_path, 1)


@pytest.mark.parametrize(("counted", "attempt"), [(None, 2), ("7", 7)])
def test_a_place_says_which_attempt_it_is_and_who_died_before(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch, counted: str | None, attempt: int
) -> None:
    if counted is not None:
        monkeypatch.setenv(RESTARTS, counted)
    other(notes, **CUT)
    other(notes, 4_000_002, None, steps_seen=2)
    other(notes, 4_000_003, None, ended_by="end")
    other(notes, 4_000_004, 0, rank=1)
    other(notes, 4_000_005, None, whole=True)
    place = taken(tmp_path)
    assert place is not None
    assert (place.attempt, [died["ended_by"] for died in place.died]) == (attempt, ["RuntimeError", None])
    # What is known of the steps of one that was killed is old.
    assert place.died[1]["steps_seen"] is None
    assert place.died[0] == {"pid": CUT["pid"], "attempt": 0, "steps_seen": 9, "ended_by": "RuntimeError"}


@pytest.mark.parametrize(("restarts", "process"), [("1", 0), ("0", 1), (None, 1)])
def test_of_an_attempt_whose_other_rank_is_cut_no_rank_is_kept(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch, restarts: str | None, process: int
) -> None:
    """Ranks of two attempts would lie in one folder. It was torchrun's attempt 0, and this is a later one, or not."""
    other(notes, **WHOLE)
    other(notes, **{**CUT, "pid": 4_000_009}, rank=1)
    if restarts is not None:
        monkeypatch.setenv(RESTARTS, restarts)
    place = taken(tmp_path)
    assert place is not None
    assert place.process == process


def test_processes_beyond_a_number_are_refused_in_words(tmp_path: Path, notes: Path) -> None:
    write_note("recording", rank=0)
    assert len({taken(tmp_path) for _ in range(16)}) == 16
    with pytest.raises(CaptureError, match="16 processes of rank 0 are captured already"):
        taken(tmp_path)


def test_without_notes_there_is_one_place(tmp_path: Path, notes: Path) -> None:
    notes.rmdir()
    assert [taken(tmp_path), taken(tmp_path)] == [Place(tmp_path, 0)] * 2


def test_temporary_files_of_the_dead_are_found_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "window_0").mkdir()
    theirs = [tmp_path / ".a.7-x.recording.part", tmp_path / "window_0" / ".b.7-y.whole.part"]
    for path in (*theirs, tmp_path / ".a.77-x.whole.part", tmp_path / "torch_et_0.json.gz"):
        path.touch()
    assert left_by_dead(Place(tmp_path, 0, died=({"pid": 7},))) == theirs


def test_a_process_that_has_ended_has_no_start() -> None:
    assert started_at(os.getpid()) == started_at(os.getpid()) != ""
    child = os.posix_spawn("/bin/true", ["true"], {})
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert started_at(child) == ""  # Its parent has not heard of it.
    os.waitpid(child, 0)
    assert started_at(child) == ""
