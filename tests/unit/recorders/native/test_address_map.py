"""The recorder's hash table, of which entries are taken out all the time."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import tracebraid

NATIVE = Path(tracebraid.__file__).parent / "recorders" / "native"
PROGRAM = Path(__file__).parents[3] / "integration" / "scripts" / "address_map.cpp"


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_it_holds_what_the_standard_one_holds(tmp_path: Path) -> None:
    flags = [
        "-std=c++20",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{NATIVE}",
        "-o",
        str(tmp_path / "program"),
    ]
    subprocess.run(["g++", *flags, str(PROGRAM)], check=True)
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
