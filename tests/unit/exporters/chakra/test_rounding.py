"""Durations in us: no lane drifts, and kernels below a microsecond do not vanish."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracebraid.exporters.chakra.rounding import rounded_micros


def ints(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 10**12) | st.integers(0, 1_500)), max_size=60))
def test_sums_along_each_lane_stay_within_half_a_microsecond(nodes: list[tuple[int, int]]) -> None:
    lane, duration_ns = ints(*(node[0] for node in nodes)), ints(*(node[1] for node in nodes))
    micros = rounded_micros(duration_ns, lane)
    assert micros.dtype == np.int64
    assert np.all(micros >= 0)
    for number in range(4):
        on_lane = lane == number
        assert np.all(np.abs(np.cumsum(micros[on_lane]) * 1_000 - np.cumsum(duration_ns[on_lane])) <= 500)


def test_short_kernels_do_not_vanish() -> None:
    assert rounded_micros(np.full(1_000, 300), np.zeros(1_000, dtype=np.int64)).sum() == 300


def test_kernels_and_delays_of_a_chain_are_both_right() -> None:
    duration_ns, lane = np.tile(ints(400, 600), 500), np.tile(ints(0, 1), 500)
    micros = rounded_micros(duration_ns, lane)
    assert (micros[lane == 0].sum(), micros[lane == 1].sum()) == (200, 300)
    assert np.all(np.abs(np.cumsum(micros) * 1_000 - np.cumsum(duration_ns)) <= 1_000)


def test_no_node_has_no_duration() -> None:
    assert len(rounded_micros(ints(), ints())) == 0
