"""Which steps `tracebraid capture -- COMMAND` counts where they are not plain to see."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.builders import Json
from tests.integration.captured import (
    SCRIPTS,
    assert_sound,
    capture_command,
    files_of,
    manifest_of,
    step_numbers,
)
from tests.integration.proof import proven

pytest.importorskip("torch")
pytestmark = pytest.mark.torch


PROGRAM = str(SCRIPTS / "counted.py")


def captured(folder: Path, *arguments: str) -> Json:
    """The manifest of a program that ends well, proven."""
    done = capture_command(folder, sys.executable, *arguments, options=("--no-check",))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert f"tracebraid: the traces are in {folder}" in done.stderr
    return proven(folder)[0]


def test_a_program_that_asks_for_torch_before_it_imports_it(tmp_path: Path) -> None:
    """As libraries do that can go without it."""
    asks = "import importlib.util, runpy, sys; assert importlib.util.find_spec('torch') is not None"
    run = "sys.argv[0] = sys.argv[1]; sys.path.insert(0, sys.argv[3]); runpy.run_path(sys.argv.pop(1))"
    manifest = captured(tmp_path, "-c", f"{asks}; {run}", PROGRAM, "plain", str(SCRIPTS))
    assert (manifest["steps_seen"], manifest["windows"][0]["steps"]) == (12, [7, 8, 9])


@pytest.mark.parametrize("word", ["evaluated_first", "replaced"])
def test_steps_that_stop_for_others_do_not_keep_the_window_open(tmp_path: Path, word: str) -> None:
    """Else all the rest of the program would be recorded, until its memory is full."""
    (window,) = captured(tmp_path, PROGRAM, word)["windows"]
    assert (window["complete"], len(window["steps"])) == (True, 3)


def test_forwards_and_evaluations_between_an_optimizers_steps_are_none(tmp_path: Path) -> None:
    manifest = captured(tmp_path, PROGRAM, "accumulated")
    assert (manifest["steps_seen"], manifest["steps_counted_by"]) == (12, "optimizer")
    (linked,) = assert_sound(tmp_path)
    per_step = tracebraid.ops(linked, per_step=True).filter(pl.col("step").is_not_null())
    of_linear = per_step.filter(name="aten::linear").group_by("step").agg(pl.col("count").sum())
    # The evaluation after a step belongs to the next one; two layers each.
    assert of_linear.sort("step").rows() == [(f"ProfilerStep#{step}", 8) for step in (7, 8, 9)]


def test_a_module_that_is_compiled_in_one_graph_stays_in_one_graph(tmp_path: Path) -> None:
    manifest = captured(tmp_path, PROGRAM, "compiled")
    assert (manifest["steps_seen"], manifest["steps_counted_by"]) == (12, "module")
    assert step_numbers(tracebraid.open(tmp_path)[0]) == [7, 8, 9]


def test_a_program_with_a_profiler_of_its_own_keeps_it_and_is_told_so(tmp_path: Path) -> None:
    done = capture_command(tmp_path, sys.executable, PROGRAM, "profiled", options=("--require",))
    assert (done.returncode, done.stdout) == (1, "1\ndone\n"), done.stderr
    assert "another profiler was active" in done.stderr
    assert files_of(tmp_path) == ["manifest_0.json"]


def test_a_training_is_recorded_in_place_of_the_evaluation_before_it(tmp_path: Path) -> None:
    """Whose window was complete, as no optimizer was there."""
    manifest = captured(tmp_path, PROGRAM, "evaluated_long")
    assert (manifest["steps_counted_by"], manifest["loop"], manifest["steps_seen"]) == (
        "optimizer",
        "SGD",
        12,
    )
    assert [window["steps"] for window in manifest["windows"]] == [[7, 8, 9]]
    names = tracebraid.open(tmp_path)[0].timeline.events.get_column("name").cast(str)
    assert names.str.contains("Optimizer.step#SGD.step").sum() == 3
    evaluation = {"counted_by": "module", "name": "Sequential", "training": False, "followed": False}
    assert {**evaluation, "steps": 30} in manifest["loops"]


def test_an_optimizer_that_is_made_long_before_its_first_step_is_waited_for(tmp_path: Path) -> None:
    manifest = captured(tmp_path, PROGRAM, "made_early")
    assert (manifest["steps_counted_by"], manifest["steps_seen"]) == ("optimizer", 12)
    assert [window["steps"] for window in manifest["windows"]] == [[7, 8, 9]]


def test_a_training_on_another_thread_than_the_evaluation_is_recorded(tmp_path: Path) -> None:
    (window,) = captured(tmp_path, PROGRAM, "threaded")["windows"]
    assert (window["steps"], window["complete"]) == ([7, 8, 9], True)


def test_a_session_of_another_thread_is_left_alone(tmp_path: Path) -> None:
    """Ending one that records allocations from there crashes the process."""
    done = capture_command(tmp_path, sys.executable, PROGRAM, "threaded", options=("--memory", "--require"))
    assert (done.returncode, done.stdout) == (1, "done\n"), done.stderr
    assert [window["files"] for window in manifest_of(tmp_path)["windows"]] == [[]]


def test_the_end_of_the_process_is_no_step(tmp_path: Path) -> None:
    manifest = captured(tmp_path, PROGRAM, "short")
    (window,) = manifest["windows"]
    assert (window["steps"], window["complete"], manifest["steps_seen"]) == ([7], False, 8)
    (linked,) = assert_sound(tmp_path)
    assert linked.et is not None
    for names in (linked.timeline.events.get_column("name"), linked.et.nodes.get_column("name")):
        assert names.cast(str).str.contains(r"ProfilerStep#\d").sum() == 1


@pytest.mark.parametrize(
    ("word", "said"), [("compiled_step", "--steps-by module"), ("captured", "tracebraid.capture itself")]
)
def test_why_nothing_was_captured_is_told_apart(tmp_path: Path, word: str, said: str) -> None:
    done = capture_command(
        tmp_path / "out", sys.executable, PROGRAM, word, str(tmp_path), options=("--require",)
    )
    assert (done.returncode, done.stdout) == (1, "done\n"), done.stderr
    assert said in done.stderr
    assert files_of(tmp_path / "out") == []


def test_processes_of_one_rank_do_not_write_over_each_other(tmp_path: Path) -> None:
    one = f"{sys.executable} {PROGRAM} plain"
    done = capture_command(tmp_path, "sh", "-c", f"{one} && {one}", options=("--no-check",))
    assert (done.returncode, done.stdout) == (0, "done\ndone\n"), done.stderr
    assert "this file is there already, from another run or another process of the same rank" in done.stderr
    proven(tmp_path)
    assert manifest_of(tmp_path)["steps_seen"] == 12
