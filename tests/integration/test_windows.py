"""A capture of several windows is opened as what it is, by every command."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracebraid
from tests.integration.captured import step_numbers
from tests.integration.command import fail, run
from tracebraid.errors import InputError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Steps 1 and 3, a window for each; tests only read it."""
    folder = tmp_path_factory.mktemp("windows")
    with tracebraid.capture(folder, skip_first=0, wait=1, warmup=0, active=1, repeat=2) as cap:
        for _ in range(5):
            torch.ones(3) + 1
            cap.step()
    return folder


def test_the_last_window_is_opened_unless_another_is_named(windows: Path) -> None:
    assert step_numbers(tracebraid.open(windows)[0]) == [3]
    assert [step_numbers(tracebraid.open(windows, window=number)[0]) for number in (0, 1)] == [[1], [3]]


def test_it_is_said_that_there_are_others(windows: Path) -> None:
    assert [finding.code for finding in tracebraid.open(windows).findings] == ["window-chosen"]
    assert [finding.code for finding in tracebraid.open(windows / "window_0").findings] == []


@pytest.mark.parametrize("number", [2, -1])
def test_a_window_that_is_not_there_is_refused(windows: Path, number: int) -> None:
    with pytest.raises(InputError):
        tracebraid.open(windows, window=number)
    with pytest.raises(InputError):
        tracebraid.open(windows / "window_0", window=0)
    fail("summary", windows, "--window", number)


@pytest.mark.parametrize("command", ["summary", "link", "check", "info"])
def test_every_command_takes_the_folder(windows: Path, command: str) -> None:
    done = run(command, windows)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["summary", "link"])
def test_a_command_takes_the_window_that_is_named(windows: Path, command: str) -> None:
    first, last, default = (
        run(command, windows, *options, "--json") for options in (("--window", 0), ("--window", 1), ())
    )
    assert first.returncode == 0, first.stderr
    assert last.stdout == default.stdout
    assert first.stdout != last.stdout or command == "link"


def test_windows_of_ranks_that_are_empty_are_passed_over(windows: Path, tmp_path: Path) -> None:
    (tmp_path / "window_0").symlink_to(windows / "window_0")
    (tmp_path / "window_1").mkdir()
    job = tracebraid.open(tmp_path)
    assert step_numbers(job[0]) == [1]
    assert job.findings == ()


def test_a_decorated_function_has_the_capture_to_step(tmp_path: Path) -> None:
    @tracebraid.capture(tmp_path, skip_first=0, wait=0, warmup=1, active=1)
    def train(steps: int) -> int:
        for _ in range(steps):
            torch.ones(3) + 1
            train.capture.step()
        return steps

    assert train(3) == 3
    assert isinstance(train.capture, tracebraid.Capture)
    assert step_numbers(tracebraid.open(tmp_path)[0]) == [1]


def test_a_run_can_have_a_new_folder(tmp_path: Path) -> None:
    for number in (1, 2):
        with tracebraid.capture(tmp_path, skip_first=0, wait=0, warmup=0, active=1, new=True) as cap:
            torch.ones(3) + 1
            cap.step()
        assert cap.out_dir == tmp_path / f"run_{number}"
        assert step_numbers(tracebraid.open(cap.out_dir)[0]) == [0]
