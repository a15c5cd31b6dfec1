"""No command opens, reads or links anything twice: its own process counts."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import tracebraid

COUNT = """
import atexit, collections, json, os, sys
out, counts = sys.argv.pop(1), collections.Counter()

def hook(event, args):
    if event == "open" and isinstance(args[0], (str, bytes, os.PathLike)):
        if not args[2] & (os.O_WRONLY | os.O_RDWR):
            counts["open " + os.path.abspath(os.fsdecode(args[0]))] += 1

def counting(module, name):
    function = getattr(module, name)
    def counted(*args, **kwargs):
        counts[name] += 1
        return function(*args, **kwargs)
    setattr(module, name, counted)

import tracebraid.linking.link_traces as linking
for name in ("host_tree", "link_hosts", "link_launches", "find_dependencies", "count_coverage"):
    counting(linking, name)
atexit.register(lambda: open(out, "w").write(json.dumps(counts)))
sys.addaudithook(hook)
from tracebraid.cli.main import run
run()
"""

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


def count(job: Path, arguments: list[str]) -> Counter[str]:
    et, kineto = sorted(job.glob("torch_et_0*")), sorted(job.glob("kineto_trace_0*"))
    paths = {"JOB": str(job), "OUT": str(job.parent / "out")}
    paths |= {name: str(found[0]) for name, found in (("ET", et), ("KINETO", kineto)) if found}
    out = job.parent / "counts.json"
    command = [sys.executable, "-c", COUNT, str(out), *(paths.get(one, one) for one in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Counter(json.loads(out.read_text()))


def opens(counts: Counter[str], word: str) -> list[int]:
    """How often each trace whose name has that word was opened for reading."""
    return [
        times
        for what, times in sorted(counts.items())
        if what.startswith("open ") and word in Path(what).name
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_opens_and_links_once_and_computes_only_what_it_says(job: Path, name: str) -> None:
    counts = count(job, COMMANDS[name])
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
def test_a_plain_file_is_opened_once_too(job: Path, name: str) -> None:
    expect_one_opening(count(plain(job), COMMANDS[name]), name)


def expect_one_opening(counts: Counter[str], name: str) -> None:
    ranks = 1 if "ET" in COMMANDS[name] else RANKS
    # `demo DIR` copies the bundled files, and reads the copies.
    folders = 2 if name == "demo DIR" else 1
    assert opens(counts, "kineto_trace_") == [1] * ranks * folders
    assert opens(counts, "torch_et_") == [1] * (ranks * folders if name not in WITHOUT_ET else 0)


@pytest.mark.parametrize("name", ["check", "summary"])
def test_names_that_tell_nothing_cost_a_look_at_the_head(job: Path, name: str) -> None:
    counts = count(unnamed(job), COMMANDS[name])
    assert max(opens(counts, ".json.gz")) == 2


def test_a_repair_is_checked_on_what_it_wrote(job: Path) -> None:
    """The one command that reads twice: it repairs, then checks the files as they are."""
    counts = count(job, ["check", "--repair", "JOB"])
    assert opens(counts, "kineto_trace_") == [2, 2]
