"""Does one bad rank, or a lost Execution Trace, cost no other rank, and is it never passed over in silence?"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tracebraid


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tracebraid", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return Path(shutil.copytree(tracebraid.demo_path(), tmp_path / "job"))


@pytest.mark.parametrize("command", ["link", "summary"])
def test_a_rank_that_cannot_be_read_costs_no_other_and_fails_the_command(job: Path, command: str) -> None:
    (job / "kineto_trace_0.json.gz").write_bytes(b"")
    done = run(command, job, "--json")
    assert done.returncode == 1
    assert [rank["rank"] for rank in json.loads(done.stdout)["ranks"]] == [1]
    assert "rank 0 is left out" in run(command, job).stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["link", "summary"])
def test_one_rank_under_two_names_counts_once_and_fails_the_command(job: Path, command: str) -> None:
    for kind in ("kineto_trace", "torch_et"):
        shutil.copy(job / f"{kind}_0.json.gz", job / f"{kind}_1.json.gz")
    done = run(command, job, "--json")
    assert done.returncode == 1
    assert [rank["rank"] for rank in json.loads(done.stdout)["ranks"]] == [0]
    checked = run("check", job, "--json")
    assert checked.returncode == 1
    codes = [finding["code"] for finding in json.loads(checked.stdout)["findings"]]
    assert "runs-mixed" in codes


def test_a_lost_execution_trace_fails_the_threshold(job: Path) -> None:
    assert run("link", job, "--min-coverage", "0.99").returncode == 0
    (job / "torch_et_1.json.gz").unlink()
    done = run("link", job, "--min-coverage", "0.99")
    assert done.returncode == 1
    assert "rank 1 0.0000" in done.stderr


def test_a_job_without_any_execution_trace_is_measured_by_its_launches(job: Path) -> None:
    for rank in (0, 1):
        (job / f"torch_et_{rank}.json.gz").unlink()
    assert run("link", job, "--min-coverage", "0.99").returncode == 0


def test_an_input_is_never_overwritten_by_the_output(job: Path) -> None:
    et, kineto = job / "torch_et_0.json.gz", job / "kineto_trace_0.json.gz"
    before = et.read_bytes()
    done = run("link", et, kineto, "-o", et)
    assert done.returncode == 1
    assert "one of the traces to read" in done.stderr
    assert et.read_bytes() == before
