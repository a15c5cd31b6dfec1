"""Results that standard output does not take end in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

import tracebraid

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", [("--version",), ("info", "{demo}", "--json")], ids=" ".join)
def test_a_full_disk_behind_standard_output_is_said_in_one_line(arguments: tuple[str, ...]) -> None:
    demo = tracebraid.demo_path() / "kineto_trace_0.json.gz"
    with FULL.open("w") as full:
        done = ended([str(demo) if part == "{demo}" else part for part in arguments], full)
    assert done.returncode == 1
    assert done.stderr.startswith("error: standard output: it cannot be written")
    assert done.stderr.count("\n") == 1


def ended(arguments: list[str], out: IO[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tracebraid", *arguments]
    return subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=False)


def test_a_process_without_standard_output_ends_well() -> None:
    command = 'exec "$@" >&-'
    line = ["sh", "-c", command, "sh", sys.executable, "-m", "tracebraid", "metrics", "--list"]
    done = subprocess.run(line, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
