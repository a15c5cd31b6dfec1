"""Folders of links, of folders without rights, of very many files: what is in them is found once, and soon."""

from __future__ import annotations

import gzip
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import tracebraid
from tests.growth import grows_less
from tests.hostile.plain_inputs import write_job
from tests.hostile.reading import DEEP, ET, KINETO, refused
from tests.integration.command import run
from tests.stores import content_of
from tracebraid.errors import InputError, WrongTraceError
from tracebraid.filesystem.interface import Entry
from tracebraid.filesystem.local import LocalFile, LocalFiles
from tracebraid.importers.discovery import find_rank_files, trace_files
from tracebraid.importers.execution_trace.reader import read_execution_trace
from tracebraid.importers.kineto.reader import read_timeline
from tracebraid.importers.source_files import fingerprint, state_of, unless_changed
from tracebraid.model.rank_files import SourceFile


def links_to_each_other(folder: Path) -> None:
    (folder / "one").symlink_to("two")
    (folder / "two").symlink_to("one")
    (folder / "nothing").symlink_to("absent")


def links_upwards(folder: Path) -> None:
    (folder / "run" / "up").symlink_to("..")
    (folder / "here").symlink_to(".")


def link_to_the_run(folder: Path) -> None:
    (folder / "alias").symlink_to("run")


def many_links(folder: Path) -> None:
    for number in range(1000):
        (folder / f"link{number}").symlink_to(".")


@pytest.mark.parametrize("add", [links_to_each_other, links_upwards, link_to_the_run, many_links])
def test_each_folder_is_searched_once(tmp_path: Path, add: object) -> None:
    write_job(tmp_path / "run")
    assert callable(add)
    add(tmp_path)
    ranks, findings = find_rank_files(tmp_path)
    assert [Path(files.kineto or "").parent for files in ranks] == [tmp_path / "run"] * 2
    assert findings == ()
    assert len(trace_files([tmp_path])) == 4


def test_a_run_behind_a_link_is_found(tmp_path: Path) -> None:
    write_job(tmp_path / "elsewhere")
    folder = tmp_path / "job"
    folder.mkdir()
    for name in ("latest", "newest"):
        (folder / name).symlink_to(tmp_path / "elsewhere")
    assert [Path(files.kineto or "").parent.name for files in find_rank_files(folder)[0]] == ["latest"] * 2


@pytest.mark.full
def test_a_folder_that_cannot_be_listed_is_said_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as `lost+found`, which root alone may read."""
    write_job(tmp_path / "run")
    (tmp_path / "lost+found").mkdir()
    listed = LocalFiles.entries

    def refuse(files: LocalFiles, folder: str) -> list[Entry]:
        if folder.endswith("lost+found"):
            raise InputError(folder, "it cannot be read (Permission denied)", "Check its rights")
        return listed(files, folder)

    monkeypatch.setattr(LocalFiles, "entries", refuse)
    done = run("summary", tmp_path)
    assert done.returncode == 0
    assert "lost+found: skipped with its contents: it cannot be read (Permission denied)" in done.stderr
    (tmp_path / "run").rename(tmp_path / ".run")
    assert "lost+found: it cannot be read" in run("summary", tmp_path).stderr


@pytest.mark.parametrize("name", ["conf_{}.json", "log_{}.txt", "folder_{}/x"])
def test_many_other_files_cost_little(tmp_path: Path, name: str) -> None:
    def job_among(count: int) -> Path:
        job = write_job(tmp_path / str(count))
        for number in range(count):
            path = job / name.format(number)
            path.parent.mkdir(exist_ok=True)
            path.write_text('{"a": 1}')
        assert len(find_rank_files(job)[0]) == 2
        return job

    assert grows_less(8 * 3, find_rank_files, job_among(250), job_among(2_000))


def test_tables_are_not_written_where_polars_cannot_name_the_file(tmp_path: Path) -> None:
    job = write_job(tmp_path / "job")
    done = run("export", job, "--to", "csv", "-o", tmp_path / "\udcff")
    assert (done.returncode, done.stdout) == (1, "")
    assert "its path is not valid UTF-8" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["job"]


# --- Files that shrink, grow, are replaced or disappear while they are read: one line, and no s ------


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


@pytest.mark.full
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


@pytest.mark.full
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


# --- What is no trace, or none of the kind that was asked for, is refused in one clear error ---------


@pytest.mark.parametrize("read", [read_timeline, read_execution_trace])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" \n\n",
        b"\x00" * 500,
        b"\x89PNG\r\n\x1a\n" + b"\x00" * 100,
        b"\xff\xfe{\x00",
        b"{",
        b"[",
        b"{}",
        b"[]",
        b"5",
        b"null",
        b'"traceEvents"',
        b'{"a": [1, 2]}',
        b'{"traceEvents": null}',
        b'{"traceEvents": 5, "nodes": {}}',
        b'{"traceEvents": [5, "x", null]}',
        b'{"nodes": [5, "x", null]}',
        b"hello, world",
        b"\xef\xbb\xbf",
        b"\x1f\x8b",
        gzip.compress(b""),
        gzip.compress(b"\x89PNG\r\n\x1a\n"),
        gzip.compress(gzip.compress(KINETO.encode())),
        DEEP.encode(),
        b'{"a":' * 100_000,
        random.Random(3).randbytes(3000),
    ],
    ids=range(26),
)
def test_what_is_no_trace_is_refused_in_one_error(
    tmp_path: Path, read: Callable[[Path], object], data: bytes
) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(data)
    refused(lambda: read(path), path)


@pytest.mark.parametrize("read", [read_timeline, read_execution_trace])
def test_folders_missing_files_and_odd_paths_are_refused(
    tmp_path: Path, read: Callable[[Path | str], object]
) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path, tmp_path / "gone", tmp_path / "loop", "a\0b", "x" * 5000, ""):
        with pytest.raises(InputError) as caught:
            read(path)
        assert caught.value.advice


def test_a_trace_of_the_other_kind_is_refused_as_such(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(ET)
    assert isinstance(refused(lambda: read_timeline(path), path), WrongTraceError)
    path.write_text(KINETO)
    assert isinstance(refused(lambda: read_execution_trace(path), path), WrongTraceError)
