"""Folders of links, of folders without rights, of very many files: what is in them is found once, and soon."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.hostile.plain_inputs import write_job
from tests.integration.command import run
from tracebraid.errors import InputError
from tracebraid.filesystem.interface import Entry
from tracebraid.filesystem.local import LocalFiles
from tracebraid.importers.discovery.discover import find_rank_files, trace_files

MANY = 5_000
READ_AT_MOST_S = 10
"""0.7 s on the machine of the suite; before, links to the same folder were listed as often as their number squared."""


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
    assert (
        "lost+found: left out, with what may lie in it: it cannot be read (Permission denied)" in done.stderr
    )
    (tmp_path / "run").rename(tmp_path / ".run")
    assert "lost+found: it cannot be read" in run("summary", tmp_path).stderr


@pytest.mark.parametrize("name", ["conf_{}.json", "log_{}.txt", "folder_{}/x"])
def test_many_other_files_cost_little(tmp_path: Path, name: str) -> None:
    write_job(tmp_path / "job")
    for number in range(MANY):
        path = tmp_path / "job" / name.format(number)
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"a": 1}')
    before = os.times()
    ranks, _ = find_rank_files(tmp_path / "job")
    after = os.times()
    assert len(ranks) == 2
    assert after.user + after.system - before.user - before.system < READ_AT_MOST_S


def test_tables_are_not_written_where_polars_cannot_name_the_file(tmp_path: Path) -> None:
    job = write_job(tmp_path / "job")
    done = run("export", job, "--to", "csv", "-o", tmp_path / "\udcff")
    assert (done.returncode, done.stdout) == (1, "")
    assert "its path is no UTF-8" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["job"]
