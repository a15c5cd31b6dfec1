"""Which steps `tracebraid capture -- COMMAND` counts where they are not plain to see."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.builders import Json
from tests.integration.captured import SCRIPTS, assert_sound, capture_command, manifest_of, step_numbers
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
    done = capture_command(tmp_path, sys.executable, PROGRAM, "profiled")
    assert (done.returncode, done.stdout) == (0, "1\ndone\n"), done.stderr
    assert "a profiler is active in this process. Leave it before the capture begins" in done.stderr


def test_processes_of_one_rank_do_not_write_over_each_other(tmp_path: Path) -> None:
    one = f"{sys.executable} {PROGRAM} plain"
    done = capture_command(tmp_path, "sh", "-c", f"{one} && {one}", options=("--no-check",))
    assert (done.returncode, done.stdout) == (0, "done\ndone\n"), done.stderr
    assert "this file is there already, from another run or another process of the same rank" in done.stderr
    proven(tmp_path)
    assert manifest_of(tmp_path)["steps_seen"] == 12
