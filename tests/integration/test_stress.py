"""The short form of `make stress`: some scenarios, once; and proof that its judge sees what it must."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tools.stress.growth import Growth
from tools.stress.judge import judge
from tools.stress.model import CAPTURED, Outcome, ProblemKind, Scenario, Trial
from tools.stress.runner import Plan, stress
from tools.stress.scenarios import SCENARIOS

pytestmark = [pytest.mark.full, pytest.mark.torch]

SHORT = ("recordings", "forks", "layouts")
"""Threads, forks and recordings that start and stop at once; children; values of every kind."""
SCENARIO = Scenario("nothing", lambda run: None)
TRIAL = Trial("nothing", 1, CAPTURED[0])


@pytest.mark.slow
def test_the_short_form_finds_nothing(tmp_path: Path) -> None:
    plan = Plan(SHORT, (CAPTURED[0],), seed=1, rounds=1, time_s=0.0, is_full=False, is_strict=True)
    results = stress(plan, tmp_path, workers=2)
    assert [str(problem) for problem in results.problems] == []
    assert sum(results.trials.values()) == 2 * len(SHORT)


def test_each_scenario_says_what_it_tries() -> None:
    scenarios = SCENARIOS.values()
    assert len({scenario.about for scenario in scenarios}) == len(scenarios)
    assert all(scenario.ways and scenario.recorders for scenario in scenarios)


def outcome(folder: Path, name: str, stdout: str = "results 1\n", stderr: str = "") -> Outcome:
    """How a program ended that was captured well."""
    out = folder / name / "out"
    out.mkdir(parents=True)
    content = gzip.compress(json.dumps({"schema": "x", "nodes": []}).encode())
    (out / "torch_et_0.json.gz").write_bytes(content)
    files = [{"path": "torch_et_0.json.gz", "size_bytes": len(content)}]
    window = {"complete": True, "failure": None, "files": files}
    (out / "manifest_0.json").write_text(json.dumps({"windows": [window]}))
    return Outcome(0, stdout, stderr, 1.0, folder / name, 0)


def kinds(folder: Path, got: Outcome, scenario: Scenario = SCENARIO) -> set[ProblemKind]:
    """What the judge finds; the traces themselves are none here, which `check` says."""
    found = judge(scenario, TRIAL, outcome(folder, "plain"), got)
    return {problem.kind for problem in found if not problem.detail.startswith("check:")}


def test_a_program_that_ends_as_without_a_capture_is_fine(tmp_path: Path) -> None:
    assert kinds(tmp_path, outcome(tmp_path, "got")) == set()


def test_the_judge_sees_how_a_program_ended(tmp_path: Path) -> None:
    got = outcome(tmp_path, "got")
    wrong = [
        (ProblemKind.HANG, replace(got, returncode=None)),
        (ProblemKind.EXIT, replace(got, returncode=-11)),
        (ProblemKind.RESULT, replace(got, stdout="results 2\n")),
        (ProblemKind.ERROR, replace(got, stderr="Traceback (most recent call last):")),
        (ProblemKind.ERROR, replace(got, stderr="x.py:1: UserWarning: AccumulateGrad")),
        (ProblemKind.STRAY, replace(got, strays=1)),
    ]
    for number, (kind, ended) in enumerate(wrong):
        assert kinds(tmp_path / str(number), ended) == {kind}


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("torch_et_1.json.gz", b"", ProblemKind.FILE),
        ("kineto_trace_0.json.gz", gzip.compress(b"{}" * 9)[:-9], ProblemKind.FILE),
        ("torch_et_0.json.gz", gzip.compress(b"[]"), ProblemKind.FILE),
        (".torch_et_0.json.gz.part", b"", ProblemKind.LEFT),
        ("notes.txt", b"", ProblemKind.LEFT),
        ("../tmp/core", b"", ProblemKind.LEFT),
        ("../own/core", b"", ProblemKind.LEFT),
    ],
    # gzip writes the time of day: as a name, each worker of xdist would collect another test.
    ids=["empty", "cut", "no-trace", "part", "stray", "core", "own-core"],
)
def test_the_judge_sees_files(tmp_path: Path, name: str, content: bytes, kind: ProblemKind) -> None:
    got = outcome(tmp_path, "got")
    path = got.folder / "out" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    assert kinds(tmp_path, got) == {kind}


def test_the_judge_sees_lost_windows_and_empty_folders(tmp_path: Path) -> None:
    got = outcome(tmp_path, "got")
    lost = {"windows": [{"complete": False, "failure": "boom", "files": []}]}
    (got.folder / "out" / "manifest_0.json").write_text(json.dumps(lost))
    (got.folder / "out" / "window_1").mkdir()
    assert kinds(tmp_path, got) == {ProblemKind.LOST, ProblemKind.LEFT}
    assert kinds(tmp_path / "again", got, replace(SCENARIO, may_lose=True)) == {ProblemKind.LEFT}


def test_memory_that_grows_after_the_first_minute_is_a_problem() -> None:
    growth = Growth({"steady": [(float(at), 100.0) for at in range(600)]})
    growth.samples["at first"] = [(float(at), 50.0 + min(at, 50)) for at in range(600)]
    growth.samples["leaking"] = [(float(at), 100.0 + at / 10) for at in range(600)]
    assert [problem.trial.scenario for problem in growth.problems()] == ["growth of leaking"]
