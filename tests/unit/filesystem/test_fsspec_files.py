"""Are traces read by any implementation of fsspec, and does none of them lead to files of this machine?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

import tracebraid
from tests.integration.command import write_pair
from tracebraid.errors import InputError, MissingLibraryError
from tracebraid.filesystem.choose import file_system_of
from tracebraid.filesystem.interface import Kind

URL = "memory://bucket/job"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Any]:
    files = fsspec.filesystem("memory")
    for rank in (0, 1):
        for path in write_pair(tmp_path, rank):
            files.pipe_file(f"/bucket/job/{path.name}", path.read_bytes())
    yield files
    files.rm("/bucket", recursive=True)


def test_a_job_is_the_same_as_on_disk(memory: Any, tmp_path: Path) -> None:
    there, here = tracebraid.open(URL), tracebraid.open(tmp_path)
    assert (there.ranks, there.findings) == (here.ranks, here.findings)
    assert there[1].timeline.events.equals(here[1].timeline.events)
    assert there[1].coverage == here[1].coverage
    assert there[1].timeline.path == f"{URL}/kineto_trace_1.json"


def test_what_is_not_there_is_said(memory: Any) -> None:
    assert file_system_of(URL).kind(f"{URL}/nothing") is Kind.ABSENT
    with pytest.raises(InputError, match="no such file or folder"):
        tracebraid.open(f"{URL}/nothing")
    with pytest.raises(InputError, match="this is a folder"):
        tracebraid.read_timeline(URL)


def test_a_file_that_changes_between_two_ranges_is_refused(memory: Any) -> None:
    file = file_system_of(URL).open(f"{URL}/kineto_trace_0.json")
    memory.pipe_file("/bucket/job/kineto_trace_0.json", b"x" * file.size_bytes)
    with pytest.raises(InputError, match="changed"):
        file.read(0, 10)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/hostname",
        "local:///etc/hostname",
        "simplecache://x/y",
        "memory://a::file:///etc/hostname",
        "git://x/y",
        "reference://x",
    ],
)
def test_no_url_leads_to_files_of_this_machine(url: str) -> None:
    with pytest.raises(InputError, match="not supported"):
        tracebraid.open(url)


def test_a_scheme_that_nothing_reads_is_refused() -> None:
    with pytest.raises(InputError, match="reads nope://"):
        tracebraid.open("nope://x/y")


@pytest.mark.parametrize("url", ["s3://bucket/job", "memory://x"])
def test_without_the_libraries_the_extra_is_named(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fsspec", "fsspec.core", "obstore"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingLibraryError, match=r"tracebraid\[remote\]"):
        tracebraid.open(url)


def test_an_implementation_that_is_not_installed_is_named() -> None:
    with pytest.raises(MissingLibraryError, match="paramiko"):
        tracebraid.open("sftp://host/x")
