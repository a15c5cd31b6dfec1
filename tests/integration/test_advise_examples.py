"""The programs of `examples/advise`: the advice names why each is slow, and mending it saves what the advice says."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles

import polars as pl
import pytest

import tracebraid
from tests.integration.calm import calmest
from tests.integration.captured import QUIET
from tests.waiting import HANG_S

pytestmark = [
    pytest.mark.full,
    pytest.mark.slow,
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch"),
]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "advise"
MOST_OF = 0.5
"""Share of the bound that mending saves at least."""
NOISE = 0.25
"""Share of the slow step by which two captures differ on a machine that does other work, too."""
CALM = 0.1
"""Share of the slow step within which half of a capture's steps lie; above it, the program is captured again."""


def captured(program: str, folder: Path, *options: str, slow_step: float | None = None) -> Path:
    """The traces of a program, below a new folder; of several captures where the steps differ too much."""

    def capture(target: Path) -> None:
        command = [sys.executable, str(EXAMPLES / f"{program}.py"), str(target), *options]
        subprocess.run(command, check=True, capture_output=True, timeout=HANG_S, env={**os.environ, **QUIET})

    def disturbance(target: Path) -> float:
        low, _, high = quantiles(steps_of(target), n=4)
        return (high - low) / (slow_step or median(steps_of(target)))

    folder.mkdir()
    return calmest(folder, capture, disturbance, CALM)


def steps_of(folder: Path, only: Sequence[str] | None = None) -> list[int]:
    """How long each step takes, in ns; those of some names only."""
    (linked,) = tracebraid.open(folder)
    steps = tracebraid.analyses.steps(linked)
    if only is not None:
        steps = steps.filter(pl.col("step").is_in(only))
    return steps.select(pl.col("end_ns") - pl.col("start_ns")).to_series().to_list()


@pytest.mark.parametrize(
    ("program", "detector"),
    [
        ("data_loading", "data-loader"),
        ("layout_copies", "layout-copies"),
        ("metrics_in_the_step", "recording"),
    ],
)
def test_mending_what_is_advised_saves_most_of_the_bound(tmp_path: Path, program: str, detector: str) -> None:
    slow = captured(program, tmp_path / "slow")
    advice = tracebraid.advise(tracebraid.open(slow))
    assert advice.items.get_column("detector").to_list()[:1] == [detector]
    # Steps that a disturbed machine made a warm-up count on neither side.
    by_step = advice.by_step.filter(pl.col("item") == 1)
    bound = median(by_step.get_column("saving_ns").to_list())
    before = median(steps_of(slow, by_step.get_column("step").to_list()))
    mended = captured(program, tmp_path / "mended", "--mended", slow_step=before)
    after = median(steps_of(mended))
    assert before > 3 * after
    assert MOST_OF * bound <= before - after <= bound + NOISE * before
