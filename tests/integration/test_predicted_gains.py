"""Pairs of captures with and without a change: the graph of the first predicts what the second took."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("numba")

from benchmarks.whatif_programs.pairs import Pair, capture_pair, measured_pair
from tests.integration.calm import shared_capture

pytestmark = [pytest.mark.torch, pytest.mark.slow]

OFF = 0.25
"""By how much of the measured gain a prediction may be off here; the benchmark says how good they are."""
NOISE = 3.0
"""How many times the spread of the steps of a pair it may be off on a busy machine."""


def pair(factory: pytest.TempPathFactory, name: str) -> Pair:
    folder = shared_capture(factory, f"pair_{name}", lambda folder: capture_pair(name, folder, 1))
    return measured_pair(name, folder, 1)


@pytest.mark.parametrize("name", ["loader_sleep", "straggler"])
def test_a_gain_is_predicted_from_the_capture_without_the_change(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    found = pair(tmp_path_factory, name)
    assert abs(found.error_ms) <= max(OFF * abs(found.measured_ms), NOISE * found.spread_ms)
    # Where the noise does not drown it, it has the direction that it was planted with.
    if abs(found.measured_ms) > NOISE * found.spread_ms:
        assert found.predicted_ms > 0
