"""`tracebraid critical-path`: what it prints, writes, refuses, and with which exit code."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.builders import kineto_text, write
from tests.integration.command import run, run_process
from tests.planted import Cause, PlannedJob, Scene, write_ranks

STEP_KEYS = ["step", "span_ns", "path_ns", "residual_ns", "explained", "segments"]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    planned = PlannedJob(2)
    for number in (1, 2, 3):
        with planned.step(number):
            planned.compute(100_000)
            planned.delay(1, Cause.KERNEL, 400_000)
            planned.collective("allreduce")
    return planned.write(tmp_path_factory.mktemp("job"))


def test_json_is_the_path_of_the_library(job: Path) -> None:
    done = run("critical-path", job, "--json")
    assert done.returncode == 0
    data = json.loads(done.stdout)
    assert list(data) == ["steps", "replay_error", "findings"]
    path = tracebraid.critical_path(tracebraid.open(job))
    segments = path.segments.partition_by("step", maintain_order=True)
    for step, row, own in zip(data["steps"], path.steps.to_dicts(), segments, strict=True):
        assert list(step) == STEP_KEYS
        assert {name: step[name] for name in STEP_KEYS[:-1]} == {name: row[name] for name in STEP_KEYS[:-1]}
        assert step["path_ns"] + step["residual_ns"] == step["span_ns"]
        assert step["segments"] == own.drop("step").to_dicts()
    assert set(data["replay_error"]) >= {"steps", "median", "p95"}


def test_people_see_the_steps_the_segments_and_where_they_are(job: Path) -> None:
    done = run("critical-path", job)
    assert done.returncode == 0
    for part in ("ProfilerStep#2", "ncclDevKernel", "transfer", "residual", "stream 20", "what-if"):
        assert part in done.stdout


def test_commands_that_come_next_have_the_path_that_was_given(job: Path, tmp_path: Path) -> None:
    folder = tmp_path / "my job"
    folder.symlink_to(job)
    done = run("critical-path", folder)
    (asked,) = (line for line in done.stdout.splitlines() if "what-if" in line)
    assert shlex.split(asked)[2] == str(folder)


def test_within_a_rank_that_is_early_the_path_waits_for_the_late(job: Path) -> None:
    def kinds(*options: str) -> set[str]:
        data = json.loads(run("critical-path", job, "--json", "--step", "2", *options).stdout)
        (step,) = data["steps"]
        if options:
            assert {segment["rank"] for segment in step["segments"]} == {0}
        return {segment["kind"] for segment in step["segments"]}

    assert "waiting for a member" in kinds("--rank", "0")
    assert "waiting for a member" not in kinds()


def test_the_overlay_and_csv_are_written(job: Path, tmp_path: Path) -> None:
    target = tmp_path / "path.json.gz"
    done = run("critical-path", job, "--step", "1", "--csv", "-o", target)
    assert done.returncode == 0
    rows = pl.read_csv(done.stdout.encode())
    assert rows["duration_ns"].sum() > 0
    assert run("info", target).returncode == 0
    assert run("critical-path", job, "-o", target).returncode == 1


@pytest.mark.parametrize(
    "wrong", [["--step", "9"], ["--rank", "5"], ["--replays", "-1"], ["--json", "--csv"]]
)
def test_what_is_not_there_is_refused(job: Path, wrong: list[str]) -> None:
    done = run("critical-path", job, *wrong)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_trace_without_steps_is_a_whole(tmp_path: Path) -> None:
    scene = Scene(devices=())
    scene.thread().run("aten::mm", 1000)
    folder = write_ranks(tmp_path, [scene])
    (step,) = json.loads(run("critical-path", folder, "--json").stdout)["steps"]
    assert (step["step"], step["span_ns"], step["residual_ns"]) == (None, 1000, 0)
    assert run("critical-path", folder).returncode == 0
    assert run("critical-path", folder, "--step", "1").returncode == 2


def test_a_trace_of_nothing_is_no_traceback(tmp_path: Path) -> None:
    path = write(tmp_path / "kineto_trace_0.json", kineto_text([]))
    done = run_process("critical-path", path)
    assert "Traceback" not in done.stderr
    assert json.loads(run("critical-path", path, "--json").stdout)["steps"] == []
