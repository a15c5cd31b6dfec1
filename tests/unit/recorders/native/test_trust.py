"""What another user may have put into the cache of the native recorder is neither loaded nor believed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fake_compiler import FakeCompiler
from tracebraid.errors import CaptureError

torch = pytest.importorskip("torch")

from tracebraid.native.trust import as_built  # noqa: E402
from tracebraid.recorders.native.library import build, library_path  # noqa: E402

pytestmark = pytest.mark.torch


def plant(path: Path) -> None:
    path.write_text("planted")


@pytest.mark.parametrize(
    "change",
    [
        plant,
        lambda path: os.truncate(path, path.stat().st_size // 2),
        lambda path: path.chmod(0o777),
        lambda path: path.with_suffix(".json").write_text("{"),
        lambda path: path.with_suffix(".json").unlink(),
        lambda path: path.rename(path.with_name("x")) and path.symlink_to(path.with_name("x")),
    ],
    ids=["content", "cut", "mode", "note", "no note", "link"],
)
def test_what_another_may_have_changed_is_built_again(
    builds: list[Path], change: Callable[[Path], object]
) -> None:
    path = build()
    content = path.read_bytes()
    change(path)
    assert build() == path
    assert len(builds) == 2
    assert path.read_bytes() == content
    assert not path.is_symlink()
    assert (path.stat().st_mode | path.parent.stat().st_mode) & 0o022 == 0
    assert build() == path
    assert len(builds) == 2


def test_a_folder_that_others_may_write_is_closed(builds: list[Path]) -> None:
    """What lies in it is of this user, as nobody else can make such a file."""
    path = build()
    path.parent.chmod(0o777)
    assert build() == path
    assert path.parent.stat().st_mode & 0o022 == 0


def test_a_umask_that_lets_a_group_write_is_none_of_ours(builds: list[Path]) -> None:
    before = os.umask(0o002)
    try:
        build()
        build()
    finally:
        os.umask(before)
    assert len(builds) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
def test_what_belongs_to_another_user_is_not_loaded(builds: list[Path]) -> None:
    path = build()
    os.chown(path, 12345, -1)
    assert build() == path
    assert len(builds) == 2
    os.chown(path.parent, 12345, -1)
    with pytest.raises(CaptureError, match="belongs to another user; name a folder of your own"):
        build()


def test_what_is_loaded_is_what_was_checked(builds: list[Path]) -> None:
    """Whoever may rename the folders above puts another in their place between the check and the load."""
    path = build()
    with as_built(path) as name:
        assert name is not None
        path.parent.rename(path.parent.with_name("away"))
        path.parent.mkdir()
        path.write_text("planted")
        assert Path(name).read_bytes() == b"a library of some length"
    with as_built(path) as name:
        assert name is None


@pytest.mark.parametrize("planted", ["pipe", "folder"])
def test_a_note_that_is_no_file_is_not_waited_for(builds: list[Path], planted: str) -> None:
    path = build()
    note = path.with_suffix(".json")
    note.unlink()
    os.mkfifo(note, 0o600) if planted == "pipe" else note.mkdir()
    with as_built(path) as name:
        assert name is None


def another_s(path: Path) -> None:
    path.write_text("do as I say")
    os.chown(path, 12345, -1)


@pytest.mark.parametrize(
    "planted",
    [
        os.mkfifo,
        Path.mkdir,
        Path.touch,
        lambda path: path.symlink_to(FakeCompiler(path.parent / "of", "").path),
        lambda path: (path.write_text("do as I say"), path.chmod(0o666)),
        pytest.param(
            another_s,
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others"),
        ),
    ],
    ids=["pipe", "folder", "empty", "link", "writable", "another's"],
)
def test_a_failure_that_another_may_have_written_is_none(
    builds: list[Path], planted: Callable[[Path], object]
) -> None:
    path = library_path()
    path.parent.mkdir(parents=True)
    planted(path.with_name("failure.txt"))
    assert build() == path
    assert len(builds) == 1


def test_nothing_is_loaded_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be a folder of traces that somebody sent, whose files belong to who unpacked it."""
    monkeypatch.delenv("TRACEBRAID_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert library_path().parent.parent == tmp_path / ".cache" / "tracebraid"
    monkeypatch.setenv("HOME", "relative")
    with pytest.raises(CaptureError, match="has no home folder; name a folder in TRACEBRAID_CACHE"):
        build()
