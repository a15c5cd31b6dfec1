"""Values over steps and ranks, and how well the steps determine them."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from tracebraid.analysis.distributions import student_quantile
from tracebraid.analysis.metrics.memory import quantile_values, ratio_values, values_over_ranks
from tracebraid.model.questions import OverRanks

SEED = 13


def samples(rows: dict[int, list[tuple[float | None, float | None]]]) -> pl.DataFrame:
    """Amount and base of each step of each rank."""
    return pl.DataFrame(
        [
            (rank, f"ProfilerStep#{number}", 0, amount, base)
            for rank, steps in rows.items()
            for number, (amount, base) in enumerate(steps)
        ],
        schema={"rank": pl.Int64, "step": pl.String, "occurrence": pl.Int64, "amount": pl.Float64}
        | {"base": pl.Float64},
        orient="row",
    )


def values(frame: pl.DataFrame) -> dict[int | None, float]:
    return dict(frame.select("rank", "value").rows())


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [(1, 12.7062047), (2, 4.3026527), (3, 3.1824463), (10, 2.2281389), (31, 2.0395134), (10**7, 1.959964)],
)
def test_the_quantile_is_that_of_the_printed_tables(degrees: int, quantile: float) -> None:
    assert student_quantile(degrees) == pytest.approx(quantile, rel=2e-4)


def test_a_ratio_is_that_of_the_sums() -> None:
    found = values(ratio_values(samples({0: [(1, 10), (5, 30)], 1: [(2, 10), (2, 10)]}), OverRanks.POOLED))
    assert found == {None: 10 / 60, 0: 6 / 40, 1: 4 / 20}


def test_the_steps_of_the_job_count_as_they_are_given() -> None:
    of_ranks = samples({0: [(1, 1), (5, 1)], 1: [(3, 1), (2, 1)]})
    of_job = of_ranks.filter(pl.col("rank") == 0).select("step", "occurrence", amount=pl.Series([4, 6]))
    found = values(ratio_values(of_ranks, OverRanks.ALIGNED, of_job=of_job))
    assert found == {None: 5, 0: 3, 1: 2.5}


def test_the_ranks_add_up() -> None:
    found = values(ratio_values(samples({0: [(1, 1), (5, 1)], 1: [(3, 1), (2, 1)]}), OverRanks.SUM))
    assert found == {None: 5.5, 0: 3, 1: 2.5}


def test_the_interval_of_a_mean_is_students() -> None:
    amounts = [3.0, 4.0, 8.0, 5.0]
    (row,) = (
        ratio_values(samples({0: [(x, 1) for x in amounts]}), OverRanks.POOLED)
        .filter(pl.col("rank") == 0)
        .to_dicts()
    )
    reach = 3.1824463 * np.std(amounts, ddof=1) / math.sqrt(4)
    assert (row["low"], row["high"]) == pytest.approx((5 - reach, 5 + reach))
    assert row["steps"] == 4


def test_a_single_step_and_a_whole_trace_have_no_interval() -> None:
    single = ratio_values(samples({0: [(1, 2)]}), OverRanks.POOLED)
    whole = ratio_values(
        samples({0: [(1, 2)]}).with_columns(step=pl.lit(None, dtype=pl.String)), OverRanks.POOLED
    )
    assert single.get_column("steps").to_list() == [1, 1]
    assert whole.get_column("steps").to_list() == [0, 0]
    assert single.get_column("low").is_null().all()
    assert whole.get_column("high").is_null().all()


def test_nothing_to_divide_by_is_no_value() -> None:
    assert ratio_values(samples({0: [(0, 0), (0, 0)]}), OverRanks.POOLED).is_empty()
    assert ratio_values(samples({0: [(None, 1)]}), OverRanks.POOLED).is_empty()
    assert ratio_values(samples({}), OverRanks.POOLED).is_empty()


def test_an_interval_stays_within_what_is_possible() -> None:
    found = ratio_values(samples({0: [(0, 1), (1, 1)]}), OverRanks.POOLED, (0.0, 1.0))
    assert found.select("low", "high").rows() == [(0, 1), (0, 1)]


def test_intervals_of_ratios_hold_the_truth_as_often_as_they_say() -> None:
    """1,000 runs of 12 steps with a ratio of 0.25: of 95 %, 950 are expected, with a deviation of 7."""
    random = np.random.default_rng(SEED)
    runs, steps = 1000, 12
    base = random.uniform(80, 120, (runs, steps))
    amount = 0.25 * base + random.normal(0, 2, (runs, steps))
    rows = {run: list(zip(amount[run].tolist(), base[run].tolist(), strict=True)) for run in range(runs)}
    found = ratio_values(samples(rows), OverRanks.POOLED).filter(pl.col("rank").is_not_null())
    assert 920 <= found.filter(pl.lit(0.25).is_between("low", "high")).height <= 980


def test_a_quantile_is_numpys() -> None:
    amounts = [5.0, 1.0, 4.0, 2.0, 9.0]
    rows = samples({3: [(x, 1) for x in amounts]})
    found = values(quantile_values(rows, 0.95, rows))
    assert found == {None: np.percentile(amounts, 95), 3: np.percentile(amounts, 95)}


@pytest.mark.parametrize(("quantile", "least"), [(0.5, 6), (0.95, 72)])
def test_few_steps_say_nothing_of_a_quantile(quantile: float, least: int) -> None:
    for count, known in ((least - 1, 0), (least, 1)):
        rows = samples({0: [(float(x), 1) for x in range(count)]})
        found = quantile_values(rows, quantile, rows).filter(pl.col("rank") == 0)
        assert found.get_column("low").count() == found.get_column("high").count() == known


def test_intervals_of_quantiles_hold_the_truth_at_least_as_often_as_they_say() -> None:
    random = np.random.default_rng(SEED)
    rows: dict[int, list[tuple[float | None, float | None]]] = {
        run: [(float(x), 1.0) for x in random.exponential(1.0, 40)] for run in range(400)
    }
    found = quantile_values(samples(rows), 0.5, samples(rows)).filter(pl.col("rank").is_not_null())
    assert found.filter(pl.lit(math.log(2)).is_between("low", "high")).height >= 0.93 * 400


def test_many_steps_are_no_problem() -> None:
    rows = samples({0: [(float(x), 1) for x in range(3000)]})
    (row,) = quantile_values(rows, 0.5, rows).filter(pl.col("rank") == 0).to_dicts()
    assert row["low"] < row["value"] < row["high"]


@pytest.mark.parametrize(
    ("over_ranks", "job"),
    [(OverRanks.MEAN, 2.5), (OverRanks.SUM, 5), (OverRanks.MAX, 4), (OverRanks.MIN, 1)],
)
def test_values_of_ranks_are_joined(over_ranks: OverRanks, job: float) -> None:
    found = pl.DataFrame({"rank": [1, 0], "value": [4.0, 1.0]})
    assert values(values_over_ranks(found, over_ranks)) == {None: job, 0: 1, 1: 4}


def test_a_sum_needs_the_value_of_each_rank() -> None:
    found = pl.DataFrame({"rank": [0, 1], "value": [4.0, None]})
    assert values(values_over_ranks(found, OverRanks.SUM)) == {0: 4}
    assert values(values_over_ranks(found, OverRanks.MEAN)) == {None: 4, 0: 4}
