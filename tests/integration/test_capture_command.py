"""`tracebraid capture -- COMMAND`: programs that know nothing of tracing, captured in their steady state."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.integration.captured import (
    SCRIPTS,
    TORCHRUN,
    TRAIN,
    assert_sound,
    capture_command,
    files_of,
    manifest_of,
    step_numbers,
)

pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def told(folder: Path, *words: str, steps: int = 12, options: tuple[str, ...] = ()) -> str:
    """Capture a program that ends well; what was said on standard error."""
    done = capture_command(folder, sys.executable, TRAIN, str(steps), *words, options=options)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    return done.stderr


def test_a_training_script_is_captured_by_its_optimizers_steps(tmp_path: Path) -> None:
    said = told(tmp_path)
    (linked,) = assert_sound(tmp_path)
    assert step_numbers(linked) == [7, 8, 9]
    assert linked.coverage.host_ops.share == 1.0
    manifest = manifest_of(tmp_path)
    assert (manifest["steps_seen"], manifest["steps_counted_by"]) == (12, "optimizer")
    assert TRAIN in manifest["command_line"]
    assert f"tracebraid: {tmp_path}: it links" in said


def test_each_step_holds_one_forward_one_backward_and_one_update(tmp_path: Path) -> None:
    told(tmp_path)
    per_step = tracebraid.ops(tracebraid.open(tmp_path)[0], per_step=True)
    names = ["Optimizer.step#SGD.step", "AddmmBackward0", "aten::linear"]
    counts = per_step.filter(pl.col("step").is_not_null() & pl.col("name").is_in(names))
    assert counts.group_by("step", "name").agg(pl.col("count").sum()).sort("step", "name").rows() == [
        (f"ProfilerStep#{step}", name, 1 if "SGD" in name else 2)
        for step in (7, 8, 9)
        for name in sorted(names)
    ]


def test_the_schedule_is_that_of_the_options(tmp_path: Path) -> None:
    options = ("--skip-first", "1", "--wait", "1", "--warmup", "1", "--active", "2", "--repeat", "2")
    told(tmp_path, options=options)
    assert [step_numbers(one) for one in assert_sound(tmp_path, windows=2)] == [[3, 4], [7, 8]]


def test_a_second_optimizer_counts_nothing(tmp_path: Path) -> None:
    told(tmp_path, "gan")
    assert_sound(tmp_path)
    assert manifest_of(tmp_path)["steps_seen"] == 12


def test_an_inference_script_is_captured_by_its_modules_calls(tmp_path: Path) -> None:
    told(tmp_path, "infer")
    (linked,) = assert_sound(tmp_path)
    manifest = manifest_of(tmp_path)
    assert (manifest["steps_seen"], manifest["steps_counted_by"]) == (12, "module")
    assert linked.timeline.events.get_column("name").cast(str).str.contains("^aten::linear$").sum() == 6


def test_an_annotation_around_the_optimizer_costs_parents_that_can_be_repaired(tmp_path: Path) -> None:
    told(tmp_path, "annotated")
    assert_sound(tmp_path)
    codes = {one.finding.code for one in tracebraid.check(tmp_path).diagnoses}
    assert codes & {"parents-differ", "parent-never-written"}
    assert any(one.written for one in tracebraid.repair(tmp_path))
    assert_sound(tmp_path)
    codes = {one.finding.code for one in tracebraid.check(tmp_path).diagnoses}
    assert not codes & {"parents-differ", "parent-never-written"}


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["workers", "spawned-workers"])
def test_the_workers_of_a_loader_leave_nothing(tmp_path: Path, workers: str) -> None:
    told(tmp_path, workers)
    (linked,) = assert_sound(tmp_path)
    assert linked.coverage.host_ops.share == 1.0
    assert files_of(tmp_path) == ["kineto_trace_0.json.gz", "manifest_0.json", "torch_et_0.json.gz"]


@pytest.mark.slow
def test_a_compiled_model_is_captured(tmp_path: Path) -> None:
    told(tmp_path, "compile")
    (linked,) = assert_sound(tmp_path)
    assert linked.timeline.events.get_column("name").cast(str).str.starts_with("Torch-Compiled Region").any()
    assert manifest_of(tmp_path)["steps_seen"] == 12


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dist", "fsdp"])
def test_both_ranks_of_torchrun_are_captured(tmp_path: Path, kind: str) -> None:
    done = capture_command(tmp_path, *TORCHRUN, TRAIN, "12", kind, "workers")
    assert done.returncode == 0, done.stderr
    linked = assert_sound(tmp_path, world=2)
    assert [step_numbers(one) for one in linked] == [[7, 8, 9]] * 2
    for rank, one in enumerate(linked):
        manifest = manifest_of(tmp_path, rank)
        assert (manifest["rank_from"], manifest["backend"]) == ("torch.distributed", "gloo")
        assert manifest["process_groups"][0]["group_size"] == 2
        assert one.timeline.world_size == 2
        assert one.timeline.events.get_column("name").cast(str).str.contains("gloo:").any()


def test_what_goes_in_and_out_is_the_commands_own(tmp_path: Path) -> None:
    done = capture_command(tmp_path, sys.executable, TRAIN, "10", "stdin", stdin="some words")
    assert (done.returncode, done.stdout) == (0, "read some words\ndone\n")


def test_a_sitecustomize_and_a_path_of_the_users_own_still_count(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('customised')\n")
    (tmp_path / "theirs.py").write_text("print('found')\n")
    folder = tmp_path / "traces"
    code = "import sys, theirs; sys.argv = ['x', '10']; exec(open(%r).read())" % TRAIN  # noqa: UP031
    done = capture_command(folder, sys.executable, "-c", code, PYTHONPATH=f"{tmp_path}:{SCRIPTS}")
    # The parent is a Python process with that path too.
    assert done.stdout.endswith("customised\nfound\ndone\n"), done.stderr
    assert_sound(folder)


def test_a_python_without_torch_is_left_alone(tmp_path: Path) -> None:
    code = "import sys; print([name for name in sys.modules if name.startswith(('tracebraid', 'torch'))])"
    done = capture_command(tmp_path, sys.executable, "-c", code)
    assert (done.returncode, done.stdout) == (0, "[]\n")
    assert "nothing was captured" in done.stderr
    assert files_of(tmp_path) == []
