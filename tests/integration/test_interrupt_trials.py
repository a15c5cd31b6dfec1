"""The trials of `make interrupts` judge truly, and a few of them find nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.interrupts.left import half_written, is_pointed_at, odd_names, unfinished

_ROOT = Path(__file__).parents[2]


def test_commands_that_are_struck_leave_nothing_half() -> None:
    words = ["--interrupts", "2", "--kills", "2", "--jobs", "1", "--only", "from the start, without torch"]
    done = subprocess.run(
        [sys.executable, "-m", "tools.interrupts", *words],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.startswith("4 trials, ")


@pytest.mark.parametrize("name", ["a.html", "a.csv", "a.json", "a.json.gz", "a.parquet", "a.unknown"])
def test_what_is_cut_is_a_fault(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"{")
    assert [entry.split(":")[0] for entry in half_written(tmp_path)] == [name]


def test_names_are_told_apart(tmp_path: Path) -> None:
    parts = (".a.gz.1-ab.whole.part", ".b.1-ab.recording.json", ".b.1-ab.recording.json.tmp")
    for name in (*parts, ".odd", ".lock"):
        (tmp_path / name).touch()
    assert (unfinished(tmp_path), odd_names(tmp_path)) == (list(parts), [".odd"])
    assert is_pointed_at(tmp_path)
