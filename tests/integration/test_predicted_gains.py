"""Pairs of captures with and without a change: the graph of the first predicts what the second took."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks.whatif_pairs.capture import Loop, capture_pair, loops_of
from benchmarks.whatif_pairs.declare import pairs
from benchmarks.whatif_pairs.judge import judged

pytestmark = [pytest.mark.full, pytest.mark.torch, pytest.mark.slow]

OFF = 0.25
"""By how much of the measured gain a prediction may be off here; the benchmark says how good they are."""
NOISE = 3.0
"""How many times the spread of the steps of a pair it may be off on a busy machine."""
PLANTED_MS = {"loader_sleep": 4.0, "straggler": 15.0}
"""What the program sleeps in a step, and does not with the change."""


ATTEMPTS = 3
"""How often a pair is captured before it counts: on a busy machine a process may wait in one half of a pair only."""


def spread_ms(loop: Loop) -> float:
    """The distance of the quartiles of the recorded steps."""
    return float(np.subtract(*np.quantile(loop.recorded, [0.75, 0.25])))


def is_predicted(name: str, folder: Path) -> bool:
    """Whether the gain that was measured was predicted, and no less than what the change removes."""
    pair = pairs()[name]
    capture_pair(pair, folder, rounds=1, attempts=1)
    (found,) = judged(pair, folder).recorded
    noise_ms = NOISE * max(spread_ms(loop) for loops in loops_of(folder / name, pair) for loop in loops)
    # A sleep takes no less than it says, however busy the machine is; at most the other rank hides some of it.
    least_ms = PLANTED_MS[name] - max(OFF * PLANTED_MS[name], noise_ms)
    off_ms = abs(found.gain_ms - found.real_gain_ms)
    return off_ms <= max(OFF * abs(found.real_gain_ms), noise_ms) and found.gain_ms >= least_ms


@pytest.mark.parametrize("name", list(PLANTED_MS))
def test_a_gain_is_predicted_from_the_capture_without_the_change(tmp_path: Path, name: str) -> None:
    assert any(is_predicted(name, tmp_path / str(attempt)) for attempt in range(ATTEMPTS))
