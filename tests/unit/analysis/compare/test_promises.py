"""What a comparison promises: hardly a false alarm, small differences found, changed kernels always found.

The steps of a run are drawn again and again, whole: what an op, a part and a kernel take in a step stays together.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from tests.planted.programs import GEMM_NS, Program
from tracebraid.analysis.compare.compare import compare_runs
from tracebraid.analysis.compare.diff_steps import diff_steps
from tracebraid.analysis.compare.profiles.rank_profile import rank_profile
from tracebraid.analysis.compare.profiles.run_profile import RunProfile, run_profile
from tracebraid.model.answers import DiffChange, DiffPart

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


@pytest.mark.parametrize("noise", ["normal", "skewed", "spikes"])
def test_two_halves_of_a_run_do_not_differ(noise: str) -> None:
    run, rng = real_like(noise), np.random.default_rng(SEED)
    alarms = sum(diff_steps(*halves(run, rng)).item(0, "significant") for _ in range(RESAMPLINGS))
    assert alarms <= MOST_FALSE_ALARMS


def test_of_two_halves_of_a_run_no_part_op_or_kernel_differs_either() -> None:
    run, rng, alarms = real_like("skewed"), np.random.default_rng(SEED), 0
    for _ in range(RESAMPLINGS):
        found = compare_runs(*halves(run, rng))
        tables = (found.steps, found.parts, found.ops, found.kernels)
        alarms += any(table.get_column("significant").any() for table in tables)
        assert found.changed_ops.is_empty()
        assert found.changed_kernels.is_empty()
    assert alarms <= MOST_FALSE_ALARMS


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


@pytest.mark.parametrize(
    ("program", "change"),
    [
        (Program(gemm="gemm_256x128"), DiffChange.RENAMED),
        (Program(extra_kernel=True), DiffChange.ADDED),
    ],
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
