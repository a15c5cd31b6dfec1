"""The programs of `examples/advise`: the advice names why each is slow, and mending it saves what the advice says."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import tracebraid
from tests.integration.captured import QUIET

pytestmark = [
    pytest.mark.slow,
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch"),
]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "advise"
MOST_OF = 0.5
"""Share of the bound that mending saves at least."""
NOISE = 0.25
"""Share of the slow step by which two captures differ on a machine that does other work, too."""


def captured(program: str, folder: Path, *options: str) -> Path:
    """The traces of a program, in a new folder."""
    command = [sys.executable, str(EXAMPLES / f"{program}.py"), str(folder), *options]
    subprocess.run(command, check=True, capture_output=True, timeout=120, env={**os.environ, **QUIET})
    return folder


def step_of(folder: Path) -> float:
    """The median step, in ns."""
    value = tracebraid.metrics(tracebraid.open(folder), only=["step_time_median"]).item(0, "value")
    assert isinstance(value, float)
    return value


def advice_of(folder: Path) -> dict[str, Any]:
    """What `advise --json` prints; on standard error are notes on detectors that need a device."""
    command = [sys.executable, "-m", "tracebraid", "advise", str(folder), "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    data: dict[str, Any] = json.loads(done.stdout)
    return data


@pytest.mark.parametrize(
    ("program", "detector"),
    [
        ("data_loading", "data-loader"),
        ("many_products", "tiny-products"),
        ("metrics_in_the_step", "recording"),
    ],
)
def test_mending_what_is_advised_saves_most_of_the_bound(tmp_path: Path, program: str, detector: str) -> None:
    slow = captured(program, tmp_path / "slow")
    advice = advice_of(slow)
    assert advice["advice"][0]["detector"] == detector
    by_step = [row["saving_ns"] for row in advice["by_step"] if row["item"] == 1]
    bound = median(by_step)
    mended = captured(program, tmp_path / "mended", "--mended")
    before, after = step_of(slow), step_of(mended)
    assert before > 3 * after
    assert MOST_OF * bound <= before - after <= bound + NOISE * before


def test_the_mended_programs_are_advised_of_it_no_more(tmp_path: Path) -> None:
    mended = captured("many_products", tmp_path / "mended", "--mended")
    found = [item["detector"] for item in advice_of(mended)["advice"]]
    assert "tiny-products" not in found
