"""What a wheel holds: the native library where it was made with a compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.builders import kineto_text, op, write
from tests.conftest import ROOT
from tracebraid.native import LIBRARY

READS = """
import sys, tracebraid
from pathlib import Path
from tracebraid.importers.kineto.reader import read_timeline
from tracebraid.native import library
assert tracebraid.__file__.startswith(sys.argv[2]), tracebraid.__file__
print(len(read_timeline(Path(sys.argv[1])).events), library.native_library(False) is not None)
"""


def made(folder: Path, compiler: str) -> Path:
    """A wheel of this source, compiled so."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"CXX": compiler}, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.mark.full
@pytest.mark.parametrize("compiler", ["c++", "/nonexistent/c++"])
def test_a_wheel_reads_natively_if_it_was_made_with_a_compiler(tmp_path: Path, compiler: str) -> None:
    expected = shutil.which(compiler) is not None
    wheel = made(tmp_path, compiler)
    assert wheel.name.endswith("-py3-none-any.whl") == (not expected)
    with zipfile.ZipFile(wheel) as file:
        assert (f"tracebraid/native/{LIBRARY}" in file.namelist()) == expected
        file.extractall(tmp_path / "site")
    trace = write(tmp_path / "t.json", kineto_text([op("a", 1, 2), op("b", 3, 4)]))
    told = subprocess.run(
        [sys.executable, "-c", READS, str(trace), str(tmp_path / "site")],
        env=os.environ | {"PYTHONPATH": str(tmp_path / "site"), "TRACEBRAID_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.stdout.split() == ["2", str(expected)], told.stderr
