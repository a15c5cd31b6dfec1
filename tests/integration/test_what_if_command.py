"""`tracebraid what-if` with a change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.command import run
from tests.planted import PlannedJob


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    job = PlannedJob(2)
    for number in (1, 2):
        with job.step(number):
            job.compute(50_000)
            job.collective(transfer=80_000)
    return job.write(tmp_path_factory.mktemp("job"))


def test_json(traces: Path) -> None:
    found = run("what-if", traces, "--change", "bandwidth 2", "--change", "scale 1 kind=kernel", "--json")
    assert found.returncode == 0, found.stderr
    answer = json.loads(found.stdout)
    assert answer["gain_ns"] == answer["before_ns"] - answer["after_ns"] == 40_000
    assert len(answer["changes"]) == 2
    assert [row["rank"] for row in answer["steps"]] == [None, None, 0, 1, 0, 1]


def test_report_and_csv(traces: Path) -> None:
    report = run("what-if", traces, "--change", "bandwidth 2")
    assert report.returncode == 0, report.stderr
    assert "bandwidth 2" in report.stdout
    rows = run("what-if", traces, "--change", "bandwidth 2", "--csv")
    assert rows.returncode == 0, rows.stderr
    assert rows.stdout.splitlines()[0].startswith("step,rank,before_ns,after_ns,gain_ns")


@pytest.mark.parametrize("change", ["faster 2", "scale 0.5 name=nothing"])
def test_a_change_that_cannot_be_is_a_usage_error(traces: Path, change: str) -> None:
    found = run("what-if", traces, "--change", change)
    assert found.returncode == 2
    assert "Traceback" not in found.stderr
