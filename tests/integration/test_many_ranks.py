"""Jobs of many ranks: they open, answer, cost no more for each rank, and show no more than is legible."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import tracebraid
from benchmarks.made_jobs import RANKS_PER_HOST, SKEW_NS, RankCopies, job_of_copies, write_ranks
from tests.builders import kernel, kineto_text, op, write
from tests.integration.command import fail, run
from tracebraid.analysis.catalog import job_analyses
from tracebraid.analysis.collectives.members import members
from tracebraid.linking import link_traces
from tracebraid.model.engine import Job

_RANKS = 64


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rank of two steps with collectives of three sizes, which name their group."""
    events = []
    for number in range(9):
        at = 1000.0 * number
        sizes: dict[str, Any] = {
            "In msg nelems": 64 << number % 3,
            "Out msg nelems": 64 << number % 3,
            "dtype": "Float",
        }
        group: dict[str, Any] = {"Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Group size": 2}
        events += [
            op("aten::add", at, 20.0, External_id=number + 1),
            kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", at + 100, 400.0, number + 1, **sizes, **group),
        ]
    events += [op(f"ProfilerStep#{step}", 4500.0 * step, 4500.0, cat="user_annotation") for step in range(2)]
    config = [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]}]
    header = {
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2, "pg_config": config},
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
    }
    path = tmp_path_factory.mktemp("template") / "trace.json"
    write(path, kineto_text(events, header))
    return path


@pytest.fixture(scope="module")
def folder(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("job") / "traces"
    write_ranks(RankCopies(_RANKS, template, None), path)
    return path


def answers(job: Job) -> dict[str, pl.DataFrame]:
    return {analysis.name: getattr(tracebraid.analyses, analysis.name)(job) for analysis in job_analyses()}


@pytest.mark.full
def test_written_ranks_have_their_groups_and_the_clocks_of_their_hosts(folder: Path) -> None:
    job = tracebraid.open(folder)
    clocks = tracebraid.analyses.clocks(job)
    offsets = clocks.get_column("offset_ns").to_list()
    assert offsets == pytest.approx([-(rank // RANKS_PER_HOST) * SKEW_NS for rank in range(_RANKS)], abs=2e5)
    sizes = tracebraid.analyses.matched_groups(job).get_column("group_size").unique().sort().to_list()
    assert sizes == [RANKS_PER_HOST, _RANKS]
    present = tracebraid.analyses.collectives(job).get_column("ranks").list.len().to_list()
    assert present.count(_RANKS) == 3


def test_the_same_arguments_write_the_same_bytes(template: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_ranks(RankCopies(3, template, None, steps=1), tmp_path / name)
    first, second = ([path.read_bytes() for path in sorted((tmp_path / name).iterdir())] for name in "ab")
    assert len(first) == 3
    assert first == second
    assert len(set(first)) == 3


@pytest.mark.full
def test_the_order_in_which_ranks_are_asked_changes_no_answer(folder: Path) -> None:
    job = tracebraid.open(folder)
    other = replace(job, files=tuple(reversed(job.files)), _kept={}, _taken={})
    expected, found = answers(job), answers(other)
    assert not expected["stragglers"].is_empty()
    for name, frame in expected.items():
        assert_frame_equal(frame, found[name])


@pytest.mark.full
def test_a_job_of_three_hundred_ranks_answers(template: Path) -> None:
    ranks = 300
    job = job_of_copies(tracebraid.read_timeline(template), ranks)
    assert tracebraid.analyses.clocks(job).height == ranks
    assert tracebraid.analyses.collective_ranks(job).get_column("rank").n_unique() == ranks


@pytest.mark.full
def test_metrics_search_no_table_of_all_ranks_for_each_rank(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeline, search = tracebraid.read_timeline(template), pl.DataFrame.filter
    searches: list[str] = []

    def counted(*given: Any, **named: Any) -> pl.DataFrame:
        searches.append("one")
        return search(*given, **named)

    counts = []
    for job in (job_of_copies(timeline, ranks) for ranks in (8, _RANKS)):
        tracebraid.metrics(job)
        searches.clear()
        with monkeypatch.context() as patched:
            patched.setattr(pl.DataFrame, "filter", counted)
            tracebraid.metrics(job)
        counts.append(len(searches))
    few, many = counts
    assert 0 < many < few + 8


def test_members_of_a_group_take_no_more_memory_where_it_has_more_ranks(template: Path) -> None:
    timeline = tracebraid.read_timeline(template)

    def of_rank(ranks: int) -> int:
        return int(members(job_of_copies(timeline, ranks)[0]).estimated_size())

    assert of_rank(1024) < 1.2 * of_rank(8)


@pytest.mark.full
def test_commands_show_few_of_many_ranks_and_say_how_many_more(folder: Path) -> None:
    text = run("summary", str(folder)).stdout
    assert f"{_RANKS - 16} more ranks" in text
    assert len(text.splitlines()) < 200
    whole = json.loads(run("summary", str(folder), "--json").stdout)
    assert len(whole["ranks"]) == _RANKS


# --- `--ranks` and `--sample`: each command says what its answer then cannot know; contradictio ------


CODE = "ranks-chosen"
SAYS = "only 1 of 2 ranks are read"


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    "command",
    [
        ["summary"],
        ["advise"],
        ["metrics"],
        ["analyze", "collectives"],
        ["analyze", "kernels"],
        ["report", "--text", "--no-critical-path"],
        ["diff", "{path}"],
    ],
    ids=" ".join,
)
def test_every_command_says_that_ranks_were_left_out(demo: Path, command: list[str]) -> None:
    done = run(*(word.format(path=demo) for word in command), demo, "--ranks", "1")
    assert SAYS in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("command", [["summary"], ["advise"], ["diff", "{path}"]], ids=" ".join)
def test_json_has_it_as_a_code(demo: Path, command: list[str]) -> None:
    done = run(*(word.format(path=demo) for word in command), demo, "--sample", "1", "--json")
    codes = [finding["code"] for finding in json.loads(done.stdout)["findings"]]
    assert codes.count(CODE) >= 1


def test_sections_of_a_report_that_compare_ranks_say_so(demo: Path) -> None:
    done = run("report", demo, "--json", "--ranks", "0", "--no-critical-path")
    noted = {
        section["id"]
        for section in json.loads(done.stdout)["sections"]
        for part in section["parts"]
        if part.get("code") == CODE
    }
    assert {"job", "collectives", "trust"} <= noted
    assert "memory" not in noted


@pytest.mark.full
def test_a_whole_job_says_nothing_of_it(demo: Path) -> None:
    for options in (("--ranks", "0-1"), ("--sample", "2"), ()):
        assert CODE not in run("summary", demo, "--json", *options).stdout


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--ranks", "0", "--sample", "1"], "contradict"),
        (["--ranks", "0,7"], "rank 7; it has ranks 0, 1"),
        (["--ranks", "1", "--rank", "0"], "without rank 0: only with ranks 1"),
        (["--ranks", "1-0"], "write 0-1"),
        (["--sample", "0"], "--sample"),
        (["--sample", "many"], "--sample"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_contradictions_and_unknown_ranks_are_wrong_usage(demo: Path, options: list[str], says: str) -> None:
    for command in (["summary"], ["analyze", "kernels"], ["report", "--text"]):
        done = run(*command, demo, *options)
        assert (done.returncode, done.stdout) == (2, "")
        assert says in done.stderr


def test_a_folder_without_traces_is_the_same_error_with_a_sample(tmp_path: Path) -> None:
    assert "there is no trace in it" in fail("summary", tmp_path, "--sample", "3")


# --- No command opens, reads or links anything twice -------------------------------------------------


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
WITHOUT_COVERAGE = {"summary"}
WITH_DEPENDENCIES = {
    "summary",
    "summary --json",
    "check",
    "link -o",
    "demo",
    "demo DIR",
    "link of a pair",
    "chakra-trace-link",
}
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


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_opens_and_links_once_and_computes_only_what_it_says(
    job: Path, name: str, counts: Counter[str]
) -> None:
    counts.clear()
    ask(job, COMMANDS[name])
    expect_one_opening(counts, name)
    ranks = 1 if "ET" in COMMANDS[name] else RANKS
    links = 0 if name in WITHOUT_LINKS else ranks
    found = {stage: counts[stage] for stage in ("host_tree", "link_launches", "link_hosts", "count_coverage")}
    assert found == {
        "host_tree": links,
        "link_launches": links,
        "link_hosts": links,
        "count_coverage": 0 if name in WITHOUT_COVERAGE else links,
    }
    assert counts["find_dependencies"] == (ranks if name in WITH_DEPENDENCIES else 0)


@pytest.mark.full(keep=1)
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
    assert opens(counts, "torch_et_") == [1] * (ranks * folders)


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("name", ["check", "summary"])
def test_names_that_tell_nothing_cost_a_look_at_the_head(job: Path, name: str, counts: Counter[str]) -> None:
    unnamed(job)
    counts.clear()
    ask(job, COMMANDS[name])
    assert max(opens(counts, ".json.gz")) == 2


@pytest.mark.full
def test_a_repair_is_checked_on_what_it_wrote(job: Path, counts: Counter[str]) -> None:
    """The one command that reads twice: it repairs, then checks the files as they are."""
    ask(job, ["check", "--repair", "JOB"])
    assert opens(counts, "kineto_trace_") == [2, 2]
