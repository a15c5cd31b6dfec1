"""`tracebraid capture -- COMMAND` where the command, its environment or its end are not those one hopes for."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.integration.captured import SCRIPTS, TORCHRUN, TRAIN, assert_sound, files_of, manifest_of
from tests.integration.command import Done
from tests.integration.proof import proven
from tests.integration.running import ended, run_command, started

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

PROGRAM = "import tiny; model = tiny.make_model(); optimizer = tiny.make_optimizer(model)\n"
LOOP = "for _ in range(10): tiny.train(model, optimizer)\n"


def words(folder: Path, *command: object, options: tuple[str, ...] = ()) -> list[object]:
    return [sys.executable, "-m", "tracebraid", "capture", "-o", folder, *options, "--", *command]


def capture(folder: Path, *command: object, options: tuple[str, ...] = (), **env: str) -> Done:
    return run_command(*words(folder, *command, options=options), stdin=b"", **env)


def python(folder: Path, code: str, *options: str, **more: str) -> Done:
    env = {"PYTHONPATH": str(SCRIPTS), **more}
    return capture(folder, sys.executable, "-c", code, options=options, **env)


def stand_in(folder: Path, *lines: str) -> str:
    """A PATH that has a stand-in for nsys."""
    folder.mkdir()
    nsys = folder / "nsys"
    nsys.write_text("\n".join(("#!/bin/sh", *lines, "")))
    nsys.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


# --- input and output -------------------------------------------------------------------------------


def test_every_byte_that_goes_in_and_out_is_the_commands_own(tmp_path: Path) -> None:
    code = PROGRAM + LOOP + "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read() + b'|\\r\\n\\0 end')"
    given = "é\0\r\n\n  ".encode()
    command = words(tmp_path, sys.executable, "-c", code, options=("--no-check",))
    done = run_command(*command, stdin=given, PYTHONPATH=str(SCRIPTS))
    assert (done.returncode, done.stdout.encode()) == (0, given + b"|\r\n\0 end"), done.stderr
    proven(tmp_path)


def test_children_without_torch_run_as_ever(tmp_path: Path) -> None:
    asked = (
        "import sys; print(sorted({name.split('.')[0] for name in sys.modules} & {'tracebraid', 'torch'}))"
    )
    code = PROGRAM + LOOP + f"import subprocess, sys; subprocess.run([sys.executable, '-c', {asked!r}])"
    done = python(tmp_path, code, "--no-check")
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
    proven(tmp_path)


@pytest.mark.parametrize("option", ["-S", "-E", "-I"])
def test_a_python_that_reads_no_sitecustomize_says_that_nothing_was_captured(
    tmp_path: Path, option: str
) -> None:
    done = capture(tmp_path, sys.executable, option, "-c", "print('ran'); raise SystemExit(5)")
    assert (done.returncode, done.stdout) == (5, "ran\n")
    assert done.stderr.startswith(f"error: {tmp_path}: nothing was captured: it starts Python with {option}")
    assert files_of(tmp_path) == []


# --- ends -------------------------------------------------------------------------------------------


def test_a_command_that_is_killed_ends_so_and_is_told_of(tmp_path: Path) -> None:
    code = PROGRAM + LOOP + "import os; os.kill(os.getpid(), 9)"
    done = python(tmp_path, code)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert f"tracebraid: {tmp_path}: it links" in done.stderr
    assert manifest_of(tmp_path)["ended_by"] is None
    proven(tmp_path)


def test_a_file_that_is_no_program_is_one_clear_error(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('ran')\n")
    script.chmod(0o755)
    done = capture(tmp_path / "traces", script)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def test_a_folder_that_is_no_program_is_one_clear_error(tmp_path: Path) -> None:
    done = capture(tmp_path / "traces", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {tmp_path} cannot be run. ")


def test_no_command_at_all_is_wrong_usage(tmp_path: Path) -> None:
    done = capture(tmp_path / "traces")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage" in done.stderr


@pytest.mark.parametrize("option", ["--skip-first=x", "--no-such-option"])
def test_wrong_options_are_wrong_usage_and_nothing_runs(tmp_path: Path, option: str) -> None:
    done = capture(tmp_path / "traces", sys.executable, "-c", "print('ran')", options=(option,))
    assert (done.returncode, done.stdout) == (2, "")
    assert not (tmp_path / "traces").exists()


def test_the_commands_options_are_not_ours(tmp_path: Path) -> None:
    code = "import sys; print(sys.argv[1:])"
    done = capture(tmp_path, sys.executable, "-c", code, "--output", "x", "--help", "--", "-o")
    assert (done.returncode, done.stdout) == (0, "['--output', 'x', '--help', '--', '-o']\n")


@pytest.mark.slow
def test_a_signal_to_the_capture_of_a_launcher_reaches_every_rank(tmp_path: Path) -> None:
    command = words(tmp_path, *TORCHRUN, TRAIN, "100000", "dist", options=("--no-check",))
    manifests = [tmp_path / f"manifest_{rank}.json" for rank in (0, 1)]
    with started(*command) as process:
        until = time.monotonic() + 60
        while not all(path.exists() for path in manifests) and time.monotonic() < until:
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        done = ended(process)
    assert done.returncode not in (0, -signal.SIGKILL), done.stderr
    assert_sound(tmp_path, world=2)
    # The first one to leave ends the other's collective.
    assert "SIGTERM" in [manifest_of(tmp_path, rank)["ended_by"] for rank in (0, 1)]
    assert all(manifest["steps_seen"] >= 10 for manifest in proven(tmp_path, world=2))


# --- Nsight Systems ---------------------------------------------------------------------------------


def test_without_a_cuda_device_nsys_costs_the_window_and_nothing_else(tmp_path: Path) -> None:
    path = stand_in(
        tmp_path / "bin", 'while [ "$1" != --capture-range-end ]; do shift; done; shift 2; exec "$@"'
    )
    done = python(tmp_path / "traces", PROGRAM + LOOP + "raise SystemExit(3)", "--nsys", PATH=path)
    assert (done.returncode, done.stdout) == (3, "")
    assert "Nsight Systems records CUDA, and torch finds no CUDA device in this process" in done.stderr
    manifest = manifest_of(tmp_path / "traces")
    assert (manifest["recorders"], manifest["steps_seen"]) == (["native", "nsys"], 10)
    assert files_of(tmp_path / "traces") == ["manifest_0.json"]
    assert "the traces are in" not in done.stderr


def test_a_report_that_cannot_be_exported_does_not_hide_how_the_command_ended(tmp_path: Path) -> None:
    path = stand_in(
        tmp_path / "bin", 'if [ "$1" = profile ]; then touch "$3"; exit 3; fi', "echo no >&2; exit 4"
    )
    done = capture(tmp_path / "traces", "true", options=("--nsys",), PATH=path)
    assert "nsys cannot export" in done.stderr
    assert done.returncode == 3


def test_a_report_of_another_run_is_refused_before_the_command_runs(tmp_path: Path) -> None:
    path = stand_in(tmp_path / "bin", f"touch {tmp_path / 'ran'}")
    (tmp_path / "nsys_0.nsys-rep").touch()
    done = capture(tmp_path, "true", options=("--nsys",), PATH=path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "nsys_0.nsys-rep: this file is there already" in done.stderr
    assert not (tmp_path / "ran").exists()
