"""Forked children stay out of their parent's file, and can record for themselves.

Many more forks, at random moments, with threads and ends of all kinds, are in `tools/stress/scenarios/forks.py` and
`recordings.py`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.captured import files_of
from tests.integration.native import Json, assert_whole, names_of, parent_of, the
from tests.integration.running import run_script

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

KINDS = [
    "exit",
    "os-exit",
    "own",
    "again",
    "thread",
    "thread-forks",
    "multiprocessing",
    "silent",
    "busy",
    "unregister",
]
FOLLOWED = ["exit", "own", "thread", "multiprocessing", "again", "os-exit", "loader"]


def recorded(folder: Path, kinds: list[str], *more: str) -> Path:
    """A folder for each kind, of one process."""
    done = run_script("native_fork.py", folder, ",".join(kinds), *more)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["done"]), done.stderr[-800:]
    return folder


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is left where children are not followed."""
    return recorded(tmp_path_factory.mktemp("left"), [*KINDS, "loader"])


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("followed"), FOLLOWED, "follow")


def nodes_of_parent(folder: Path) -> list[Json]:
    nodes = assert_whole(folder / "et.json")
    assert "aten::zeros" not in names_of(nodes)
    assert parent_of(nodes, the(nodes, "aten::randn"))["name"] == "around"
    return nodes


@pytest.mark.parametrize("kind", KINDS)
def test_a_forked_child_stays_out_and_leaves_no_file(left: Path, kind: str) -> None:
    nodes = nodes_of_parent(left / kind)
    if kind != "busy":
        assert names_of(nodes).count("aten::ones") == 1 + (kind == "thread-forks")
    own = ["own.json"] if kind == "own" else []
    assert files_of(left / kind) == ["et.json", *own]
    for name in own:
        names = names_of(assert_whole(left / kind / name))
        assert "aten::full" in names
        assert not {"aten::ones", "aten::zeros", "around"} & set(names)


@pytest.mark.parametrize("kind", ["exit", "own", "thread", "multiprocessing"])
def test_a_child_that_is_followed_has_a_file_of_its_own(followed: Path, kind: str) -> None:
    nodes_of_parent(followed / kind)
    (file,) = [name for name in files_of(followed / kind) if name not in ("et.json", "own.json")]
    assert re.fullmatch(r"et_pid\d+\.json", file)
    nodes = assert_whole(followed / kind / file)
    assert {"aten::zeros"} <= set(names_of(nodes)) <= {"aten::zeros", *INSIDE}
    assert names_of(nodes).count("aten::zeros") == 2 + kind.startswith("thread")


INSIDE = {"aten::empty", "aten::zero_", "aten::fill_", "aten::full"}


def test_children_of_children_are_followed_too(followed: Path) -> None:
    folder = followed / "again"
    files = [name for name in files_of(folder) if name != "et.json"]
    assert len(files) == 2
    assert sorted(names_of(assert_whole(folder / name)).count("aten::zeros") for name in files) == [1, 2]


def test_a_child_that_ends_at_once_leaves_no_file_even_if_followed(followed: Path) -> None:
    assert files_of(followed / "os-exit") == ["et.json"]


@pytest.mark.parametrize("is_followed", [False, True])
def test_workers_of_a_loader(left: Path, followed: Path, is_followed: bool) -> None:
    folder = (followed if is_followed else left) / "loader"
    assert "aten::stack" not in names_of(nodes_of_parent(folder))
    workers = [name for name in files_of(folder) if name != "et.json"]
    assert len(workers) == 2 * is_followed
    counts = [names_of(assert_whole(folder / name)).count("aten::stack") for name in workers]
    assert sum(counts) == 16 * is_followed
