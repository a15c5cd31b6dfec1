"""Pairs of captures with and without a change: the graph of the first predicts what the second took."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("numba")

from benchmarks.whatif_programs.pairs import capture_pair, measured_pair
from tests.integration.calm import shared_capture

pytestmark = [pytest.mark.torch, pytest.mark.slow]

OFF = 0.25
"""By how much of the measured gain a prediction may be off here; the benchmark says how good they are."""
NOISE = 3.0
"""How many times the spread of the steps of a pair it may be off on a busy machine."""
PLANTED_MS = {"loader_sleep": 4.0, "straggler": 15.0}
"""What the program sleeps in a step, and does not with the change."""


@pytest.mark.parametrize("name", list(PLANTED_MS))
def test_a_gain_is_predicted_from_the_capture_without_the_change(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    folder = shared_capture(tmp_path_factory, f"pair_{name}", lambda folder: capture_pair(name, folder, 1))
    found = measured_pair(name, folder, 1)
    noise_ms = NOISE * found.spread_ms
    assert abs(found.error_ms) <= max(OFF * abs(found.measured_ms), noise_ms)
    # A sleep takes no less than it says, however busy the machine is; at most the other rank hides some of it.
    assert found.predicted_ms >= PLANTED_MS[name] - max(OFF * PLANTED_MS[name], noise_ms)
