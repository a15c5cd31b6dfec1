"""Answers from the cache are those of the traces, and a cache that cannot be trusted or written changes nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tracebraid
from tracebraid.api import caching
from tracebraid.errors import ArgumentError, InputError
from tracebraid.model.engine import Job
from tracebraid.model.finding import FindingCase
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.rank_files import RankFiles

FOLDER = ".tracebraid-cache"


@pytest.fixture(autouse=True)
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    monkeypatch.delenv("TRACEBRAID_CACHE_GB", raising=False)
    return home


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    folder = tmp_path / "traces"
    shutil.copytree(tracebraid.demo_path(), folder)
    return folder


def opened(path: Path, cache: bool = True) -> Job:
    return tracebraid.open(path, cache=cache, engine="in-process")


def read_count(path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many ranks of a job are read, and not taken from the cache."""
    read = []
    original = caching.CachedLoad._read

    def counted(load: caching.CachedLoad, files: RankFiles, progress: object) -> LinkedTrace:
        read.append(files.rank)
        return original(load, files, None)

    with monkeypatch.context() as patch:
        patch.setattr(caching.CachedLoad, "_read", counted)
        for linked in opened(path):
            assert linked.timeline.tables["events"].height
    return len(read)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tracebraid", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


@pytest.mark.full
def test_answers_are_the_same_with_and_without_cache(traces: Path) -> None:
    without = run("summary", "--json", str(traces))
    written = run("summary", "--json", str(traces), "--cache")
    taken = run("summary", "--json", str(traces), "--cache")
    assert without.stdout == written.stdout == taken.stdout
    assert without.stderr == written.stderr == taken.stderr
    assert f"{traces / FOLDER}: 2 ranks" in run("cache", str(traces)).stderr


@pytest.mark.full
def test_a_path_that_is_not_there_is_no_path_without_a_cache(tmp_path: Path) -> None:
    assert run("cache", str(tmp_path)).returncode == 0
    done = run("cache", str(tmp_path / "nothing"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no such file or folder. Check the path" in done.stderr


def test_a_rank_is_read_once(traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_count(traces, monkeypatch) == 2
    assert read_count(traces, monkeypatch) == 0
    assert [info.ranks for info in tracebraid.cache_info(traces)] == [2]


def test_nothing_is_kept_unless_asked_for(traces: Path) -> None:
    assert opened(traces, cache=False)[0].timeline.tables["events"].height
    assert not (traces / FOLDER).exists()


@pytest.mark.full
def test_other_content_of_the_same_name_is_read(traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_count(traces, monkeypatch)
    kineto = traces / "kineto_trace_0.json.gz"
    times = kineto.stat()
    kineto.write_bytes(kineto.read_bytes() + bytes(64))
    os.utime(kineto, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert read_count(traces, monkeypatch) == 1
    (traces / "manifest_1.json").unlink()
    assert read_count(traces, monkeypatch) == 1


def test_a_damaged_entry_is_read_again(traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_count(traces, monkeypatch)
    entries = sorted((traces / FOLDER / "entries").iterdir())
    table = next(entries[0].glob("tables/events/*.parquet"))
    table.write_bytes(table.read_bytes()[:-9] + b"x" * 9)
    next(entries[1].glob("ranks/*.json")).write_bytes(b"{}")
    assert read_count(traces, monkeypatch) == 2
    assert read_count(traces, monkeypatch) == 0


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("kind", ["mode", "link", "file", "no tag", "owner"])
def test_a_cache_that_others_may_have_written_is_not_believed(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder = traces / FOLDER
    cases = {"mode": FindingCase.CACHE_OF_OTHERS, "owner": FindingCase.CACHE_OF_OTHERS}
    if kind in ("mode", "owner"):
        read_count(traces, monkeypatch)
    if kind == "mode":
        folder.chmod(0o777)
    elif kind == "owner":
        user = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    elif kind == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    elif kind == "file":
        folder.write_bytes(b"mine")
    else:
        folder.mkdir(mode=0o700)
        (folder / "mine").write_bytes(b"mine")
    before = sorted(traces.rglob("*"))
    job = opened(traces)
    found = [finding for finding in job.findings if finding.code is FindingCode.CACHE_UNUSED]
    assert found[0].details["case"] is cases.get(kind, FindingCase.CACHE_OF_OTHER_KIND)
    assert job[0].timeline.tables["events"].equals(opened(traces, False)[0].timeline.tables["events"])
    assert sorted(traces.rglob("*")) == before
    with pytest.raises(InputError, match="cache"):
        tracebraid.clear_cache(traces)
    assert sorted(traces.rglob("*")) == before


def test_where_nothing_can_be_written_the_users_folder_is_used(
    traces: Path, cache_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Path.mkdir

    def refuse(path: Path, *args: object, **kwargs: object) -> None:
        if path.name == FOLDER:
            raise PermissionError(13, "Permission denied")
        make(path, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert opened(traces).findings == ()
    assert read_count(traces, monkeypatch) == 2
    assert read_count(traces, monkeypatch) == 0
    assert [Path(info.folder).parent for info in tracebraid.cache_info(traces)] == [cache_home / "tracebraid"]
    monkeypatch.setenv("XDG_CACHE_HOME", str(traces / "kineto_trace_0.json.gz"))
    found = [finding for finding in opened(traces).findings if finding.code is FindingCode.CACHE_UNUSED]
    assert len(found) == 1
    assert "Permission denied" in str(found[0].details["problem"])


@pytest.mark.full
def test_a_full_disk_is_told_and_costs_no_answer(traces: Path) -> None:
    expected = run("summary", "--top", "3", str(traces))
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096));"
        "from tracebraid.cli.main import run; sys.argv[0] = 'tracebraid'; sys.exit(run())"
    )
    command = [sys.executable, "-c", code, "summary", "--top", "3", str(traces), "--cache"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == expected.stdout
    assert "the cache is not used" in done.stderr
    assert list((traces / FOLDER / "entries").iterdir()) == []


@pytest.mark.full
def test_what_was_not_used_for_longest_goes_first(traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in (1, 0):
        opened(traces)[rank]
    entries = traces / FOLDER / "entries"
    first = min(entries.iterdir(), key=lambda path: (path / ".used").stat().st_mtime_ns)
    assert opened(traces)[1].rank == 1
    size = tracebraid.cache_info(traces)[0].size_bytes
    monkeypatch.setenv("TRACEBRAID_CACHE_GB", str(size * 1.2 / 1e9))
    (traces / "manifest_1.json").unlink()
    assert opened(traces)[1].rank == 1
    assert len(list(entries.iterdir())) == 2
    assert first.exists()
    monkeypatch.setenv("TRACEBRAID_CACHE_GB", "0")
    (traces / "manifest_0.json").unlink()
    assert opened(traces)[0].rank == 0
    assert len(list(entries.iterdir())) == 2


def test_an_entry_that_is_being_read_stays(traces: Path) -> None:
    job = opened(traces)
    held = [job[0], job[1]]
    assert [info.ranks for info in tracebraid.clear_cache(traces)] == [2]
    assert [info.ranks for info in tracebraid.cache_info(traces)] == [2]
    assert all(linked.timeline.tables["events"].height for linked in held)
    del held, job
    tracebraid.clear_cache(traces)
    assert not (traces / FOLDER).exists()


def test_clearing_follows_no_link_and_touches_nothing_else(traces: Path, tmp_path: Path) -> None:
    assert opened(traces)[0].timeline.path
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"1")
    (traces / FOLDER / "entries" / ("a" * 64)).symlink_to(outside)
    (traces / FOLDER / "entries" / "mine").mkdir()
    (traces / FOLDER / "sizes" / "mine").write_bytes(b"1")
    tracebraid.clear_cache(traces)
    assert (outside / "precious").exists()
    assert (traces / FOLDER / "entries" / "mine").exists()
    assert (traces / FOLDER / "sizes" / "mine").exists()


@pytest.mark.full
def test_two_processes_at_once_leave_a_cache_that_answers(
    traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadPoolExecutor(2) as executor:
        done = list(executor.map(lambda _: run("summary", "--json", "--cache", str(traces)), range(2)))
    assert done[0].returncode == done[1].returncode == 0
    assert done[0].stdout == done[1].stdout
    assert read_count(traces, monkeypatch) == 0
    assert [info.ranks for info in tracebraid.cache_info(traces)] == [2]


def test_a_cache_that_another_process_is_making_is_used(traces: Path) -> None:
    folder = traces / FOLDER
    folder.mkdir(mode=0o700)
    (folder / ".CACHEDIR.TAG.7-00ff.whole.part").write_bytes(b"Sig")
    job = opened(traces)
    assert job[0].timeline.path
    assert [finding.code for finding in job.findings] == []
    assert [info.ranks for info in tracebraid.cache_info(traces)] == [1]
    del job
    tracebraid.clear_cache(traces)
    assert not folder.exists()


def test_a_limit_that_is_no_size_is_refused(traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("many", "-1", "nan", "inf"):
        monkeypatch.setenv("TRACEBRAID_CACHE_GB", text)
        with pytest.raises(ArgumentError, match="TRACEBRAID_CACHE_GB"):
            opened(traces)
