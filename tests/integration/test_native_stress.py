"""Eight threads, workers, and two that start and stop recordings, for half a minute."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.running import run_script

pytest.importorskip("torch")


@pytest.mark.torch
@pytest.mark.slow
def test_everything_at_once(tmp_path: Path) -> None:
    done = run_script("native_stress.py", 30, tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    told = re.fullmatch(r"(\d+) recordings of (\d+) nodes\n", done.stdout)
    assert told
    assert int(told[1]) > 10
    assert int(told[2]) > 10_000
