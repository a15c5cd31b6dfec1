"""The gate names what is flaky, is red for what fails twice, and goes on after a test that hangs or dies."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.waiting import HANG_S

pytestmark = pytest.mark.full

SKIPS = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_skips(number):
    pytest.skip("no compiler")
"""
PASSES = "def test_passes():\n    pass\n"
FAILS = "def test_fails():\n    assert False\n"
FLAKY = """
import pathlib
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_flaky(number):
    seen = pathlib.Path(__file__).with_name(f"seen_{{number}}")
    was_there = seen.exists()
    seen.touch()
    assert was_there, "the first time"
"""
HANGS = "import threading\n\ndef test_hangs():\n    threading.Event().wait()\n"
DIES = "import os, signal\n\ndef test_dies():\n    os.kill(os.getpid(), signal.SIGSEGV)\n"
STARTS = """
import subprocess
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_starts(number):
    subprocess.run(["true"])
"""
MARKED = """
import pytest

@pytest.mark.full
def test_slow():
    pass

@pytest.mark.full(keep=2)
@pytest.mark.parametrize("number", range(10))
def test_of_many_cases(number):
    pass
"""


def gate(folder: Path, *options: str, **files: str) -> tuple[int, str]:
    """The exit code and the output of a run of the gate over some files of tests."""
    (folder / "conftest.py").write_text('pytest_plugins = ["tests.gate"]\n')
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = full\n    slow\n")
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--gate", "-n2", *options],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_S,
    )
    return done.returncode, done.stdout + done.stderr


def test_what_passes_alone_is_flaky_and_named_with_its_first_error(tmp_path: Path) -> None:
    code, said = gate(tmp_path, flaky=FLAKY.format(count=3), passes=PASSES)
    assert code == 0
    assert len(re.findall(r"^flaky: test_flaky.py::test_flaky\[\d\]$", said, re.MULTILINE)) == 3
    assert "the first time" in said
    assert re.search(r"=+ 1 passed, 3 flaky in", said)


def test_more_than_three_flaky_tests_are_red(tmp_path: Path) -> None:
    code, said = gate(tmp_path, flaky=FLAKY.format(count=4))
    assert code == 1
    assert "red: 4 tests are flaky, at most 3 may be" in said


def test_what_fails_twice_is_red(tmp_path: Path) -> None:
    code, said = gate(tmp_path, fails=FAILS, flaky=FLAKY.format(count=1))
    assert code == 1
    assert re.search(r"=+ 1 failed, 1 flaky in", said)


def test_a_test_that_hangs_ends_with_its_stacks_and_the_others_go_on(tmp_path: Path) -> None:
    limits = ("-o", "faulthandler_timeout=2", "-o", "faulthandler_exit_on_timeout=true")
    code, said = gate(tmp_path, *limits, hangs=HANGS, passes=PASSES, fails=FAILS)
    assert code == 1
    assert "in test_hangs" in said
    assert re.search(r"=+ 2 failed, 1 passed in", said)


def test_a_test_that_kills_its_process_fails_alone(tmp_path: Path) -> None:
    code, said = gate(tmp_path, dies=DIES, passes=PASSES)
    assert code == 1
    assert re.search(r"=+ 1 failed, 1 passed in", said)


@pytest.mark.parametrize(("count", "code"), [(60, 0), (61, 1)])
def test_starts_of_processes_are_counted(tmp_path: Path, count: int, code: int) -> None:
    found, said = gate(tmp_path, starts=STARTS.format(count=count))
    assert found == code
    assert f"processes started by tests: {count}, at most 60" in said
    assert ("test_starts[0]" in said) == bool(code)


def test_of_what_is_marked_only_the_kept_cases_run(tmp_path: Path) -> None:
    code, said = gate(tmp_path, "-v", marked=MARKED)
    assert code == 0
    assert set(re.findall(r"test_of_many_cases\[(\d)\]", said)) == {"0", "5"}
    assert "test_slow" not in said


def test_skips_are_told_by_reason(tmp_path: Path) -> None:
    code, said = gate(tmp_path, skips=SKIPS)
    assert code == 0
    assert "skipped 3: no compiler" in said
