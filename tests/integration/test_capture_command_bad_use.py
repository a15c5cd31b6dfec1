"""`tracebraid capture -- COMMAND` where the command, its environment or its end are not those one hopes for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.captured import (
    QUIET,
    SCRIPTS,
    TORCHRUN,
    TRAIN,
    assert_sound,
    capture_command,
    files_of,
    manifest_of,
)
from tests.integration.command import Done
from tests.integration.proof import proven
from tests.integration.running import ended, run_command, started
from tests.waiting import wait_for
from tracebraid.recorders.launcher.launch import child_environment
from tracebraid.recorders.session.settings import Settings

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


@pytest.mark.full
def test_every_byte_that_goes_in_and_out_is_the_commands_own(tmp_path: Path) -> None:
    """And what it starts without torch runs as ever."""
    asked = (
        "import sys; print(sorted({name.split('.')[0] for name in sys.modules} & {'tracebraid', 'torch'}))"
    )
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {asked!r}], stdin=subprocess.DEVNULL)\n"
    code = PROGRAM + LOOP + child + "sys.stdout.buffer.write(sys.stdin.buffer.read() + b'|\\r\\n\\0 end')"
    given = "é\0\r\n\n  ".encode()
    command = words(tmp_path, sys.executable, "-c", code, options=("--no-check",))
    done = run_command(*command, stdin=given, PYTHONPATH=str(SCRIPTS))
    assert (done.returncode, done.stdout.encode()) == (0, b"[]\n" + given + b"|\r\n\0 end"), done.stderr
    proven(tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("option", ["-S", "-E", "-I"])
def test_a_python_that_reads_no_sitecustomize_says_that_nothing_was_captured(
    tmp_path: Path, option: str
) -> None:
    done = capture(tmp_path, sys.executable, option, "-c", "print('ran'); raise SystemExit(5)")
    assert (done.returncode, done.stdout) == (5, "ran\n")
    assert done.stderr.startswith(f"error: {tmp_path}: nothing was captured: it starts Python with {option}")
    assert files_of(tmp_path) == []


# --- ends -------------------------------------------------------------------------------------------


@pytest.mark.full
def test_a_command_that_is_killed_ends_so_and_is_told_of(tmp_path: Path) -> None:
    code = PROGRAM + LOOP + "import os; os.kill(os.getpid(), 9)"
    done = python(tmp_path, code)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert f"tracebraid: {tmp_path}: it links" in done.stderr
    assert manifest_of(tmp_path)["ended_by"] is None
    proven(tmp_path)


@pytest.mark.full
def test_a_file_that_is_no_program_is_one_clear_error(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('ran')\n")
    script.chmod(0o755)
    done = capture(tmp_path / "traces", script)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


@pytest.mark.full
def test_the_commands_options_are_not_ours(tmp_path: Path) -> None:
    code = "import sys; print(sys.argv[1:])"
    done = capture(tmp_path, sys.executable, "-c", code, "--output", "x", "--help", "--", "-o")
    assert (done.returncode, done.stdout) == (0, "['--output', 'x', '--help', '--', '-o']\n")


@pytest.mark.full
@pytest.mark.slow
def test_a_signal_to_the_capture_of_a_launcher_reaches_every_rank(tmp_path: Path) -> None:
    command = words(tmp_path, *TORCHRUN, TRAIN, "100000", "dist", options=("--no-check",))
    manifests = [tmp_path / f"manifest_{rank}.json" for rank in (0, 1)]
    with started(*command) as process:
        wait_for(lambda: all(path.exists() for path in manifests))
        process.send_signal(signal.SIGTERM)
        done = ended(process)
    assert done.returncode not in (0, -signal.SIGKILL), done.stderr
    assert_sound(tmp_path, world=2)
    # The first one to leave ends the other's collective.
    assert "SIGTERM" in [manifest_of(tmp_path, rank)["ended_by"] for rank in (0, 1)]
    assert all(manifest["steps_seen"] >= 10 for manifest in proven(tmp_path, world=2))


# --- Nsight Systems ---------------------------------------------------------------------------------


@pytest.mark.full
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


@pytest.mark.full
def test_a_report_that_cannot_be_exported_does_not_hide_how_the_command_ended(tmp_path: Path) -> None:
    path = stand_in(
        tmp_path / "bin", 'if [ "$1" = profile ]; then touch "$3"; exit 3; fi', "echo no >&2; exit 4"
    )
    done = capture(tmp_path / "traces", "true", options=("--nsys",), PATH=path)
    assert "nsys cannot export" in done.stderr
    assert done.returncode == 3


@pytest.mark.full
def test_a_report_of_another_run_is_refused_before_the_command_runs(tmp_path: Path) -> None:
    path = stand_in(tmp_path / "bin", f"touch {tmp_path / 'ran'}")
    (tmp_path / "nsys_0.nsys-rep").touch()
    done = capture(tmp_path, "true", options=("--nsys",), PATH=path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "nsys_0.nsys-rep: the file exists" in done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.full
@pytest.mark.slow
def test_programs_that_replace_functions_end_as_without_capture(tmp_path: Path) -> None:
    """A session that is open at the end of the process is its death by SIGSEGV."""
    script = str(SCRIPTS / "replaced.py")
    alone = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=True, env={**os.environ, **QUIET}
    )
    options = ("--no-check", "--skip-first", "1", "--wait", "0", "--warmup", "0", "--active", "9")
    done = capture_command(tmp_path, sys.executable, script, options=options)
    assert (done.returncode, done.stdout) == (0, alone.stdout)


# --- Programs that `tracebraid capture` runs go on where the capture itself fails --------------------


ENDS_WITH_5 = (
    "import tiny; model = tiny.make_model(); optimizer = tiny.make_optimizer(model)\n"
    "for _ in range(12): tiny.train(model, optimizer)\n"
    "print('done'); raise SystemExit(5)\n"
)
BREAK = (
    "import torch\nfrom tracebraid.recorders.session.capture import Capture\n"
    "def fail(self, *args, **kwargs): raise {error}\n"
    "Capture.{method} = fail\n"
)


def capture_code(folder: Path, code: str) -> Done:
    words = ["-m", "tracebraid", "capture", "--no-check", "--recorder", "torch", "-o", folder, "--"]
    return run_command(sys.executable, *words, sys.executable, "-c", code, PYTHONPATH=str(SCRIPTS))


def said(done: Done) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("tracebraid: process")]


@pytest.mark.full
@pytest.mark.parametrize(
    ("method", "error"), [("begin", "SystemExit(3)"), ("step", "RuntimeError('boom\\nand more')")]
)
def test_a_hook_that_fails_ends_the_capture_and_not_the_program(
    tmp_path: Path, method: str, error: str
) -> None:
    done = capture_code(tmp_path, BREAK.format(method=method, error=error) + ENDS_WITH_5)
    assert (done.returncode, done.stdout) == (5, "done\n"), done.stderr
    assert "Traceback" not in done.stderr
    failed = [line for line in said(done) if error.partition("(")[0] in line]
    # And that of a capture that had begun says that nothing was recorded.
    assert 1 <= len(failed) <= 2
    if method == "step":
        assert manifest_of(tmp_path)["ended_by"] == error.partition("(")[0]


@pytest.mark.full
def test_a_hook_that_fails_inside_of_a_window_leaves_what_was_recorded(tmp_path: Path) -> None:
    code = (
        "import torch\nfrom tracebraid.recorders.session.capture import Capture\nstep = Capture.step\n"
        "def fail(self):\n    if self.steps_seen == 8: raise RuntimeError('boom')\n    step(self)\n"
        "Capture.step = fail\n"
    )
    done = capture_code(tmp_path, code + ENDS_WITH_5)
    assert (done.returncode, done.stdout) == (5, "done\n"), done.stderr
    assert len(said(done)) == 1
    manifest = manifest_of(tmp_path)
    assert manifest["ended_by"] == "RuntimeError"
    assert [window["steps"] for window in manifest["windows"]] == [[7]]
    assert not manifest["windows"][0]["complete"]


@pytest.mark.full
def test_a_capture_that_cannot_be_finished_does_not_change_how_the_program_ends(tmp_path: Path) -> None:
    done = capture_code(tmp_path, BREAK.format(method="finish", error="RuntimeError('boom')") + ENDS_WITH_5)
    assert (done.returncode, done.stdout) == (5, "done\n"), done.stderr
    assert "Traceback" not in done.stderr
    assert len(said(done)) == 1


@pytest.mark.full
@pytest.mark.parametrize("kind", ["unknown", "malformed"])
def test_settings_of_another_version_leave_the_program_alone(tmp_path: Path, kind: str) -> None:
    environment = child_environment(Settings(str(tmp_path)))
    settings = json.dumps({**json.loads(environment["TRACEBRAID_CAPTURE"]), "of_another_version": 1})
    environment["TRACEBRAID_CAPTURE"] = settings if kind == "unknown" else settings[:-1]
    environment["PYTHONPATH"] += f":{SCRIPTS}"
    given = {name: environment[name] for name in ("PYTHONPATH", "TRACEBRAID_CAPTURE")}
    done = run_command(sys.executable, "-c", ENDS_WITH_5, stdin=b"", **given)
    assert (done.returncode, done.stdout) == (5, "done\n")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("tracebraid: this process is not captured: ")
    if kind == "unknown":
        assert "of_another_version" in done.stderr
    assert files_of(tmp_path) == []
