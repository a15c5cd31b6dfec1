"""`tracebraid diff` as people and CI run it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tracebraid
from tests.integration.command import run, run_process
from tests.planted.programs import GEMM_NS, Program
from tracebraid.model.answers import DiffChange
from tracebraid.model.questions.comparison import CautionCode

STEPS = [2 * GEMM_NS + 100 * number for number in range(8)]
PLAIN = Program()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of runs, each but the first changed in one thing; tests only read them."""
    root = tmp_path_factory.mktemp("runs")
    made = {
        "plain": (PLAIN, STEPS),
        "again": (PLAIN, [ns + 50 for ns in STEPS]),
        "slower": (PLAIN, [int(ns * 1.2) for ns in STEPS]),
        "added": (replace(PLAIN, added=True), STEPS),
        "short": (PLAIN, STEPS[:2]),
    }
    folders = {}
    for name, (program, steps) in made.items():
        folders[name] = root / name
        folders[name].mkdir()
        program.scene(steps).write(folders[name])
    folders["job"] = root / "job"
    folders["job"].mkdir()
    for rank in range(2):
        PLAIN.scene(STEPS, rank, 2).write(folders["job"])
    folders["larger"] = root / "larger"
    folders["larger"].mkdir()
    for rank in range(3):
        PLAIN.scene([int(ns * (1 + 0.1 * rank)) for ns in STEPS], rank, 3).write(folders["larger"])
    return folders


def data_of(*arguments: object) -> dict[str, Any]:
    done = run("diff", *arguments, "--json")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def codes(found: dict[str, Any]) -> set[str]:
    return {caution["code"] for caution in found["cautions"]}


def test_the_gate_is_open_for_the_same_program_and_shut_for_a_slower_one(runs: dict[str, Path]) -> None:
    gate = ("--fail-on-regression", "5%")
    assert run("diff", runs["plain"], runs["again"], *gate).returncode == 0
    assert run("diff", runs["plain"], runs["slower"], *gate).returncode == 1
    assert run("diff", runs["slower"], runs["plain"], *gate).returncode == 0
    assert run("diff", runs["plain"], runs["slower"], "--fail-on-regression", "50 %").returncode == 0
    assert run("diff", runs["plain"], runs["slower"]).returncode == 0


def test_a_gate_of_too_few_steps_is_open_and_warns(runs: dict[str, Path]) -> None:
    done = run("diff", runs["plain"], runs["short"], "--fail-on-regression", "5%")
    assert done.returncode == 0
    assert "warning" in done.stderr
    found = data_of(runs["plain"], runs["short"], "--fail-on-regression", "5%")
    assert found["can_judge"] is False
    assert CautionCode.FEW_STEPS.value in codes(found)


def test_json_has_all_tables_and_its_parts_add_up(runs: dict[str, Path]) -> None:
    found = data_of(runs["plain"], runs["added"])
    step = found["steps"][0]
    for column in ("a_ns", "b_ns", "difference_ns"):
        assert sum(part[column] for part in found["parts"]) == step[column]
    assert found["difference_ns"] == step["difference_ns"] > 0
    assert found["significant"] is True
    changed = [row for row in found["kernels"] if row["change"] != DiffChange.SAME.value]
    assert [(row["change"], row["kernel_b"]) for row in changed] == [
        (DiffChange.ADDED.value, "dropout_kernel")
    ]
    assert "regression" not in found
    assert data_of(runs["plain"], runs["slower"], "--fail-on-regression", "5%")["regression"]["is_slower"]


def test_the_report_names_what_changed(runs: dict[str, Path]) -> None:
    done = run("diff", runs["plain"], runs["added"])
    assert done.returncode == 0
    assert "aten::dropout" in done.stdout
    assert "dropout_kernel" in done.stdout


def test_the_same_input_gives_the_same_bytes(runs: dict[str, Path]) -> None:
    arguments = ("diff", runs["plain"], runs["slower"], "--json")
    first, second = run_process(*arguments), run_process(*arguments)
    assert first.returncode == 0
    assert first.stdout == second.stdout
    assert first.stderr == ""


def test_jobs_of_other_sizes_are_compared_on_the_ranks_of_both(runs: dict[str, Path]) -> None:
    found = data_of(runs["job"], runs["larger"])
    assert [row["rank"] for row in found["steps"]] == [None, 0, 1]
    assert {CautionCode.WORLD_SIZES_DIFFER.value, CautionCode.RANKS_UNPAIRED.value} <= codes(found)
    by_rank = [row["difference_ns"] for row in found["steps"][1:]]
    assert abs(by_rank[0]) < by_rank[1]
    assert found["difference_ns"] == pytest.approx(sum(by_rank) / 2, abs=2)
    assert sum(part["difference_ns"] for part in found["parts"]) == found["difference_ns"]


def test_another_annotation_and_none(runs: dict[str, Path]) -> None:
    found = data_of(runs["plain"], runs["slower"], "--annotation", "train_step")
    assert CautionCode.NO_STEPS.value in codes(found)
    assert found["significant"] is False


def test_the_same_file_twice_differs_in_nothing(runs: dict[str, Path]) -> None:
    found = data_of(runs["plain"], runs["plain"], "--fail-on-regression", "0%")
    assert CautionCode.SAME_FILES.value in codes(found)
    assert found["regression"]["is_slower"] is False
    assert {row["difference_ns"] for row in [*found["parts"], *found["ops"], *found["kernels"]]} == {0}


@pytest.mark.parametrize("share", ["5", "five", "-5%", "%", "nan%"])
def test_a_share_that_is_no_percentage_is_wrong_usage(runs: dict[str, Path], share: str) -> None:
    done = run("diff", runs["plain"], runs["plain"], f"--fail-on-regression={share}")
    assert done.returncode == 2


def test_what_is_no_trace_and_ranks_that_no_run_shares_are_said(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "text.json").write_text("no trace")
    assert run("diff", runs["plain"], tmp_path / "text.json").returncode == 1
    assert run("diff", runs["plain"], tmp_path / "absent").returncode == 1
    other = tmp_path / "other"
    other.mkdir()
    for rank in (5, 6):
        PLAIN.scene(STEPS[:1], rank, 8).write(other)
    done = run("diff", runs["job"], other)
    assert done.returncode == 2
    with pytest.raises(tracebraid.ArgumentError):
        tracebraid.diff(runs["job"], other)


def test_python_takes_paths_jobs_and_linked_traces(runs: dict[str, Path]) -> None:
    by_path = tracebraid.diff(runs["plain"], str(runs["slower"]))
    job, linked = tracebraid.open(runs["plain"]), tracebraid.open(runs["slower"])[0]
    assert tracebraid.diff(job, linked).steps.equals(by_path.steps)
    assert by_path.is_slower(0.05)
    assert "difference_ns" in repr(by_path)


def test_names_of_a_trace_do_not_steer_the_terminal(runs: dict[str, Path], tmp_path: Path) -> None:
    scene = PLAIN.scene(STEPS)
    host, stream = scene.thread("other"), scene.stream(7)
    host.until(STEPS[0])
    with host.op("[red]op\x1b[31m", dims=[[2]]):
        host.launch(stream, "[/bold]kernel\x1b[0m", 100)
    scene.write(tmp_path)
    done = run("diff", runs["plain"], tmp_path, "--top", "50")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert "[red]op" in done.stdout
    assert "[/bold]kernel" in done.stdout


def test_steps_that_overlap_and_a_trace_cut_in_two_are_compared(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    scene = PLAIN.scene(STEPS)
    host = scene.thread("other", STEPS[0])
    with host.step(2, 5 * GEMM_NS):
        host.run("aten::other", 1_000)
    text = scene.write(tmp_path).read_text()
    found = data_of(runs["plain"], tmp_path)
    assert sum(part["b_ns"] for part in found["parts"]) == found["steps"][0]["b_ns"]
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut/kineto_trace_0.json").write_text(text[: len(text) // 2])
    done = run("diff", runs["plain"], tmp_path / "cut", "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert found["findings"]
    assert sum(part["b_ns"] for part in found["parts"]) == found["steps"][0]["b_ns"]
