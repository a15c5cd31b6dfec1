"""Forked children stay out of their parent's file, and can record for themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.captured import files_of
from tests.integration.native import Json, assert_whole, names_of, parent_of, the
from tests.integration.running import run_script

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

KINDS = ["exit", "os-exit", "own", "again", "thread", "thread-forks", "multiprocessing", "silent"]


def forked(folder: Path, kind: str, *more: str) -> list[Json]:
    """The nodes of the parent."""
    done = run_script("native_fork.py", folder / "et.json", kind, *more)
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[-1:]) == (0, ["done"]), done.stderr[-800:]
    nodes = assert_whole(folder / "et.json")
    assert "aten::zeros" not in names_of(nodes)
    assert parent_of(nodes, the(nodes, "aten::randn"))["name"] == "around"
    return nodes


@pytest.mark.parametrize("kind", [*KINDS, "busy"])
def test_a_forked_child_stays_out_and_leaves_no_file(tmp_path: Path, kind: str) -> None:
    nodes = forked(tmp_path, kind)
    if kind != "busy":
        assert names_of(nodes).count("aten::ones") == 1 + (kind == "thread-forks")
    own = ["own.json"] if kind == "own" else []
    assert files_of(tmp_path) == ["et.json", *own]
    for name in own:
        names = names_of(assert_whole(tmp_path / name))
        assert "aten::full" in names
        assert not {"aten::ones", "aten::zeros", "around"} & set(names)


@pytest.mark.parametrize("kind", ["exit", "own", "thread", "multiprocessing"])
def test_a_child_that_is_followed_has_a_file_of_its_own(tmp_path: Path, kind: str) -> None:
    forked(tmp_path, kind, "follow")
    (file,) = [name for name in files_of(tmp_path) if name not in ("et.json", "own.json")]
    assert re.fullmatch(r"et_pid\d+\.json", file)
    nodes = assert_whole(tmp_path / file)
    assert {"aten::zeros"} <= set(names_of(nodes)) <= {"aten::zeros", *INSIDE}
    assert names_of(nodes).count("aten::zeros") == 2 + kind.startswith("thread")


INSIDE = {"aten::empty", "aten::zero_", "aten::fill_", "aten::full"}


def test_children_of_children_are_followed_too(tmp_path: Path) -> None:
    forked(tmp_path, "again", "follow")
    files = [name for name in files_of(tmp_path) if name != "et.json"]
    assert len(files) == 2
    assert sorted(names_of(assert_whole(tmp_path / name)).count("aten::zeros") for name in files) == [1, 2]


def test_a_child_that_ends_at_once_leaves_no_file_even_if_followed(tmp_path: Path) -> None:
    forked(tmp_path, "os-exit", "follow")
    assert files_of(tmp_path) == ["et.json"]


def test_that_a_child_unregisters_does_its_parent_no_harm(tmp_path: Path) -> None:
    forked(tmp_path, "unregister")
    assert files_of(tmp_path) == ["et.json"]


@pytest.mark.parametrize("more", [(), ("follow",)])
def test_workers_of_a_loader(tmp_path: Path, more: tuple[str, ...]) -> None:
    nodes = forked(tmp_path, "loader", *more)
    assert "aten::stack" not in names_of(nodes)
    workers = [name for name in files_of(tmp_path) if name != "et.json"]
    assert len(workers) == 2 * len(more)
    counts = [names_of(assert_whole(tmp_path / name)).count("aten::stack") for name in workers]
    assert sum(counts) == 16 * len(more)


def test_no_child_hangs_where_others_start_and_stop(tmp_path: Path) -> None:
    done = run_script("native_forks.py", 8, tmp_path, PYTHONWARNINGS="ignore")
    told = re.fullmatch(r"(\d+) forks, 0 hung\n", done.stdout)
    assert told, done.stdout + done.stderr[-500:]
    assert int(told[1]) > 20
