"""Files that shrink, grow, are replaced or disappear while they are read: one line, and no stale answer later."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import tracebraid
from tests.hostile.plain_inputs import write_job
from tests.integration.command import run
from tests.stores import content_of
from tracebraid.filesystem.local import LocalFile
from tracebraid.importers.discovery.fingerprint import fingerprint, state_of, unless_changed
from tracebraid.model.source_file import SourceFile

FILES = ("kineto_trace_0.json", "torch_et_0.json")


def shrink(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b'{"more": 1}' * 1000)


def replace(path: Path) -> None:
    """Another trace of the same size under the name, as a writer puts it there that writes whole files."""
    other = path.with_name("new.tmp")
    other.write_text(path.read_text().replace("allreduce", "broadcast"))
    other.replace(path)


def remove(path: Path) -> None:
    path.unlink()


def remove_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


Change = Callable[[Path], None]


@pytest.fixture
def change_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, int, Change], None]:
    """Change a file when it is read for the nth time."""

    def plan(path: Path, number: int, change: Change) -> None:
        read, reads = LocalFile.read, [0]

        def changed(file: LocalFile, start: int, stop: int) -> bytes:
            if file.path == str(path):
                reads[0] += 1
                if reads[0] == number:
                    change(path)
            return read(file, start, stop)

        monkeypatch.setattr(LocalFile, "read", changed)

    return plan


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("change", [shrink, grow, replace, remove, remove_folder])
def test_a_file_that_changes_is_read_or_named(
    tmp_path: Path, name: str, change: Change, change_at: Callable[[Path, int, Change], None]
) -> None:
    job = write_job(tmp_path / "job")
    change_at(job / name, 2, change)
    done = run("link", job, "-o", tmp_path / "out")
    assert done.returncode == 0 or "_0.json" in done.stderr, done
    assert done.returncode in (0, 1)
    for path in (tmp_path / "out").glob("*"):
        assert path.name in ("et_plus_0.json", "et_plus_1.json")


@pytest.mark.parametrize(("name", "number"), [(FILES[0], 4), (FILES[1], 1)])
def test_a_store_of_a_file_that_was_replaced_meanwhile_is_not_current(
    tmp_path: Path, name: str, number: int, change_at: Callable[[Path, int, Change], None]
) -> None:
    job = write_job(tmp_path / "job")
    change_at(job / name, number, replace)
    tracebraid.pack(job, tmp_path / "job.tbstore", engine="in-process")
    tracebraid.pack(job, tmp_path / "job.tbstore", engine="in-process")
    tracebraid.pack(job, tmp_path / "new.tbstore", engine="in-process")
    assert content_of(tmp_path / "job.tbstore") == content_of(tmp_path / "new.tbstore")


def test_what_is_taken_of_another_file_than_was_read_counts_as_changed(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text("allreduce")
    before = state_of(str(path))
    assert unless_changed(fingerprint(str(path)), str(path), before).sha256
    replace(path)
    assert unless_changed(fingerprint(str(path)), str(path), before) == SourceFile(str(path))


@pytest.mark.parametrize("name", FILES)
def test_a_cache_of_a_file_that_was_replaced_meanwhile_is_not_used(
    tmp_path: Path, name: str, change_at: Callable[[Path, int, Change], None]
) -> None:
    job = write_job(tmp_path / "job")
    original = (job / name).read_bytes()
    expected = run("analyze", "collectives", job, "--json").stdout
    for number in (2, 3, 4):
        change_at(job / name, number, replace)
        run("analyze", "collectives", job, "--json", "--cache")
        (job / name).write_bytes(original)
        change_at(job / name, -1, replace)
        assert run("analyze", "collectives", job, "--json", "--cache").stdout == expected
