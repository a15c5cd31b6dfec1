"""How `tracebraid capture -- COMMAND` ends: as the command does, also where that goes wrong."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tracebraid
from tests.integration.captured import (
    QUIET,
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


def codes_of(folder: Path) -> list[str]:
    return [one.finding.code for one in tracebraid.check(folder).diagnoses]


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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_the_command_and_ends_both(tmp_path: Path, number: signal.Signals) -> None:
    words = [sys.executable, "-m", "tracebraid", "capture", "-o", str(tmp_path), "--no-check", "--"]
    whole = [*words, sys.executable, TRAIN, "100000"]
    with subprocess.Popen(
        whole, stderr=subprocess.PIPE, text=True, start_new_session=True, env={**os.environ, **QUIET}
    ) as process:
        until = time.monotonic() + 60
        while not (tmp_path / "manifest_0.json").exists() and time.monotonic() < until:
            time.sleep(0.1)
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode in ((-number,) if number == signal.SIGTERM else (-number, 1, 130)), said
    assert_sound(tmp_path)
    manifest = manifest_of(tmp_path)
    assert manifest["ended_by"] == ("SIGTERM" if number == signal.SIGTERM else "KeyboardInterrupt")
    assert manifest["steps_seen"] >= 10  # the window ends with step 9, and the signal may come at once


def test_a_command_that_is_over_before_the_window_says_so(tmp_path: Path) -> None:
    done = capture_command(tmp_path, sys.executable, TRAIN, "5")
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert files_of(tmp_path) == ["manifest_0.json"]
    assert codes_of(tmp_path) == ["nothing-recorded"]


@pytest.mark.slow
def test_a_rank_that_is_killed_is_missed(tmp_path: Path) -> None:
    done = capture_command(tmp_path, *TORCHRUN, TRAIN, "12", "dist", "kill")
    assert done.returncode == 1
    assert not {"kineto_trace_1.json.gz", "torch_et_1.json.gz"} & set(files_of(tmp_path))
    if (tmp_path / "kineto_trace_0.json.gz").exists():
        assert "rank-missing" in codes_of(tmp_path)
    assert not tracebraid.check(tmp_path).links


@pytest.mark.slow
def test_a_folder_that_holds_a_run_is_refused_before_the_command_starts(tmp_path: Path) -> None:
    capture_command(tmp_path, sys.executable, TRAIN, "12")
    before = {name: (tmp_path / name).read_bytes() for name in files_of(tmp_path)}
    done = capture_command(tmp_path, sys.executable, TRAIN, "12")
    assert (done.returncode, done.stdout) == (1, "")
    assert "is there already, from another run" in done.stderr
    assert {name: (tmp_path / name).read_bytes() for name in files_of(tmp_path)} == before
    done = capture_command(tmp_path, sys.executable, TRAIN, "13", options=("--overwrite",))
    assert done.returncode == 0
    assert_sound(tmp_path)
    assert manifest_of(tmp_path)["steps_seen"] == 13


def test_a_python_that_ignores_its_environment_is_not_captured(tmp_path: Path) -> None:
    done = capture_command(tmp_path, sys.executable, "-E", TRAIN, "10", options=("--require",))
    assert (done.returncode, done.stdout) == (1, "done\n")
    assert files_of(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "options", "said"),
    [
        (["no-such-program"], [], "no-such-program cannot be run. Give a program that is on the path"),
        ([TRAIN], [], "Is it a script? Then: python "),
        (["true"], ["--active", "0"], "active is 0, and must be 1 or more: nothing would ever be recorded"),
        (["true"], ["--wait", "-1"], "wait is -1, and must be 0 or more"),
        (["true"], ["--steps-by", "x"], "steps end by auto, optimizer, module, not by 'x'"),
        (["true"], ["--recorder", "x"], "there is no recorder 'x'; there is auto, native, torch"),
    ],
)
def test_wrong_words_are_one_clear_error(
    tmp_path: Path, words: list[str], options: list[str], said: str
) -> None:
    done = capture_command(tmp_path / "traces", *words, options=tuple(options))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert said in done.stderr.replace("\n", " ")
    assert not (tmp_path / "traces").exists()


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = capture_command(tmp_path / "file" / "traces", "true")
    assert done.returncode == 1
    assert "it cannot be written (Not a directory)" in done.stderr


def test_nsys_that_is_not_installed_is_one_clear_error(tmp_path: Path) -> None:
    done = capture_command(tmp_path, sys.executable, TRAIN, "10", options=("--nsys",), PATH="/usr/bin:/bin")
    assert (done.returncode, done.stdout) == (1, "")
    assert "nsys is not installed here, or not on the path" in done.stderr


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
