"""Commands that ask the dependency graph: without numba, and where a rank or an Execution Trace cannot be read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import tracebraid
from tests.integration.command import run
from tests.planted import PlannedJob

ASKED = [
    ["critical-path"],
    ["what-if", "--change", "bandwidth 2"],
    ["what-if", "--sweep"],
    ["what-if", "--stragglers"],
]
WITHOUT_NUMBA = "import sys; sys.modules['numba'] = None; from tracebraid.cli.main import run; run()"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    planned = PlannedJob(2)
    for number in (1, 2):
        with planned.step(number):
            planned.compute(100_000)
            planned.collective("allreduce")
    return planned.write(tmp_path_factory.mktemp("job"))


@pytest.fixture(scope="module")
def damaged(job: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged")
    for file in sorted(job.glob("*.json*")):
        (folder / file.name).write_bytes(b"" if "_1" in file.name else file.read_bytes())
    return folder


@pytest.mark.parametrize("command", ASKED, ids=lambda command: command[-1])
def test_a_rank_that_cannot_be_read_is_named_and_fails_the_command(damaged: Path, command: list[str]) -> None:
    done = run(command[0], damaged, *command[1:], "--json")
    assert done.returncode == 1
    assert "kineto_trace_1" in done.stderr
    findings = {finding["code"] for finding in json.loads(done.stdout)["findings"]}
    assert "rank-unreadable" in findings


def test_the_answer_is_of_the_ranks_that_can_be_read(damaged: Path) -> None:
    done = run("critical-path", damaged, "--json")
    ranks = {segment["rank"] for step in json.loads(done.stdout)["steps"] for segment in step["segments"]}
    assert ranks == {0}


def test_the_rank_that_cannot_be_read_has_no_path(damaged: Path) -> None:
    done = run("critical-path", damaged, "--rank", "1")
    assert (done.returncode, done.stdout) == (1, "")
    assert run("critical-path", damaged, "--rank", "0").returncode == 1


def test_where_no_rank_can_be_read_there_is_an_error(damaged: Path, tmp_path: Path) -> None:
    for file in damaged.iterdir():
        (tmp_path / file.name).write_bytes(b"")
    for command in ASKED:
        done = run(command[0], tmp_path, *command[1:])
        assert (done.returncode, done.stdout) == (1, "")
        assert "Traceback" not in done.stderr


def test_in_python_it_is_an_error(damaged: Path) -> None:
    with pytest.raises(tracebraid.InputError):
        tracebraid.dependency_graph(tracebraid.open(damaged))


def test_segments_as_csv_need_no_replays_of_the_model(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_asked(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr("tracebraid.api.critical_paths.replay_errors", not_asked)
    assert run("critical-path", job, "--csv").returncode == 0


@pytest.mark.parametrize(
    "command", [ASKED[0], ASKED[2], ["advise", "--by-graph"]], ids=lambda command: command[-1]
)
def test_without_numba_the_extra_is_named_in_a_line(job: Path, command: list[str]) -> None:
    arguments = [sys.executable, "-c", WITHOUT_NUMBA, command[0], str(job), *command[1:]]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert "tracebraid[graph]" in done.stderr
