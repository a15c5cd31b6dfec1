"""Several captures of a run: captures are the sample, and those that are no sample are refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace

from tests.cases import cases
from tests.planted import Scene
from tests.planted.programs import GEMM_NS, Program
from tracebraid.analysis.compare.captures import Capture, welch
from tracebraid.analysis.compare.compare import compare
from tracebraid.analysis.compare.profiles import RankProfile, rank_profile
from tracebraid.errors import ArgumentError
from tracebraid.model.answers.job import DiffSetting, LeftOut
from tracebraid.model.gaps import Gap
from tracebraid.model.questions import CautionCode, Comparison, GateOutcome, Verdict
from tracebraid.reports.diff import captures_table, diff_data, gate_line, verdict_line
from tracebraid.reports.sections.comparison import comparison_report

STEPS = 4
PLAIN = Program()


@cache
def ranks_of(
    share: float, program: Program = PLAIN, world_size: int = 1, first: int = 1, marked: bool = True
) -> Capture:
    """A capture whose large kernel takes so much longer than `GEMM_NS`, the steps a little more each."""
    lengths = [round(8 * GEMM_NS * (1 + share)) + 1_000 * number for number in range(STEPS)]
    found = []
    for rank in range(world_size):
        linked = program.scene(lengths, rank, world_size).linked()
        profile = rank_profile(linked if marked else linked.with_annotation("other"))
        names = pl.format("ProfilerStep#{}", pl.int_range(first, first + profile.windows.height))
        windows = profile.windows.with_columns(names.alias("step")) if marked else profile.windows
        found.append(replace(profile, windows=windows))
    return found


def run(*percent: float, **options: Any) -> list[Capture]:
    return [ranks_of(each / 100, **options) for each in percent]


Side: TypeAlias = Callable[[], list[Capture]]
"""The captures of a run, which are made when they are needed."""


def side(*percent: float, **options: Any) -> Side:
    return partial(run, *percent, **options)


A, B = side(0, 0.4, -0.4), side(20, 20.5, 19.5)
A_OF_2, B_OF_2 = side(0, 0.4, -0.4, world_size=2), side(20, 20.5, 19.5, world_size=2)


@pytest.mark.full(keep=4)
@pytest.mark.slow
@cases(
    "a, b, verdict, outcome",
    {
        "equal programs": (A, side(0.1, -0.3, 0.3), Verdict.NO_DIFFERENCE_FOUND, GateOutcome.PASSED),
        "20 % slower": (A, B, Verdict.SLOWER, GateOutcome.REGRESSION),
        "3 % slower, within the limit": (A, side(3, 3.3, 2.8), Verdict.SLOWER, GateOutcome.PASSED),
        "20 % faster": (A, side(-20, -20.5, -19.5), Verdict.FASTER, GateOutcome.PASSED),
        "much faster, with more noise than the limit": (
            A,
            side(-60, -64, -56),
            Verdict.FASTER,
            GateOutcome.PASSED,
        ),
        "20 % slower in noise of as much": (
            side(0, 18, -15),
            side(20, 38, 3),
            Verdict.NO_DIFFERENCE_FOUND,
            GateOutcome.NOT_JUDGED,
        ),
        "equal in noise that hides the limit": (
            side(0, 9, -9),
            side(0.1, 8, -8),
            Verdict.NO_DIFFERENCE_FOUND,
            GateOutcome.NOT_JUDGED,
        ),
        "two of each": (side(0, 0.4), side(20, 20.5), Verdict.NOT_JUDGED, GateOutcome.NOT_JUDGED),
        "one against three": (side(0), B, Verdict.NOT_JUDGED, GateOutcome.NOT_JUDGED),
        "jobs of two ranks": (
            A_OF_2,
            B_OF_2,
            Verdict.SLOWER,
            GateOutcome.REGRESSION,
        ),
        "a side without steps": (
            side(0, 0.4, -0.4, marked=False),
            B,
            Verdict.NOT_JUDGED,
            GateOutcome.NOT_JUDGED,
        ),
    },
)
def test_captures_are_the_sample(a: Side, b: Side, verdict: Verdict, outcome: GateOutcome) -> None:
    found = compare(a(), b())
    assert (found.verdict, found.gate(0.05)) == (verdict, outcome)
    assert found.is_slower(0.05) == (outcome is GateOutcome.REGRESSION)
    row = found.steps.row(0, named=True)
    assert found.parts.select(pl.col("a_ns", "b_ns", "difference_ns").sum()).row(0) == tuple(
        row[name] for name in ("a_ns", "b_ns", "difference_ns")
    )
    assert (row["captures_a"], row["captures_b"]) == (len(a()), len(b()))
    assert found.captures.height == len(a()) + len(b())
    assert row["effective_steps"] is row["autocorrelation_a"] is None
    assert compare(b(), a()).difference_ns == -found.difference_ns
    for limit in (0.0, 0.05, 1.0):
        assert gate_line(found, limit)
    assert verdict_line(found)
    assert captures_table(found, 10, 100) is not None
    assert diff_data(found, [], 0.05)["regression"]["outcome"] == outcome.value
    assert comparison_report(found, limit=0.05).sections


def test_ops_and_kernels_are_tested_by_captures_too() -> None:
    found = compare(A(), B())
    assert found.ops.filter("significant").get_column("name").to_list() == ["aten::addmm"]
    assert found.kernels.filter("significant").get_column("kernel_b").to_list() == ["gemm_128x64"]
    assert found.changed_ops.is_empty()
    few = compare(A()[:2], B()[:2])
    assert few.ops.get_column("significant").null_count() == few.ops.height


def doubted(capture: Capture, *steps: int) -> list[RankProfile]:
    """The capture with these of its steps, from 0, doubted."""
    mark = pl.when(pl.col("window").is_in(steps)).then(pl.lit(Gap.STREAM_OVERLAPS.value)).alias("doubt")
    return [replace(rank, windows=rank.windows.with_columns(mark)) for rank in capture]


def without_step(capture: Capture, rank: int, step: int) -> list[RankProfile]:
    return [
        replace(each, windows=each.windows.filter(pl.col("window") != step)) if each.rank == rank else each
        for each in capture
    ]


EVERY = range(STEPS)


@pytest.mark.slow
@cases(
    "a, left_out, expected, outcome",
    {
        "a doubtful step": (
            lambda: [*A()[:2], doubted(A()[2], 1)],
            [("a", 3, "ProfilerStep#2", LeftOut.DOUBTFUL.value, Gap.STREAM_OVERLAPS.value)],
            {CautionCode.STEPS_LEFT_OUT},
            GateOutcome.REGRESSION,
        ),
        "a step that a rank lacks": (
            lambda: [*A_OF_2()[:2], without_step(A_OF_2()[2], 1, 3)],
            [("a", 3, "ProfilerStep#4", LeftOut.NOT_ON_ALL_RANKS.value, None)],
            {CautionCode.STEPS_LEFT_OUT},
            GateOutcome.REGRESSION,
        ),
        "a doubted capture": (
            lambda: [*A()[:2], doubted(A()[2], *EVERY)],
            [],
            {CautionCode.DOUBTFUL_STEPS},
            GateOutcome.NOT_JUDGED,
        ),
        "a side of doubted captures": (
            lambda: [doubted(capture, *EVERY) for capture in A()],
            [],
            {CautionCode.DOUBTFUL_STEPS},
            GateOutcome.NOT_JUDGED,
        ),
        "two captures": (side(0, 0.4), [], {CautionCode.FEW_CAPTURES}, GateOutcome.NOT_JUDGED),
        "other steps": (side(0, 0.4, -0.4, first=100), [], {CautionCode.OTHER_STEPS}, GateOutcome.REGRESSION),
        "no steps": (
            side(0, 0.4, -0.4, marked=False),
            [],
            {CautionCode.NO_STEPS, CautionCode.PROGRAMS_DIFFER},
            GateOutcome.NOT_JUDGED,
        ),
    },
)
def test_what_does_not_count_is_said_with_its_reason(
    a: Side, left_out: list[tuple[object, ...]], expected: set[CautionCode], outcome: GateOutcome
) -> None:
    found = compare(a(), B_OF_2() if len(a()[0]) == 2 else B())
    assert found.left_out.rows() == left_out
    assert {caution.code for caution in found.cautions} == expected
    assert found.gate(0.05) is outcome
    assert diff_data(found, [], None)["left_out"] == found.left_out.to_dicts()


def test_doubtful_steps_count_if_wanted() -> None:
    found = compare([doubted(capture, *EVERY) for capture in A()], B(), with_doubtful=True)
    assert (found.gate(0.05), found.cautions) == (GateOutcome.REGRESSION, ())


def other_program() -> Capture:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    for number in range(1, 1 + STEPS):
        with host.step(number), host.op("aten::conv2d", dims=[[1, 3, 8, 8]]):
            host.launch(stream, "conv", 8 * GEMM_NS)
    return [rank_profile(scene.linked())]


def of_world(capture: Capture, size: str) -> Capture:
    return [replace(rank, settings={**rank.settings, DiffSetting.WORLD_SIZE: size}) for rank in capture]


@cases(
    "a, b",
    {
        "no capture of a": (list, B),
        "no capture of b": (A, list),
        "one twice on a side": (lambda: [*A(), A()[0]], B),
        "one on both sides": (A, lambda: [*B(), A()[0]]),
        "the same captures on both sides": (A, A),
        "other ranks on a side": (lambda: [*A(), *A_OF_2()[:1]], B),
        "other world sizes on a side": (lambda: [*A()[:2], of_world(A()[2], "8")], B),
        "a capture without steps on a side": (lambda: [*A(), ranks_of(0.01, marked=False)], B),
        "another program on a side": (lambda: [*A(), other_program()], B),
    },
)
def test_captures_that_are_no_sample_are_refused(a: Side, b: Side) -> None:
    with pytest.raises(ArgumentError):
        compare(a(), b())


def test_programs_without_a_common_op_are_said_to_be_others() -> None:
    found = compare([other_program()], B())
    assert CautionCode.PROGRAMS_DIFFER in {caution.code for caution in found.cautions}
    assert found.gate(0.05) is GateOutcome.NOT_JUDGED


def test_world_sizes_of_the_sides_may_differ_and_this_is_said() -> None:
    found = compare([of_world(capture, "2") for capture in A()], [of_world(capture, "8") for capture in B()])
    assert CautionCode.WORLD_SIZES_DIFFER in {caution.code for caution in found.cautions}


def test_one_of_each_says_that_the_noise_between_runs_is_unknown() -> None:
    one, three = compare(A()[:1], B()[:1]), compare(A(), B())
    assert (one.is_of_captures, three.is_of_captures) == (False, True)
    assert "unknown" in verdict_line(one)
    assert "unknown" not in verdict_line(three)


# Two sets of measurements with Welch's t and degrees of freedom, computed by hand from his formula.
def test_welch_agrees_with_his_formula() -> None:
    a, b = np.array([[10.0, 12.0, 14.0]]), np.array([[20.0, 21.0, 22.0, 25.0]])
    shift, low, high, p = welch(a, b)
    # Means 12 and 22, variances 4 and 14/3: e² = 4/3 + 7/6 = 2.5, degrees (2.5)² / ((4/3)²/2 + (7/6)²/3) = 4.66.
    assert shift.tolist() == [10.0]
    # Quantiles of 98 %: 3.747 with 4 degrees, 3.365 with 5; 3.47 with 4.66.
    assert (high - shift).tolist() == pytest.approx([3.47 * 2.5**0.5], rel=5e-3)
    assert (shift - low).tolist() == pytest.approx((high - shift).tolist())
    # t = 6.325: 0.0032 with 4 degrees, 0.0015 with 5.
    assert 0.0015 < p[0] < 0.0025


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("captures", [3, 4, 8])
def test_captures_of_one_program_are_seldom_called_different(captures: int) -> None:
    rng = np.random.default_rng(captures)
    noises: dict[str, Callable[[], Any]] = {
        "normal": lambda: rng.normal(1e8, 3e6, (4_000, captures)),
        "skewed": lambda: 1e8 + rng.gamma(2, 3e6, (4_000, captures)),
        "two modes": lambda: (
            1e8 + 1e7 * rng.integers(0, 2, (4_000, captures)) + rng.normal(0, 1e5, (4_000, captures))
        ),
    }
    for name, draw in noises.items():
        *_, p = welch(draw(), draw())
        # Two modes of three captures each: all of a in one and all of b in the other in one of 32.
        assert (p <= 0.02).mean() <= (0.035 if name == "two modes" else 0.025), name


@cases(
    "spread_share, share, expected",
    {
        "quiet": (0.001, 0.05, 3),
        "half as noisy as the limit": (0.025, 0.05, 5),
        "as noisy as the limit": (0.05, 0.05, 13),
        "unknown noise": (None, 0.05, None),
        "no limit": (0.05, 0.0, None),
    },
)
def test_captures_that_are_needed(spread_share: float | None, share: float, expected: int | None) -> None:
    nothing = pl.DataFrame()
    steps = pl.DataFrame({"spread_share": [spread_share]})
    assert Comparison(steps, nothing, nothing, nothing, nothing).captures_needed(share) == expected


def test_a_comparison_of_nothing_has_empty_tables() -> None:
    empty = Comparison(pl.DataFrame(), pl.DataFrame(), pl.DataFrame(), pl.DataFrame(), pl.DataFrame())
    assert empty.captures.is_empty()
    assert empty.left_out.is_empty()
