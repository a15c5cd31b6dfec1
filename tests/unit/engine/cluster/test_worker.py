"""What a node does with a rank, and what it says where it cannot; no cluster runs."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

import tracebraid
from tracebraid.api.engines import engine_of
from tracebraid.engine.pickling import event_of, work_bytes
from tracebraid.engine.ray_node import run_work, task_bytes
from tracebraid.engine.workers import Event, Failed, Finished, Raised
from tracebraid.errors import ArgumentError, EngineError, InputError, MissingLibraryError
from tracebraid.model.rank_files import RankFiles


@pytest.fixture(autouse=True)
def _same_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    # A node goes to the driver's folder: the test's process comes back from it.
    monkeypatch.chdir(Path.cwd())


def on_node(work: object, task: bytes, folder: Path) -> tuple[Event, bool]:
    data, is_unseen = run_work(work_bytes(work), task, str(folder), "node n1 (10.0.0.7)")  # type: ignore[arg-type]
    return event_of(data), is_unseen


def rank_of(files: RankFiles, progress: object) -> tuple[int, str]:
    return files.rank, str(Path.cwd())


def failing(files: RankFiles, progress: object, path: str) -> None:
    raise InputError(path, "it is damaged", "Copy it again")


def test_a_rank_is_worked_on_in_the_drivers_folder(tmp_path: Path) -> None:
    event, _ = on_node(rank_of, task_bytes(3, RankFiles(7, None, None)), tmp_path)
    assert isinstance(event, Finished)
    assert (event.number, event.answer) == (3, (7, str(tmp_path)))


@pytest.mark.slow
def test_a_file_that_the_driver_sees_and_the_node_does_not_names_both(tmp_path: Path) -> None:
    for name in ("kineto", "et"):
        path = tmp_path / f"{name}_0.json"
        path.write_text("{}")
        files = RankFiles(0, str(path), None) if name == "kineto" else RankFiles(0, None, str(path))
        task = task_bytes(0, files)
        path.unlink()
        event, _ = on_node(rank_of, task, tmp_path)
        assert isinstance(event, Failed)
        assert event.error.path == str(path)
        assert "node n1 (10.0.0.7) cannot see this file" in str(event.error)
        assert "URL" in event.error.advice


@pytest.mark.slow
def test_a_file_that_nobody_sees_and_a_url_are_left_to_the_work(tmp_path: Path) -> None:
    for path in (str(tmp_path / "gone.json"), "s3://bucket/kineto_0.json"):
        event, _ = on_node(rank_of, task_bytes(0, RankFiles(0, path, None)), tmp_path)
        assert isinstance(event, Finished)


@pytest.mark.slow
def test_an_error_says_whether_its_path_is_on_the_node(tmp_path: Path) -> None:
    task = task_bytes(0, RankFiles(0, None, None))
    here, gone = tmp_path / "here", tmp_path / "gone"
    here.touch()
    assert on_node(partial(failing, path=str(here)), task, tmp_path)[1] is False
    event, is_unseen = on_node(partial(failing, path=str(gone)), task, tmp_path)
    assert is_unseen
    assert isinstance(event, Failed)


def test_a_question_that_cannot_be_loaded_is_an_error_of_the_engine(tmp_path: Path) -> None:
    data, _ = run_work(b"no pickle", task_bytes(0, RankFiles(0, None, None)), str(tmp_path), "n")
    event = event_of(data)
    assert isinstance(event, Raised)
    assert isinstance(event.error, EngineError)


def test_without_ray_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch, demo: Path) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    job = tracebraid.open(demo, engine="ray")
    with pytest.raises(MissingLibraryError, match=r"tracebraid\[ray\]"):
        tracebraid.analyses.breakdown(job)


def test_only_ray_takes_an_address() -> None:
    for name in ("in-process", "pool", "auto"):
        with pytest.raises(ArgumentError, match="takes no address"):
            engine_of(name, "127.0.0.1:6379")
