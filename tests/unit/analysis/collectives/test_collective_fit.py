"""Latency and bandwidth out of the transfers of several sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
import pytest

from tests.unit.analysis.collectives.made import linked_ranks, member
from tracebraid.analysis.collectives.collective_fit import collective_fit
from tracebraid.model.linked_ranks import LinkedRanks

ALPHA, BETA = 20_000.0, 10e9
SIZES = [1 << power for power in range(10, 27, 2)]


def ranks_of(sizes: Sequence[int], time_of: Callable[[int, int], float], **columns: object) -> LinkedRanks:
    """All-reduces of two ranks of these sizes; `time_of` takes the number and the size."""
    rows, start = [], 0
    for number, size in enumerate(sizes):
        end = start + round(time_of(number, size))
        rows += [
            member(rank, start, end, number, in_bytes=size, out_bytes=size, **columns) for rank in (0, 1)
        ]
        start = end + 1000
    return linked_ranks(rows)


def line(_: int, size: int) -> float:
    return ALPHA + size / BETA * 1e9


def test_exact_times_give_alpha_and_beta() -> None:
    found = collective_fit(ranks_of(SIZES, line)).row(0, named=True)
    assert found["alpha_ns"] == pytest.approx(ALPHA, rel=1e-3)
    assert found["beta_bytes_per_s"] == pytest.approx(BETA, rel=1e-3)
    assert found["r_squared"] == pytest.approx(1.0)
    assert (found["count"], found["sizes"], found["is_bound"]) == (len(SIZES), len(SIZES), False)


@pytest.mark.parametrize("seed", range(5))
def test_a_tenth_of_times_far_off_and_noise_of_5_percent_leave_it_within_10_percent(seed: int) -> None:
    random = np.random.default_rng(seed)
    noise = 1 + 0.05 * random.standard_normal(len(SIZES) * 20)
    noise[::10] *= 8

    def noisy(number: int, size: int) -> float:
        return line(number, size) * float(noise[number])

    found = collective_fit(ranks_of(SIZES * 20, noisy)).row(0, named=True)
    assert found["alpha_ns"] == pytest.approx(ALPHA, rel=0.1)
    assert found["beta_bytes_per_s"] == pytest.approx(BETA, rel=0.1)
    assert found["alpha_low_ns"] < found["alpha_ns"] < found["alpha_high_ns"]
    assert found["beta_low_bytes_per_s"] < found["beta_bytes_per_s"] < found["beta_high_bytes_per_s"]


def test_the_truth_is_in_its_interval_in_nine_of_ten_cases_at_least() -> None:
    inside = np.zeros(2)
    for seed in range(60):
        noise = 1 + 0.05 * np.random.default_rng(seed).standard_normal(len(SIZES) * 5)
        ranks = ranks_of(SIZES * 5, lambda number, size, by=noise: line(number, size) * float(by[number]))  # type: ignore[misc]
        found = collective_fit(ranks).row(0, named=True)
        inside += [
            found["alpha_low_ns"] <= ALPHA <= found["alpha_high_ns"],
            found["beta_low_bytes_per_s"] <= BETA <= found["beta_high_bytes_per_s"],
        ]
    assert (inside >= 0.9 * 60).all()


def test_a_single_size_gives_no_fit() -> None:
    found = collective_fit(ranks_of([1024] * 5, line)).row(0, named=True)
    assert (found["count"], found["sizes"]) == (5, 1)
    assert found["alpha_ns"] is found["beta_bytes_per_s"] is found["r_squared"] is None


def test_two_collectives_give_a_line_without_intervals() -> None:
    found = collective_fit(ranks_of([1024, 1 << 20], line)).row(0, named=True)
    assert found["beta_bytes_per_s"] == pytest.approx(BETA, rel=1e-3)
    assert found["alpha_low_ns"] is found["beta_high_bytes_per_s"] is None


@pytest.mark.parametrize("time_of", [lambda _, size: 1e9 / size, lambda *_: 5_000.0])
def test_times_that_do_not_grow_with_the_size_have_no_bandwidth(time_of: Callable[[int, int], float]) -> None:
    found = collective_fit(ranks_of(SIZES, time_of)).row(0, named=True)
    assert found["beta_bytes_per_s"] is None
    assert found["alpha_ns"] > 0


def test_alpha_is_never_below_0() -> None:
    found = collective_fit(ranks_of(SIZES, lambda _, size: (size / 1024) ** 1.3 * 100)).row(0, named=True)
    assert found["alpha_ns"] >= 0
    assert found["beta_bytes_per_s"] > 0


def test_unknown_sizes_and_no_time_are_left_out() -> None:
    assert collective_fit(linked_ranks([member(0, 0, 100), member(1, 0, 100)])).is_empty()
    assert collective_fit(ranks_of([8, 16], lambda *_: 0)).is_empty()


def test_transfers_that_may_hold_waiting_are_fitted_only_where_nothing_else_is_there() -> None:
    exact = ranks_of(SIZES, line)
    bound = [member(0, 10**9, 2 * 10**9, None, in_bytes=99, out_bytes=99)]
    rows = [*exact.members.to_dicts(), *bound]
    found = collective_fit(linked_ranks(rows)).row(0, named=True)
    assert (found["count"], found["is_bound"]) == (len(SIZES), False)
    alone = exact.members.filter(pl.col("rank") == 0).to_dicts()
    found = collective_fit(linked_ranks(alone)).row(0, named=True)
    assert (found["count"], found["is_bound"]) == (len(SIZES), True)
