"""Programs that `tracebraid capture` runs go on where the capture itself fails."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.integration.captured import SCRIPTS, files_of, manifest_of
from tests.integration.command import Done
from tests.integration.running import run_command
from tracebraid.recorders.launcher.environment import child_environment
from tracebraid.recorders.session.settings import Settings

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

PROGRAM = (
    "import tiny; model = tiny.make_model(); optimizer = tiny.make_optimizer(model)\n"
    "for _ in range(12): tiny.train(model, optimizer)\n"
    "print('done'); raise SystemExit(5)\n"
)
BREAK = (
    "import torch\nfrom tracebraid.recorders.session.capture import Capture\n"
    "def fail(self, *args, **kwargs): raise {error}\n"
    "Capture.{method} = fail\n"
)


def capture(folder: Path, code: str) -> Done:
    words = ["-m", "tracebraid", "capture", "--no-check", "--recorder", "torch", "-o", folder, "--"]
    return run_command(sys.executable, *words, sys.executable, "-c", code, PYTHONPATH=str(SCRIPTS))


def said(done: Done) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("tracebraid: process")]


@pytest.mark.parametrize("error", ["RuntimeError('boom\\nand more')", "SystemExit(3)"])
@pytest.mark.parametrize("method", ["begin", "step"])
def test_a_hook_that_fails_ends_the_capture_and_not_the_program(
    tmp_path: Path, method: str, error: str
) -> None:
    done = capture(tmp_path, BREAK.format(method=method, error=error) + PROGRAM)
    assert (done.returncode, done.stdout) == (5, "done\n"), done.stderr
    assert "Traceback" not in done.stderr
    failed = [line for line in said(done) if error.partition("(")[0] in line]
    # And that of a capture that had begun says that nothing was recorded.
    assert 1 <= len(failed) <= 2
    if method == "step":
        assert manifest_of(tmp_path)["ended_by"] == error.partition("(")[0]


def test_a_hook_that_fails_inside_of_a_window_leaves_what_was_recorded(tmp_path: Path) -> None:
    code = (
        "import torch\nfrom tracebraid.recorders.session.capture import Capture\nstep = Capture.step\n"
        "def fail(self):\n    if self.steps_seen == 8: raise RuntimeError('boom')\n    step(self)\n"
        "Capture.step = fail\n"
    )
    done = capture(tmp_path, code + PROGRAM)
    assert (done.returncode, done.stdout) == (5, "done\n"), done.stderr
    assert len(said(done)) == 1
    manifest = manifest_of(tmp_path)
    assert manifest["ended_by"] == "RuntimeError"
    assert [window["steps"] for window in manifest["windows"]] == [[7]]
    assert not manifest["windows"][0]["complete"]


def test_a_capture_that_cannot_be_finished_does_not_change_how_the_program_ends(tmp_path: Path) -> None:
    done = capture(tmp_path, BREAK.format(method="finish", error="RuntimeError('boom')") + PROGRAM)
    assert (done.returncode, done.stdout) == (5, "done\n"), done.stderr
    assert "Traceback" not in done.stderr
    assert len(said(done)) == 1


@pytest.mark.parametrize("kind", ["unknown", "malformed"])
def test_settings_of_another_version_leave_the_program_alone(tmp_path: Path, kind: str) -> None:
    environment = child_environment(Settings(str(tmp_path)))
    settings = json.dumps({**json.loads(environment["TRACEBRAID_CAPTURE"]), "of_another_version": 1})
    environment["TRACEBRAID_CAPTURE"] = settings if kind == "unknown" else settings[:-1]
    environment["PYTHONPATH"] += f":{SCRIPTS}"
    given = {name: environment[name] for name in ("PYTHONPATH", "TRACEBRAID_CAPTURE")}
    done = run_command(sys.executable, "-c", PROGRAM, stdin=b"", **given)
    assert (done.returncode, done.stdout) == (5, "done\n")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("tracebraid: this process is not captured: ")
    if kind == "unknown":
        assert "of_another_version" in done.stderr
    assert files_of(tmp_path) == []
