"""How a captured loop ends: by signals, exceptions and early exits, and what is left behind then."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import tracebraid
from tests.integration.captured import SCRIPTS
from tests.integration.proof import proven
from tests.integration.running import signalled
from tracebraid.errors import CaptureWarning

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

ENDLESS = (sys.executable, SCRIPTS / "endless.py")
LONG: dict[str, Any] = {"skip_first": 1, "wait": 1, "warmup": 1, "active": 5}


def loop(folder: Path, leave_at: int, how: BaseException | None = None) -> None:
    """Leave a loop in the middle of a step: by an exception, or by `break`."""
    with tracebraid.capture(folder, **LONG) as cap:
        for step in range(12):
            torch.ones(3) + 1
            if step == leave_at:
                if how is not None:
                    raise how
                break
            cap.step()


def codes(folder: Path) -> list[str]:
    """What a check finds; how steady such small steps are is up to the machine."""
    found = [one.finding.code for one in tracebraid.check(folder).diagnoses]
    return [code for code in found if code != "warmup-caught"]


@pytest.mark.parametrize(
    ("number", "ended_by"), [(signal.SIGINT, "KeyboardInterrupt"), (signal.SIGTERM, "SIGTERM")], ids=str
)
def test_a_signal_ends_the_process_as_ever_and_the_files_are_whole(
    tmp_path: Path, number: signal.Signals, ended_by: str
) -> None:
    done = signalled(number, *ENDLESS, tmp_path)
    assert (done.returncode, done.stdout) == (-number, ""), done.stderr
    (manifest,) = proven(tmp_path)
    (window,) = manifest["windows"]
    assert (manifest["ended_by"], window["complete"]) == (ended_by, False)
    # The last step had begun when the signal came; all before it were seen to their ends.
    assert window["steps"] == list(range(3, manifest["steps_seen"] + 1))
    assert codes(tmp_path) == ["window-incomplete"]


def test_a_handler_of_the_programs_own_is_left_alone(tmp_path: Path) -> None:
    done = signalled(signal.SIGTERM, *ENDLESS, tmp_path, "own-handler")
    assert (done.returncode, done.stdout) == (7, "handled\n"), done.stderr
    (manifest,) = proven(tmp_path)
    assert manifest["ended_by"] == "SystemExit"


def test_a_kill_leaves_no_file_under_a_final_name(tmp_path: Path) -> None:
    done = signalled(signal.SIGKILL, *ENDLESS, tmp_path)
    assert done.returncode == -signal.SIGKILL
    assert [path.name for path in tmp_path.glob("[!.]*")] == []


@pytest.mark.parametrize(
    "how", [ValueError("boom"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()], ids=repr
)
def test_an_exception_goes_on_as_it_was(tmp_path: Path, how: BaseException) -> None:
    with pytest.raises(type(how)) as caught:
        loop(tmp_path, 5, how)
    assert caught.value is how
    (manifest,) = proven(tmp_path)
    assert (manifest["ended_by"], manifest["steps_seen"]) == (type(how).__name__, 5)
    assert manifest["windows"][0]["steps"] == [3, 4, 5]


def test_what_comes_after_the_last_whole_step_is_none(tmp_path: Path) -> None:
    loop(tmp_path, 4)
    (manifest,) = proven(tmp_path)
    assert (manifest["ended_by"], manifest["windows"][0]["steps"]) == ("end", [3])
    assert manifest["windows"][0]["complete"] is False
    assert codes(tmp_path) == ["window-incomplete"]


def test_a_loop_that_is_left_while_the_profiler_warms_up_records_nothing(tmp_path: Path) -> None:
    with pytest.warns(CaptureWarning, match=r"nothing was recorded: the loop ended after 2 steps \(end\)"):
        loop(tmp_path, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["manifest_0.json"]
    (tmp_path / "manifest_0.json").unlink()
    loop(tmp_path, 11)
    assert proven(tmp_path)[0]["windows"][0]["steps"] == [3, 4, 5, 6, 7]


def test_a_loop_of_just_as_many_steps_as_the_window_needs_is_complete(tmp_path: Path) -> None:
    loop(tmp_path, 8)
    (manifest,) = proven(tmp_path)
    assert (manifest["steps_seen"], manifest["windows"][0]["complete"]) == (8, True)
    assert codes(tmp_path) == []


def test_the_signals_are_given_back_in_the_end(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        loop(tmp_path, 4)
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    finally:
        signal.signal(signal.SIGINT, before)
    assert handlers == [signal.default_int_handler, signal.SIG_DFL]
