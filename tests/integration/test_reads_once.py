"""No command opens, reads or links anything twice."""

from __future__ import annotations

import gzip
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tracebraid
from tests.integration.command import run
from tracebraid.linking import link_traces

STAGES = ("host_tree", "link_hosts", "link_launches", "find_dependencies", "count_coverage")
"""Functions of `link_traces`, whose calls are counted."""


RANKS = 2
COMMANDS: dict[str, list[str]] = {
    "info": ["info", "JOB"],
    "check": ["check", "JOB"],
    "link": ["link", "JOB"],
    "link --json": ["link", "JOB", "--json"],
    "link -o": ["link", "JOB", "-o", "OUT"],
    "summary": ["summary", "JOB"],
    "summary --json": ["summary", "JOB", "--json"],
    "demo": ["demo"],
    "demo --json": ["demo", "--json"],
    "demo DIR": ["demo", "OUT"],
    "link of a pair": ["link", "ET", "KINETO", "-o", "OUT"],
    "trace-link": ["trace-link", "--et-file", "ET", "--kineto-file", "KINETO"],
    "chakra-trace-link": [
        *("chakra-trace-link", "--chakra-host-trace", "ET", "--chakra-device-trace", "KINETO"),
        *("--output-file", "OUT"),
    ],
}
WITHOUT_ET = {"summary"}
WITH_DEPENDENCIES = {"check", "link -o", "demo DIR", "link of a pair", "chakra-trace-link"}
WITHOUT_LINKS = {"info"}


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return Path(shutil.copytree(tracebraid.demo_path(), tmp_path / "job"))


def remove_manifests(job: Path) -> None:
    for path in job.glob("manifest_*.json"):
        path.unlink()


def plain(job: Path) -> Path:
    """The same traces, not compressed, without the manifests, which name the files as they were."""
    remove_manifests(job)
    for path in sorted(job.glob("*.json.gz")):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    return job


def unnamed(job: Path) -> Path:
    """The same traces, with names that do not tell kind and rank, so that heads are read; without manifests."""
    remove_manifests(job)
    for number, path in enumerate(sorted(job.glob("*.json.gz"))):
        path.rename(job / f"{number}.json.gz")
    return job


@pytest.fixture(scope="module")
def hooked() -> list[Counter[str]]:
    """Counts in the last of these which files are opened for reading; a hook of a process stays for good."""
    listening: list[Counter[str]] = []

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if not (listening and event == "open" and isinstance(args[0], str | bytes | os.PathLike)):
            return
        if not args[2] & (os.O_WRONLY | os.O_RDWR):
            listening[-1][f"open {os.fsdecode(args[0])}"] += 1

    sys.addaudithook(hook)
    return listening


@pytest.fixture
def counts(hooked: list[Counter[str]], monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often each file is opened and each stage is run, from now on."""
    found: Counter[str] = Counter()

    def counting(name: str) -> Callable[..., object]:
        function = getattr(link_traces, name)

        def counted(*args: Any, **kwargs: Any) -> object:
            found[name] += 1
            return function(*args, **kwargs)

        return counted

    for name in STAGES:
        monkeypatch.setattr(link_traces, name, counting(name))
    hooked.append(found)
    yield found
    hooked.clear()


def ask(job: Path, arguments: list[str]) -> None:
    et, kineto = sorted(job.glob("torch_et_0*")), sorted(job.glob("kineto_trace_0*"))
    paths = {"JOB": str(job), "OUT": str(job.parent / "out")}
    paths |= {name: str(found[0]) for name, found in (("ET", et), ("KINETO", kineto)) if found}
    done = run(*(paths.get(one, one) for one in arguments))
    assert done.returncode == 0, done.stderr


def opens(counts: Counter[str], word: str) -> list[int]:
    """How often each trace whose name has that word was opened for reading."""
    return [
        times
        for what, times in sorted(counts.items())
        if what.startswith("open ") and word in Path(what).name
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_opens_and_links_once_and_computes_only_what_it_says(
    job: Path, name: str, counts: Counter[str]
) -> None:
    counts.clear()
    ask(job, COMMANDS[name])
    expect_one_opening(counts, name)
    ranks = 1 if "ET" in COMMANDS[name] else RANKS
    links = 0 if name in WITHOUT_LINKS else ranks
    with_et = 0 if name in WITHOUT_ET else links
    found = {stage: counts[stage] for stage in ("host_tree", "link_launches", "link_hosts", "count_coverage")}
    assert found == {
        "host_tree": links,
        "link_launches": links,
        "link_hosts": with_et,
        "count_coverage": with_et,
    }
    assert counts["find_dependencies"] == (ranks if name in WITH_DEPENDENCIES else 0)


@pytest.mark.parametrize("name", ["info", "check", "summary"])
def test_a_plain_file_is_opened_once_too(job: Path, name: str, counts: Counter[str]) -> None:
    plain(job)
    counts.clear()
    ask(job, COMMANDS[name])
    expect_one_opening(counts, name)


def expect_one_opening(counts: Counter[str], name: str) -> None:
    ranks = 1 if "ET" in COMMANDS[name] else RANKS
    # `demo DIR` copies the bundled files, and reads the copies.
    folders = 2 if name == "demo DIR" else 1
    assert opens(counts, "kineto_trace_") == [1] * ranks * folders
    assert opens(counts, "torch_et_") == [1] * (ranks * folders if name not in WITHOUT_ET else 0)


@pytest.mark.parametrize("name", ["check", "summary"])
def test_names_that_tell_nothing_cost_a_look_at_the_head(job: Path, name: str, counts: Counter[str]) -> None:
    unnamed(job)
    counts.clear()
    ask(job, COMMANDS[name])
    assert max(opens(counts, ".json.gz")) == 2


def test_a_repair_is_checked_on_what_it_wrote(job: Path, counts: Counter[str]) -> None:
    """The one command that reads twice: it repairs, then checks the files as they are."""
    ask(job, ["check", "--repair", "JOB"])
    assert opens(counts, "kineto_trace_") == [2, 2]
