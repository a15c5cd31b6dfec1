"""`tracebraid capture -- COMMAND`: programs that know nothing of tracing, captured in their steady state."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.builders import Json
from tests.integration.captured import (
    QUIET,
    SCRIPTS,
    TORCHRUN,
    TRAIN,
    assert_sound,
    capture_command,
    files_of,
    manifest_of,
    step_numbers,
)
from tests.integration.command import fail, run
from tests.integration.proof import proven
from tests.waiting import HANG_S, wait_for

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
    # Each step holds one forward pass, one backward pass and one update.
    per_step = tracebraid.analyses.ops(linked, per_step=True)
    names = ["Optimizer.step#SGD.step", "AddmmBackward0", "aten::linear"]
    counts = per_step.filter(pl.col("step").is_not_null() & pl.col("name").is_in(names))
    assert counts.group_by("step", "name").agg(pl.col("count").sum()).sort("step", "name").rows() == [
        (f"ProfilerStep#{step}", name, 1 if "SGD" in name else 2)
        for step in (7, 8, 9)
        for name in sorted(names)
    ]


@pytest.mark.full
def test_the_schedule_is_that_of_the_options(tmp_path: Path) -> None:
    options = ("--skip-first", "1", "--wait", "1", "--warmup", "1", "--active", "2", "--repeat", "2")
    told(tmp_path, options=options)
    assert [step_numbers(one) for one in assert_sound(tmp_path, windows=2)] == [[3, 4], [7, 8]]


@pytest.mark.full
def test_a_second_optimizer_counts_nothing(tmp_path: Path) -> None:
    told(tmp_path, "gan")
    assert_sound(tmp_path)
    assert manifest_of(tmp_path)["steps_seen"] == 12


@pytest.mark.full
def test_an_inference_script_is_captured_by_its_modules_calls(tmp_path: Path) -> None:
    told(tmp_path, "infer")
    (linked,) = assert_sound(tmp_path)
    manifest = manifest_of(tmp_path)
    assert (manifest["steps_seen"], manifest["steps_counted_by"]) == (12, "module")
    assert linked.timeline.events.get_column("name").cast(str).str.contains("^aten::linear$").sum() == 6


@pytest.mark.since_torch("2.8")
@pytest.mark.full
def test_an_annotation_around_the_optimizer_is_cut_and_costs_no_parents(tmp_path: Path) -> None:
    told(tmp_path, "annotated")
    (linked,) = assert_sound(tmp_path)
    assert linked.coverage.host_ops.share == 1.0
    assert codes_of(tmp_path) == ["op-unfinished"]


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("workers", ["workers", "spawned-workers"])
def test_the_workers_of_a_loader_leave_nothing(tmp_path: Path, workers: str) -> None:
    told(tmp_path, workers)
    (linked,) = assert_sound(tmp_path)
    assert linked.coverage.host_ops.share == 1.0
    assert files_of(tmp_path) == ["kineto_trace_0.json.gz", "manifest_0.json", "torch_et_0.json.gz"]


@pytest.mark.full
@pytest.mark.slow
def test_a_compiled_model_is_captured(tmp_path: Path) -> None:
    told(tmp_path, "compile")
    (linked,) = assert_sound(tmp_path)
    assert linked.timeline.events.get_column("name").cast(str).str.starts_with("Torch-Compiled Region").any()
    assert manifest_of(tmp_path)["steps_seen"] == 12


@pytest.mark.since_torch("2.8")
@pytest.mark.full(keep=1)
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


@pytest.mark.full
def test_a_sitecustomize_and_a_path_of_the_users_own_still_count(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('customised')\n")
    (tmp_path / "theirs.py").write_text("print('found')\n")
    folder = tmp_path / "traces"
    code = "import sys, theirs; sys.argv = ['x', '10']; exec(open(%r).read())" % TRAIN  # noqa: UP031
    done = capture_command(folder, sys.executable, "-c", code, PYTHONPATH=f"{tmp_path}:{SCRIPTS}")
    # The parent is a Python process with that path too.
    assert done.stdout.endswith("customised\nfound\ndone\n"), done.stderr
    assert_sound(folder)


@pytest.mark.full
def test_a_python_without_torch_is_left_alone(tmp_path: Path) -> None:
    code = "import sys; print([name for name in sys.modules if name.startswith(('tracebraid', 'torch'))])"
    done = capture_command(tmp_path, sys.executable, "-c", code)
    assert (done.returncode, done.stdout) == (0, "[]\n")
    assert "nothing was captured" in done.stderr
    assert files_of(tmp_path) == []


# --- Which steps `tracebraid capture -- COMMAND` counts where they are not plain to see --------------


PROGRAM = str(SCRIPTS / "counted.py")


def captured(folder: Path, *arguments: str) -> Json:
    """The manifest of a program that ends well, proven."""
    done = capture_command(folder, sys.executable, *arguments, options=("--no-check",))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert f"tracebraid: the traces are in {folder}" in done.stderr
    return proven(folder)[0]


def codes_of(folder: Path) -> list[str]:
    """What a check says, but of durations."""
    codes = [one.finding.code.value for one in tracebraid.check(folder).diagnoses]
    return [code for code in codes if code != "warmup-caught"]


@pytest.mark.full
def test_a_program_that_asks_for_torch_before_it_imports_it(tmp_path: Path) -> None:
    """As libraries do that can go without it."""
    asks = "import importlib.util, runpy, sys; assert importlib.util.find_spec('torch') is not None"
    run = "sys.argv[0] = sys.argv[1]; sys.path.insert(0, sys.argv[3]); runpy.run_path(sys.argv.pop(1))"
    manifest = captured(tmp_path, "-c", f"{asks}; {run}", PROGRAM, "plain", str(SCRIPTS))
    assert (manifest["steps_seen"], manifest["windows"][0]["steps"]) == (12, [7, 8, 9])


@pytest.mark.full
@pytest.mark.parametrize("word", ["evaluated_first", "replaced"])
def test_steps_that_stop_for_others_do_not_keep_the_window_open(tmp_path: Path, word: str) -> None:
    """Else all the rest of the program would be recorded, until its memory is full."""
    (window,) = captured(tmp_path, PROGRAM, word)["windows"]
    assert (window["complete"], len(window["steps"])) == (True, 3)


@pytest.mark.full
def test_forwards_and_evaluations_between_an_optimizers_steps_are_none(tmp_path: Path) -> None:
    manifest = captured(tmp_path, PROGRAM, "accumulated")
    assert (manifest["steps_seen"], manifest["steps_counted_by"]) == (12, "optimizer")
    (linked,) = assert_sound(tmp_path)
    per_step = tracebraid.analyses.ops(linked, per_step=True).filter(pl.col("step").is_not_null())
    of_linear = per_step.filter(name="aten::linear").group_by("step").agg(pl.col("count").sum())
    # The evaluation after a step belongs to the next one; two layers each.
    assert of_linear.sort("step").rows() == [(f"ProfilerStep#{step}", 8) for step in (7, 8, 9)]


@pytest.mark.full
def test_a_module_that_is_compiled_in_one_graph_stays_in_one_graph(tmp_path: Path) -> None:
    manifest = captured(tmp_path, PROGRAM, "compiled")
    assert (manifest["steps_seen"], manifest["steps_counted_by"]) == (12, "module")
    assert step_numbers(tracebraid.open(tmp_path)[0]) == [7, 8, 9]


@pytest.mark.full
def test_a_program_with_a_profiler_of_its_own_keeps_it_and_is_told_so(tmp_path: Path) -> None:
    done = capture_command(tmp_path, sys.executable, PROGRAM, "profiled", options=("--require",))
    assert (done.returncode, done.stdout) == (1, "1\ndone\n"), done.stderr
    assert "another profiler was active" in done.stderr
    assert files_of(tmp_path) == ["manifest_0.json"]


@pytest.mark.full
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
    # Eight steps after its window, calls of a small module are counted no further.
    evaluated = {**evaluation, "steps": 18, "counted_to_end": False, "threads": 1}
    assert any(loop.items() >= evaluated.items() for loop in manifest["loops"])


@pytest.mark.full
def test_an_optimizer_that_is_made_long_before_its_first_step_is_waited_for(tmp_path: Path) -> None:
    manifest = captured(tmp_path, PROGRAM, "made_early")
    assert (manifest["steps_counted_by"], manifest["steps_seen"]) == ("optimizer", 12)
    assert [window["steps"] for window in manifest["windows"]] == [[7, 8, 9]]


@pytest.mark.since_torch("2.8")
@pytest.mark.full
def test_a_training_on_another_thread_than_the_evaluation_is_recorded(tmp_path: Path) -> None:
    (window,) = captured(tmp_path, PROGRAM, "threaded")["windows"]
    assert (window["steps"], window["complete"]) == ([7, 8, 9], True)


@pytest.mark.full
def test_a_session_of_another_thread_is_left_alone(tmp_path: Path) -> None:
    """Ending one that records allocations from there crashes the process."""
    done = capture_command(tmp_path, sys.executable, PROGRAM, "threaded", options=("--memory", "--require"))
    assert (done.returncode, done.stdout) == (1, "done\n"), done.stderr
    assert [window["files"] for window in manifest_of(tmp_path)["windows"]] == [[]]


@pytest.mark.full
def test_the_end_of_the_process_is_no_step(tmp_path: Path) -> None:
    manifest = captured(tmp_path, PROGRAM, "short")
    (window,) = manifest["windows"]
    assert (window["steps"], window["complete"], manifest["steps_seen"]) == ([7], False, 8)
    (linked,) = assert_sound(tmp_path)
    assert linked.et is not None
    for names in (linked.timeline.events.get_column("name"), linked.et.nodes.get_column("name")):
        assert names.cast(str).str.contains(r"ProfilerStep#\d").sum() == 1


@pytest.mark.full
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


@pytest.mark.full
def test_processes_of_one_rank_are_captured_apart(tmp_path: Path) -> None:
    one = f"{sys.executable} {PROGRAM} plain"
    done = capture_command(tmp_path, "sh", "-c", f"{one} && {one}")
    assert (done.returncode, done.stdout) == (0, "done\ndone\n"), done.stderr
    assert "process_1: recorded steps 7 to 9 of 12" in done.stderr
    assert codes_of(tmp_path) == ["process-chosen"]
    (tmp_path / "process_1").rename(tmp_path / "other")
    for folder in (tmp_path, tmp_path / "other"):
        proven(folder)
        assert manifest_of(folder)["steps_seen"] == 12


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("fails_at", [3, 8], ids=["before the window", "inside it"])
def test_of_a_job_that_is_started_anew_the_attempt_that_ran_is_captured(
    tmp_path: Path, fails_at: int
) -> None:
    torchrun = [*TORCHRUN[:-1], "1", "--max-restarts", "2"]
    done = capture_command(tmp_path, *torchrun, PROGRAM, "restarted", str(fails_at), options=("--no-check",))
    assert done.returncode == 0, done.stderr
    assert "1 process died before its window was whole (RuntimeError)" in done.stderr
    assert files_of(tmp_path) == ["kineto_trace_0.json.gz", "manifest_0.json", "torch_et_0.json.gz"]
    (manifest,) = proven(tmp_path)
    assert (manifest["attempt"], manifest["steps_seen"], manifest["windows"][0]["steps"]) == (
        1,
        12,
        [7, 8, 9],
    )
    (died,) = manifest["died_before"]
    assert (died["attempt"], died["steps_seen"], died["ended_by"]) == (0, fails_at + 1, "RuntimeError")


@pytest.mark.since_torch("2.8")
@pytest.mark.full
def test_calls_on_a_thread_each_are_captured(tmp_path: Path) -> None:
    manifest = captured(tmp_path, PROGRAM, "thread_per_call")
    assert (manifest["steps_seen"], manifest["counted_to_end"]) == (18, False)
    assert manifest["windows"][0]["steps"] == [7, 8, 9]
    assert_sound(tmp_path)
    assert codes_of(tmp_path) == []
    done = capture_command(
        tmp_path / "memory", sys.executable, PROGRAM, "thread_per_call", options=("--memory",)
    )
    assert "60 steps of Sequential on 60 threads" in done.stderr
    assert "ore steps" not in done.stderr


@pytest.mark.full
def test_a_window_opens_and_closes_outside_of_backward(tmp_path: Path) -> None:
    """Optimizers that step in its hooks count the steps; warnings of PyTorch's collector would end the program."""
    done = capture_command(tmp_path, sys.executable, "-W", "error", PROGRAM, "in_hooks", PYTHONWARNINGS="")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    (linked,) = assert_sound(tmp_path)
    assert manifest_of(tmp_path)["steps_seen"] == 20
    assert codes_of(tmp_path) == []
    per_step = tracebraid.analyses.ops(linked, per_step=True).filter(name="Optimizer.step#AdamW.step")
    assert set(per_step.get_column("count")) == {4}


# --- How `tracebraid capture -- COMMAND` ends: as the command does, also where that goes wrong -------


@pytest.mark.full
@pytest.mark.parametrize(
    ("word", "returncode", "ended_by"),
    [("raise", 1, "ValueError"), ("exit", 3, "end"), ("terminate", -signal.SIGTERM, "SIGTERM")],
)
def test_a_command_that_ends_inside_the_window_leaves_whole_files(
    tmp_path: Path, word: str, returncode: int, ended_by: str
) -> None:
    done = capture_command(tmp_path, sys.executable, TRAIN, "12", word)
    assert done.returncode == returncode
    (linked,) = assert_sound(tmp_path)
    assert step_numbers(linked) == [7, 8]
    manifest = manifest_of(tmp_path)
    assert (manifest["ended_by"], manifest["windows"][0]["complete"]) == (ended_by, False)
    assert "window-incomplete" in codes_of(tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_the_command_and_ends_both(tmp_path: Path, number: signal.Signals) -> None:
    words = [sys.executable, "-m", "tracebraid", "capture", "-o", str(tmp_path), "--no-check", "--"]
    whole = [*words, sys.executable, TRAIN, "100000"]
    with subprocess.Popen(
        whole, stderr=subprocess.PIPE, text=True, start_new_session=True, env={**os.environ, **QUIET}
    ) as process:
        wait_for((tmp_path / "manifest_0.json").exists)
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.send_signal(number)
        _, said = process.communicate(timeout=HANG_S)
    assert process.returncode in ((-number,) if number == signal.SIGTERM else (-number, 1, 130)), said
    assert_sound(tmp_path)
    manifest = manifest_of(tmp_path)
    assert manifest["ended_by"] == ("SIGTERM" if number == signal.SIGTERM else "KeyboardInterrupt")
    assert manifest["steps_seen"] >= 10  # the window ends with step 9, and the signal may come at once


@pytest.mark.full
def test_a_command_that_is_over_before_the_window_says_so(tmp_path: Path) -> None:
    done = capture_command(tmp_path, sys.executable, TRAIN, "5")
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert files_of(tmp_path) == ["manifest_0.json"]
    assert codes_of(tmp_path) == ["nothing-recorded"]


@pytest.mark.full
@pytest.mark.slow
def test_a_rank_that_is_killed_is_missed(tmp_path: Path) -> None:
    done = capture_command(tmp_path, *TORCHRUN, TRAIN, "12", "dist", "kill")
    assert done.returncode == 1
    assert not {"kineto_trace_1.json.gz", "torch_et_1.json.gz"} & set(files_of(tmp_path))
    if (tmp_path / "kineto_trace_0.json.gz").exists():
        assert "rank-missing" in codes_of(tmp_path)
    assert not tracebraid.check(tmp_path).links


@pytest.mark.full
@pytest.mark.slow
def test_a_folder_that_holds_a_run_is_refused_before_the_command_starts(tmp_path: Path) -> None:
    capture_command(tmp_path, sys.executable, TRAIN, "12")
    before = {name: (tmp_path / name).read_bytes() for name in files_of(tmp_path)}
    done = capture_command(tmp_path, sys.executable, TRAIN, "12")
    assert (done.returncode, done.stdout) == (1, "")
    assert "the file exists, from another run" in done.stderr
    assert {name: (tmp_path / name).read_bytes() for name in files_of(tmp_path)} == before
    done = capture_command(tmp_path, sys.executable, TRAIN, "13", options=("--overwrite",))
    assert done.returncode == 0
    assert_sound(tmp_path)
    assert manifest_of(tmp_path)["steps_seen"] == 13


@pytest.mark.parametrize(
    ("words", "options", "code", "said"),
    [
        (["no-such-program"], [], 1, "no-such-program cannot be run. Give a program that is on the path"),
        (["/"], [], 1, "/ cannot be run. "),
        ([], [], 2, "Missing argument"),
        (["true"], ["--skip-first=x"], 2, "Invalid value for '--skip-first'"),
        (["true"], ["--no-such-option"], 2, "No such option"),
        (["true"], ["--nsys"], 1, "nsys is not installed here, or not on the path"),
        ([TRAIN], [], 1, "Is it a script? Then: python "),
        (
            ["true"],
            ["--active", "0"],
            2,
            "active is 0, and must be 1 or more: nothing would ever be recorded",
        ),
        (["true"], ["--wait", "-1"], 2, "wait is -1, and must be 0 or more"),
        (["true"], ["--steps-by", "x"], 2, "steps end by auto, optimizer, module, not by 'x'"),
        (["true"], ["--recorder", "x"], 2, "there is no recorder 'x'; there is auto, native, torch"),
    ],
)
def test_wrong_words_are_one_clear_error(
    tmp_path: Path, words: list[str], options: list[str], code: int, said: str
) -> None:
    done = run("capture", "-o", tmp_path / "traces", *options, "--", *words, PATH="/usr/bin:/bin")
    assert (done.returncode, done.stdout) == (code, "")
    assert "Traceback" not in done.stderr
    assert said in " ".join(done.stderr.split())
    assert not (tmp_path / "traces").exists()


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = fail("capture", "-o", tmp_path / "file" / "traces", "--", "true")
    assert "it cannot be written (Not a directory)" in said


@pytest.mark.full
def test_nsys_is_run_around_the_command_and_its_report_exported(tmp_path: Path) -> None:
    stand_in = tmp_path / "bin" / "nsys"
    stand_in.parent.mkdir()
    stand_in.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> {tmp_path}/calls\n'
        'if [ "$1" = profile ]; then touch "$3"; shift 9; exec "$@"; fi\n'
        'touch "$7"\n'
    )
    stand_in.chmod(stand_in.stat().st_mode | stat.S_IXUSR)
    folder = tmp_path / "traces"
    path = f"{stand_in.parent}:{os.environ['PATH']}"
    done = capture_command(folder, sys.executable, TRAIN, "10", options=("--nsys",), PATH=path)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    profile, export = (tmp_path / "calls").read_text().splitlines()
    report = folder / "nsys_0.nsys-rep"
    assert profile.startswith(f"profile --output {report} --trace cuda,nvtx --capture-range cudaProfilerApi ")
    assert export.split()[-2:] == [str(report.with_suffix(".sqlite")), str(report)]
    assert "Nsight Systems records CUDA, and torch finds no CUDA device" in done.stderr
    assert manifest_of(folder)["recorders"] == ["native", "nsys"]
