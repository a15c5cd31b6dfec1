"""Ranks that cannot be read: one policy of the job, for answers in Python and for commands."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracebraid
from tests.integration.command import run
from tests.planted import PlannedJob
from tracebraid.engine.pool import ProcessPool
from tracebraid.errors import ArgumentError, InputError
from tracebraid.model.engine import Job
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.rank_files import Progress, RankFiles
from tracebraid.reports.renderers import report_data

FUNCTIONS: dict[str, Callable[[Job], Any]] = {
    "an analysis of each rank": tracebraid.analyses.breakdown,
    "an analysis of the job": tracebraid.analyses.collectives,
    "analyze": lambda job: tracebraid.analyze("ops", job, step=1).frame,
    "analyze over all ranks": lambda job: tracebraid.analyze("rank_waits", job).frame,
    "ask": lambda job: job.ask(tracebraid.analyses.ops)[0],
    "iteration": lambda job: pl.DataFrame({"rank": [linked.rank for linked in job]}),
    "metrics": tracebraid.metrics,
    "advise": lambda job: tracebraid.advise(job).items,
    "critical_path": lambda job: tracebraid.critical_path(job, replays=0).segments,
    "what_if": lambda job: tracebraid.what_if(job, "bandwidth 2").steps,
    "sweep": tracebraid.sweep,
    "diff": lambda job: tracebraid.diff(job, job).parts,
    "sql": lambda job: tracebraid.sql(job, "select rank, count(*) as n from events group by 1 order by 1"),
    "report": lambda job: pl.DataFrame({"ids": _section_ids(job)}),
}
COMMANDS = [
    *(
        "summary",
        "summary --json",
        "analyze breakdown",
        "analyze collectives --json",
        "metrics",
        "advise --json",
    ),
    *(
        "critical-path",
        "what-if --sweep",
        "report --text",
        "link --json",
        "sql 'select count(*) from events'",
    ),
    *("export --to parquet -o OUT", "export --to perfetto -o OUT", "export --to speedscope -o OUT"),
]


def _section_ids(job: Job) -> list[str]:
    return [section["id"] for section in report_data(tracebraid.report(job))["sections"]]


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    job, folder = PlannedJob(3), tmp_path_factory.mktemp("intact")
    for number in range(1, 4):
        with job.step(number):
            job.compute(100_000)
            job.collective("allreduce", transfer=50_000)
    job.write(folder)
    return folder


@pytest.fixture(scope="module")
def damaged(intact: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rank 1 cannot be read."""
    folder = tmp_path_factory.mktemp("damaged")
    shutil.copytree(intact, folder, dirs_exist_ok=True)
    (folder / "kineto_trace_1.json").write_text('{"traceEvents": 5}')
    return folder


@pytest.fixture(scope="module")
def twice(intact: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of rank 1 is a copy of that of rank 2."""
    folder = tmp_path_factory.mktemp("twice")
    shutil.copytree(intact, folder, dirs_exist_ok=True)
    shutil.copy(folder / "kineto_trace_2.json", folder / "kineto_trace_1.json")
    return folder


@pytest.fixture(scope="module")
def unreadable(intact: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """No rank can be read."""
    folder = tmp_path_factory.mktemp("unreadable")
    for rank in range(3):
        (folder / f"kineto_trace_{rank}.json").write_text('{"traceEvents": 5}')
    return folder


@pytest.fixture(params=["damaged", "twice"])
def faulty(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.getfixturevalue(request.param)
    return folder


def left_out(job: Job) -> list[object]:
    return [
        finding.details["rank"] for finding in job.findings if finding.code is FindingCode.RANK_UNREADABLE
    ]


asked = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS.keys())


@pytest.mark.full(keep=2)
@asked
def test_by_default_a_rank_that_cannot_be_read_is_an_error(
    function: Callable[[Job], Any], faulty: Path
) -> None:
    with pytest.raises(InputError):
        function(tracebraid.open(faulty))


@pytest.mark.full(keep=4)
@asked
def test_a_skipped_rank_is_left_out_of_the_answer_and_is_a_finding(
    function: Callable[[Job], Any], faulty: Path, intact: Path
) -> None:
    job = tracebraid.open(faulty, unreadable="skip")
    found = function(job)
    assert left_out(job) == [1]
    expected = function(tracebraid.open(intact, ranks=[0, 2]))
    assert found.equals(expected)
    assert function(job).equals(found), "it is left out of the next answer, too"
    assert left_out(job) == [1]


@asked
def test_no_rank_that_can_be_read_is_an_error(function: Callable[[Job], Any], unreadable: Path) -> None:
    with pytest.raises(InputError):
        function(tracebraid.open(unreadable, unreadable="skip"))


@pytest.mark.full(keep=1)
@asked
def test_each_rank_is_read_once_and_progress_rises_to_the_end(
    function: Callable[[Job], Any], damaged: Path
) -> None:
    shares: list[float] = []
    reads = Counter[int]()
    job = tracebraid.open(damaged, unreadable="skip", progress=shares.append)

    def counted(files: RankFiles, progress: Progress | None) -> LinkedTrace:
        reads[files.rank] += 1
        return job.load(files, progress)

    function(replace(job, load=counted))
    passes = 2 if function is FUNCTIONS["diff"] else 1
    assert reads == dict.fromkeys(range(3), passes)
    assert [rising[-1] for rising in rising_parts(shares)] == [1.0] * passes


def rising_parts(shares: list[float]) -> list[list[float]]:
    """The progress of each pass."""
    falls = [index for index in range(1, len(shares)) if shares[index] < shares[index - 1]]
    return [shares[first:last] for first, last in pairwise([0, *falls, len(shares)])]


@pytest.mark.full
def test_progress_of_worker_processes_rises_to_the_end(damaged: Path) -> None:
    shares: list[float] = []
    job = tracebraid.open(damaged, unreadable="skip", engine=ProcessPool(2), progress=shares.append)
    tracebraid.analyses.collectives(job)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_a_later_question_of_the_same_kind_reads_nothing_again(damaged: Path) -> None:
    job = tracebraid.open(damaged, unreadable="skip")
    tracebraid.analyses.collectives(job)
    again = replace(job, load=lambda *_: pytest.fail("a rank is read"))
    tracebraid.analyses.clocks(again)
    assert again.ranks == [0, 1, 2]
    assert left_out(again) == [1]


def test_findings_in_traces_and_between_ranks_are_those_of_the_job(intact: Path, tmp_path: Path) -> None:
    shutil.copytree(intact, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "kineto_trace_1.json"
    path.write_text(path.read_text()[:-400])
    job = tracebraid.open(tmp_path)
    assert not job.findings
    tracebraid.analyses.collectives(job)
    first = job.findings
    assert {finding.path for finding in first} >= {str(path)}
    tracebraid.analyses.collectives(job)
    assert job.findings == first


def test_an_opened_rank_and_an_unknown_policy_are_errors(damaged: Path) -> None:
    with pytest.raises(InputError):
        tracebraid.open(damaged, unreadable="skip")[1]
    with pytest.raises(ArgumentError, match="raise, skip"):
        tracebraid.open(damaged, unreadable="ignore")


@pytest.mark.full
def test_a_report_of_a_rank_without_its_execution_trace_is_made_if_it_is_skipped(tmp_path: Path) -> None:
    shutil.copytree(tracebraid.demo_path(), tmp_path, dirs_exist_ok=True)
    (tmp_path / "torch_et_1.json.gz").write_bytes(b"{")
    job = tracebraid.open(tmp_path, unreadable="skip")
    tracebraid.report(job, with_graph=False)
    assert left_out(job) == [1]
    with pytest.raises(InputError):
        tracebraid.report(tracebraid.open(tmp_path), with_graph=False)


def words(command: str, path: Path, out: Path) -> list[str]:
    name, *rest = [part.replace("OUT", str(out / "out")) for part in _parts(command)]
    return [name, *rest[:1], str(path), *rest[1:]] if name == "analyze" else [name, str(path), *rest]


def _parts(command: str) -> list[str]:
    first, _, query = command.partition(" '")
    return [*first.split(), *([query.rstrip("'")] if query else [])]


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    ("command", "folder"),
    [*((each, "damaged") for each in COMMANDS), *((each, "twice") for each in COMMANDS[::4])],
)
def test_a_command_skips_the_rank_says_so_once_and_fails(
    command: str, folder: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    done = run(*words(command, request.getfixturevalue(folder), tmp_path))
    assert done.returncode == 1
    assert done.stderr.count("rank 1 is skipped") == 1 or "--json" in command
    assert done.stdout or list(tmp_path.iterdir())


@pytest.mark.parametrize("command", COMMANDS[::3])
def test_a_command_without_any_readable_rank_fails(command: str, unreadable: Path, tmp_path: Path) -> None:
    done = run(*words(command, unreadable, tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert not list(tmp_path.iterdir())
