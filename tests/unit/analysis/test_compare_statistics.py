"""The statistics of comparisons: the U test, few false alarms, and small differences that are found."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from tests.planted.programs import GEMM_NS, Program
from tracebraid.analysis.compare.compare import compare_runs
from tracebraid.analysis.compare.profiles import RunProfile, rank_profile, run_profile
from tracebraid.analysis.compare.u_test import ALPHA, compare_rows, diff_steps, holm
from tracebraid.model.answers.job import DiffChange, DiffPart


def u_of(first: list[int], second: list[int]) -> float:
    return sum((b > a) + 0.5 * (b == a) for a in first for b in second)


def probability(first: list[int], second: list[int]) -> float:
    """The share of all ways to deal the values that are as far off."""
    both = first + second
    middle = len(first) * len(second) / 2
    off = abs(u_of(first, second) - middle)
    found = []
    for chosen in combinations(range(len(both)), len(second)):
        rest = [both[i] for i in range(len(both)) if i not in chosen]
        found.append(abs(u_of(rest, [both[i] for i in chosen]) - middle) >= off - 1e-9)
    return sum(found) / len(found)


@pytest.mark.parametrize(("first", "second"), [(1, 1), (2, 5), (4, 4), (6, 6), (5, 7)])
def test_without_ties_the_probability_is_exact(first: int, second: int) -> None:
    values = np.random.default_rng(first * 10 + second).permutation(1000)[: first + second].tolist()
    a, b = values[:first], values[first:]
    tested = compare_rows(np.array([a]), np.array([b]))
    assert tested.p[0] == pytest.approx(probability(a, b))


def test_with_ties_the_probability_is_not_below_what_counting_allows() -> None:
    a, b = [5, 5, 5, 5], [6, 6, 6, 6]
    assert compare_rows(np.array([a]), np.array([b])).p[0] >= probability(a, b)


def test_equal_rows_and_empty_samples_do_not_differ() -> None:
    values = np.full((3, 20), 7, dtype=np.int64)
    tested = compare_rows(values, values)
    assert tested.p.tolist() == [1.0] * 3
    assert tested.shift.tolist() == tested.low.tolist() == tested.high.tolist() == [0.0] * 3
    tied = np.array([[7] * 20, [7, 8] * 10, [7] * 19 + [8]])
    assert compare_rows(tied, tied).effective.tolist() == [40.0] * 3
    tested = compare_rows(np.empty((2, 0), dtype=np.int64), np.ones((2, 3), dtype=np.int64))
    assert tested.p.tolist() == [1.0, 1.0]
    assert np.isnan(tested.low).all()


def test_fewer_than_six_of_each_have_no_interval_and_nothing_is_significant() -> None:
    for count in range(1, 6):
        a = np.arange(count)[None, :]
        tested = compare_rows(a, a + 1000)
        assert np.isnan(tested.low[0])
        assert np.isnan(tested.high[0])
        assert tested.p[0] > ALPHA
        assert tested.shift[0] == 1000
    six = compare_rows(np.arange(6)[None, :], np.arange(6)[None, :] + 1000)
    assert six.p[0] <= ALPHA
    assert six.low[0] > 0


@pytest.mark.parametrize("count", [20, 49, 60, 300])
def test_the_interval_leaves_0_out_where_it_is_significant_and_negates_with_its_runs(count: int) -> None:
    rng = np.random.default_rng(count)
    a = np.rint(rng.normal(1e8, 1.5e6, (300, count))).astype(np.int64)
    b = np.rint(rng.normal(1.005e8, 1.5e6, (300, count))).astype(np.int64)
    tested, swapped = compare_rows(a, b), compare_rows(b, a)
    # Of 20 steps that happen to resemble each other there may be no interval.
    known = ~np.isnan(tested.low)
    assert known.mean() >= 0.98
    leaves_out = (tested.low > 0) | (tested.high < 0)
    # Of many values the interval is computed from quantiles: a difference at its very end may be called otherwise.
    assert (leaves_out == (tested.p <= ALPHA)).mean() >= (1.0 if count <= 49 else 0.97)
    assert (tested.shift == -swapped.shift).all()
    assert np.array_equal(tested.low, -swapped.high, equal_nan=True)
    assert tested.p == pytest.approx(swapped.p)
    assert (tested.low <= tested.shift)[known].all()
    assert (tested.shift <= tested.high)[known].all()


@pytest.mark.parametrize("count", [8, 20, 60])
def test_the_interval_holds_the_true_difference_as_often_as_it_says(count: int) -> None:
    rng = np.random.default_rng(7)
    a = np.rint(1e8 * rng.lognormal(0, 0.02, (2000, count))).astype(np.int64)
    b = np.rint(1e8 * rng.lognormal(0, 0.02, (2000, count))).astype(np.int64) + 3_000_000
    tested = compare_rows(a, b)
    misses = (tested.low > 3e6) | (tested.high < 3e6)
    assert misses.mean() <= 1.5 * ALPHA


NOISES: dict[str, Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]] = {
    "normal": lambda rng, shape: rng.normal(0, 1, shape),
    "skewed": lambda rng, shape: rng.gamma(2, math.sqrt(0.5), shape),
    "heavy-tailed": lambda rng, shape: rng.standard_t(3, shape) / math.sqrt(3),
}


@pytest.mark.parametrize("noise", NOISES)
def test_20_steps_with_noise_of_1_8_percent_hardly_alarm_and_show_3_percent(noise: str) -> None:
    rng = np.random.default_rng(11)
    a, b = (np.rint(1e8 * (1 + 0.018 * NOISES[noise](rng, (4000, 20)))).astype(np.int64) for _ in range(2))
    assert (compare_rows(a, b).p <= ALPHA).mean() <= 0.005
    slower = compare_rows(a, np.rint(b * 1.03).astype(np.int64))
    # 95.0 % at least; 0.8 % are more than two standard deviations of 4,000 draws.
    assert ((slower.p <= ALPHA) & (slower.low > 0)).mean() >= 0.95 - 0.008


def remembering(rng: np.random.Generator, shape: tuple[int, int], memory: float) -> NDArray[np.int64]:
    """Steps of which each resembles the one before: an autoregression of first order."""
    noise = rng.normal(0, 1, shape)
    found = noise.copy()
    for step in range(1, shape[1]):
        found[:, step] = memory * found[:, step - 1] + math.sqrt(1 - memory**2) * noise[:, step]
    return np.rint(1e8 * (1 + 0.02 * found)).astype(np.int64)


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize(("count", "memory", "most"), [(60, 0.5, 0.02), (60, 0.8, 0.02), (20, 0.8, 0.06)])
def test_steps_that_resemble_the_one_before_count_for_fewer(count: int, memory: float, most: float) -> None:
    rng = np.random.default_rng(5)
    a, b = (remembering(rng, (1500, count), memory) for _ in range(2))
    tested = compare_rows(a, b)
    assert (tested.p <= ALPHA).mean() <= most
    assert np.median(tested.effective) < count
    known = ~np.isnan(tested.low)
    leaves_out = (tested.low > 0) | (tested.high < 0)
    assert (leaves_out == (tested.p <= ALPHA))[known].mean() >= 0.97
    swapped = compare_rows(b, a)
    assert (tested.shift == -swapped.shift).all()
    assert np.array_equal(tested.low, -swapped.high, equal_nan=True)
    assert tested.p == pytest.approx(swapped.p)


@pytest.mark.slow
def test_what_a_run_differs_from_itself_is_no_difference_of_two() -> None:
    rng = np.random.default_rng(3)
    trends = rng.normal(0, 3e6, (2, 1000, 1)) * np.linspace(0, 1, 60)
    a, b = (np.rint(1e8 + trend + rng.normal(0, 1e6, trend.shape)).astype(np.int64) for trend in trends)
    tested = compare_rows(a, b)
    # As if steps were independent, it is 74 %.
    assert (tested.p <= ALPHA).mean() <= 0.3
    much = compare_rows(a, b + 10_000_000)
    assert (much.p <= ALPHA).mean() >= 0.8


def test_holm_raises_the_least_by_their_number_and_never_falls() -> None:
    p = np.array([0.01, 0.04, 0.001, 0.5])
    assert holm(p).tolist() == pytest.approx([0.03, 0.08, 0.004, 0.5])
    assert holm(np.array([0.3, 0.2])).tolist() == pytest.approx([0.4, 0.4])
    assert holm(np.empty(0)).tolist() == []


_Ints = NDArray[np.int64]
RESAMPLINGS = 200
MOST_FALSE_ALARMS = RESAMPLINGS // 100
SAMPLES = 20
SEED = 20
PLAIN = Program()


@cache
def real_like(noise: str, program: Program = PLAIN, seed: int = 3) -> RunProfile:
    """A run of 60 steps, none left out, with the noise of real ones."""
    rng = np.random.default_rng(seed)
    share = {
        "normal": rng.normal(1, 0.015, 60),
        "skewed": 1 + rng.gamma(2, 0.01, 60),
        # One step of ten is slower by a fifth: a checkpoint, a garbage collection.
        "spikes": rng.normal(1, 0.01, 60) + 0.2 * (rng.random(60) < 0.1),
    }[noise]
    steps = np.rint(8 * GEMM_NS * share).astype(np.int64).tolist()
    found = run_profile([rank_profile(program.scene(steps).linked())], True, True, True)
    assert found.samples >= 55
    return found


def drawn(run: RunProfile, samples: _Ints) -> RunProfile:
    """A run of some steps of another, which may be drawn repeatedly."""
    chosen = pl.DataFrame({"sample": samples, "new": np.arange(len(samples))})

    def of(frame: pl.DataFrame) -> pl.DataFrame:
        found = frame.join(chosen, on="sample", how="inner", maintain_order="left")
        return found.drop("sample").rename({"new": "sample"}).select(frame.columns)

    return replace(
        run,
        samples=len(samples),
        spans=run.spans[:, samples],
        ops=of(run.ops),
        kernels=of(run.kernels),
        parts=of(run.parts),
    )


def halves(run: RunProfile, rng: np.random.Generator) -> tuple[RunProfile, RunProfile]:
    """The steps of a run, dealt to two by chance."""
    order = rng.permutation(run.samples)
    half = run.samples // 2
    return drawn(run, np.sort(order[:half])), drawn(run, np.sort(order[half:]))


def slower(run: RunProfile, share: float) -> RunProfile:
    """A run all of whose spans are longer by a share, in its compute."""
    more = np.rint(run.spans * share).astype(np.int64)
    extra = pl.DataFrame({"sample": np.arange(run.samples), "more": more[0]})
    parts = run.parts.join(extra, on="sample", how="left", maintain_order="left")
    longest = (pl.col("part") == DiffPart.COMPUTE.value) & (pl.col("ns") == pl.col("ns").max().over("sample"))
    parts = parts.with_columns(
        pl.when(longest).then(pl.col("ns") + pl.col("more")).otherwise("ns").alias("ns")
    )
    return replace(run, spans=run.spans + more, parts=parts.drop("more"))


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("noise", ["normal", "skewed", "spikes"])
def test_two_halves_of_a_run_do_not_differ(noise: str) -> None:
    run, rng = real_like(noise), np.random.default_rng(SEED)
    alarms = sum(diff_steps(*halves(run, rng)).item(0, "significant") for _ in range(RESAMPLINGS))
    assert alarms <= MOST_FALSE_ALARMS


@pytest.mark.full
@pytest.mark.slow
def test_of_two_halves_of_a_run_no_part_op_or_kernel_differs_either() -> None:
    run, rng, alarms = real_like("skewed"), np.random.default_rng(SEED), 0
    for _ in range(RESAMPLINGS):
        found = compare_runs(*halves(run, rng))
        tables = (found.steps, found.parts, found.ops, found.kernels)
        alarms += any(table.get_column("significant").any() for table in tables)
        assert found.changed_ops.is_empty()
        assert found.changed_kernels.is_empty()
    assert alarms <= MOST_FALSE_ALARMS


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("noise", ["normal", "skewed", "spikes"])
def test_bootstrapped_steps_of_a_run_do_not_differ_and_3_percent_are_found(noise: str) -> None:
    run, rng = real_like(noise), np.random.default_rng(SEED + 1)
    alarms = hits = 0
    for _ in range(RESAMPLINGS):
        a, b = (drawn(run, rng.integers(0, run.samples, SAMPLES)) for _ in range(2))
        alarms += diff_steps(a, b).item(0, "significant")
        found = diff_steps(a, slower(b, 0.03)).row(0, named=True)
        hits += found["significant"] and found["low_ns"] > 0
    assert alarms <= MOST_FALSE_ALARMS
    assert hits >= 0.95 * RESAMPLINGS


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("noise", ["normal", "skewed"])
def test_parts_of_drawn_steps_add_up_and_a_slower_op_is_found(noise: str) -> None:
    run, rng = real_like(noise), np.random.default_rng(SEED + 2)
    for _ in range(RESAMPLINGS // 10):
        a, b = (drawn(run, rng.integers(0, run.samples, SAMPLES)) for _ in range(2))
        found = compare_runs(a, slower(b, 0.1))
        sums = found.parts.select(pl.col("a_ns", "b_ns", "difference_ns").sum()).row(0)
        assert sums == found.steps.select("a_ns", "b_ns", "difference_ns").row(0)
        row = found.parts.row(0, named=True)
        assert (row["part"], row["op"], row["significant"]) == (DiffPart.COMPUTE.value, "aten::addmm", True)


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "change"),
    [(Program(gemm="gemm_256x128"), DiffChange.RENAMED), (Program(extra_kernel=True), DiffChange.ADDED)],
)
@pytest.mark.parametrize("samples", [1, 2, 20])
def test_a_changed_kernel_is_found_in_every_resampling(
    program: Program, change: DiffChange, samples: int
) -> None:
    a, b, rng = real_like("spikes"), real_like("spikes", program), np.random.default_rng(SEED)
    for _ in range(RESAMPLINGS // 10):
        drawings = (drawn(run, rng.integers(0, run.samples, samples)) for run in (a, b))
        found = compare_runs(*drawings)
        assert found.changed_kernels.get_column("change").to_list() == [change.value]
