"""Comparing two runs: each change of a program is found and called what it is, and what else differs is noticed."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace

from tests.cases import cases
from tests.planted import A100, CALL_NS, H100, Scene
from tests.planted.programs import GEMM_NS, Program
from tracebraid.analysis.compare.compare import MatchedBy, compare, match_ops
from tracebraid.analysis.compare.profiles import RankProfile, rank_profile
from tracebraid.model.answers.job import DiffChange, DiffPart, DiffSetting, LeftOut
from tracebraid.model.answers.time import IdleCause
from tracebraid.model.questions import Caution, CautionCode, Comparison, GateOutcome, Verdict

_PLAIN = Program()
_STEPS = [GEMM_NS + 100 * number for number in range(8)]


def profile(program: Program, steps: list[int] = _STEPS) -> RankProfile:
    return rank_profile(program.scene(steps).linked())


def diff(program: Program, steps: list[int] = _STEPS) -> Comparison:
    return compare([[profile(_PLAIN)]], [[profile(program, steps)]])


def ops(found: Comparison) -> dict[str, str]:
    return dict(found.changed_ops.select("name", "change").iter_rows())


def kernels(found: Comparison) -> set[tuple[str, str | None, str | None]]:
    return set(found.changed_kernels.select("change", "kernel_a", "kernel_b").iter_rows())


def difference(found: Comparison, part: DiffPart) -> int:
    rows = found.parts.filter(pl.col("part") == part.value)
    return int(rows.get_column("difference_ns").sum())


def codes(found: Comparison) -> set[CautionCode]:
    return {caution.code for caution in found.cautions}


@pytest.mark.slow
def test_the_same_program_has_no_difference() -> None:
    found = diff(_PLAIN)
    assert found.difference_ns == 0
    assert not found.is_significant
    assert found.changed_ops.is_empty()
    assert found.changed_kernels.is_empty()
    assert found.parts.get_column("difference_ns").to_list() == [0] * found.parts.height
    assert not found.ops.get_column("significant").any()


@pytest.mark.full(keep=2)
@pytest.mark.slow
@cases(
    "change, changed_ops, changed_kernels",
    {
        "a renamed kernel": ({"gemm": "gemm_256x128"}, {}, {("renamed", "gemm_128x64", "gemm_256x128")}),
        "an added op": ({"added": True}, {"aten::dropout": "added"}, {("added", None, "dropout_kernel")}),
        "an added kernel": ({"extra_kernel": True}, {}, {("added", None, "splitk_reduce")}),
        "a kernel of some steps": (
            {"extra_kernel": True, "every": 3},
            {},
            {("added", None, "splitk_reduce")},
        ),
        "a new annotation": (
            {"wrapped": True},
            {"autocast": "added", "aten::linear": "moved", "aten::addmm": "moved"},
            set(),
        ),
        "more calls": ({"calls": 3}, {"aten::relu": "count"}, {("count", "relu_kernel", "relu_kernel")}),
        "another type": (
            {"dtype": "c10::BFloat16"},
            dict.fromkeys(("aten::linear", "aten::addmm", "aten::relu"), "types"),
            set(),
        ),
        "another shape": (
            {"batch": 128},
            dict.fromkeys(("aten::linear", "aten::addmm", "aten::relu", "aten::to"), "shapes"),
            set(),
        ),
    },
)
def test_a_change_is_found_and_called_what_it_is(
    change: dict[str, Any], changed_ops: dict[str, str], changed_kernels: set[tuple[str | None, ...]]
) -> None:
    found = diff(dataclasses.replace(_PLAIN, **change))
    assert (ops(found), kernels(found)) == (changed_ops, changed_kernels)
    if changed_kernels and "calls" not in change:
        assert found.changed_kernels.get_column("irregular").to_list() == ["every" in change]
        assert found.changed_kernels.item(0, "op") == (
            "aten::dropout" if "added" in change else "aten::addmm"
        )


@pytest.mark.slow
def test_an_added_op_takes_its_time_and_is_removed_the_other_way_round() -> None:
    found = diff(dataclasses.replace(_PLAIN, added=True))
    assert difference(found, DiffPart.COMPUTE) == 60_000
    assert found.is_significant
    # The step is longer than 60 µs by the host's part alone where the device does not hide it.
    assert found.steps.item(0, "difference_ns") == found.parts.get_column("difference_ns").sum()
    back = compare([[profile(dataclasses.replace(_PLAIN, added=True))]], [[profile(_PLAIN)]])
    assert ops(back) == {"aten::dropout": DiffChange.REMOVED.value}
    assert kernels(back) == {(DiffChange.REMOVED.value, "dropout_kernel", None)}


@pytest.mark.slow
def test_changed_ops_have_their_counts_and_how_they_were_matched() -> None:
    shapes = diff(dataclasses.replace(_PLAIN, batch=128)).changed_ops
    outermost = shapes.filter("outermost").get_column("name").to_list()
    assert ("aten::linear" in outermost, "aten::addmm" in outermost) == (True, False)
    assert diff(dataclasses.replace(_PLAIN, calls=3)).changed_ops.select("count_a", "count_b").rows() == [
        (1.0, 3.0)
    ]
    moved = diff(dataclasses.replace(_PLAIN, wrapped=True)).ops.filter(pl.col("name") == "aten::addmm")
    assert moved.item(0, "matched_by") in (MatchedBy.MODULE_AND_SHAPES.value, MatchedBy.SHAPES.value)


def test_a_slower_kernel_is_the_compute_of_its_op_and_nothing_else() -> None:
    found = diff(_PLAIN, [ns + 30_000 for ns in _STEPS])
    assert found.is_significant
    assert found.difference_ns == difference(found, DiffPart.COMPUTE) == 30_000
    row = found.parts.row(0, named=True)
    assert (row["op"], row["difference_ns"], row["significant"]) == ("aten::addmm", 30_000, True)
    assert found.steps.item(0, "low_ns") <= 30_000 <= found.steps.item(0, "high_ns")
    assert found.ops.filter("significant").get_column("name").to_list() == ["aten::addmm"]


def test_a_late_host_is_idle_time() -> None:
    found = diff(dataclasses.replace(_PLAIN, late_ns=2 * GEMM_NS))
    rows = found.parts.filter(pl.col("part") == DiffPart.IDLE.value, pl.col("difference_ns") > 0)
    assert rows.item(0, "cause") == IdleCause.HOST_LATE.value
    assert difference(found, DiffPart.COMPUTE) == 0
    assert found.difference_ns == difference(found, DiffPart.IDLE) > GEMM_NS - 3 * CALL_NS


def test_a_missing_copy_is_exposed_memory() -> None:
    found = diff(dataclasses.replace(_PLAIN, with_copy=False))
    assert difference(found, DiffPart.EXPOSED_MEMORY) == -20_000


@pytest.mark.slow
def test_a_capture_of_each_shows_a_difference_and_no_gate_judges_it() -> None:
    slower = diff(_PLAIN, [ns + 60_000 for ns in _STEPS])
    assert (slower.verdict, slower.gate(0.05)) == (Verdict.SLOWER, GateOutcome.NOT_JUDGED)
    assert not slower.is_slower(0.05)
    few = compare([[profile(_PLAIN, _STEPS[:4])]], [[profile(_PLAIN, [ns * 2 for ns in _STEPS[:4]])]])
    assert not few.can_judge
    assert CautionCode.FEW_STEPS in codes(few)


def test_warm_up_is_left_out() -> None:
    found = diff(_PLAIN, [20 * GEMM_NS, *_STEPS])
    assert found.steps.item(0, "left_out_b") == 1
    assert found.left_out.rows() == [("b", 1, "ProfilerStep#1", LeftOut.WARM_UP.value, None)]
    assert codes(found) == {CautionCode.STEPS_LEFT_OUT}
    assert found.steps.item(0, "steps_b") == len(_STEPS)
    assert found.difference_ns == 0


def test_runs_without_steps_are_compared_as_a_whole() -> None:
    found = compare(
        [[rank_profile(_PLAIN.scene(_STEPS).linked().with_annotation("train"))]],
        [[rank_profile(_PLAIN.scene(_STEPS[:4]).linked().with_annotation("train"))]],
    )
    assert CautionCode.NO_STEPS in codes(found)
    assert not found.can_judge
    assert found.steps.item(0, "low_ns") is None
    assert found.difference_ns == found.parts.get_column("difference_ns").sum() < 0
    assert not found.parts.get_column("significant").any()


@pytest.mark.slow
def test_other_programs_are_reported_as_others() -> None:
    other = Scene()
    host, stream = other.thread(), other.stream(7)
    for number in range(1, 4):
        with host.step(number), host.op("aten::conv2d", dims=[[1, 3, 8, 8]]):
            host.launch(stream, "conv", 10_000)
    found = compare([[profile(_PLAIN)]], [[rank_profile(other.linked())]])
    assert CautionCode.PROGRAMS_DIFFER in codes(found)
    assert CautionCode.PROGRAMS_DIFFER not in codes(diff(_PLAIN))


@pytest.mark.parametrize("first", [True, False])
def test_an_empty_trace_is_reported_as_empty(first: bool) -> None:
    runs = [[[rank_profile(Scene().linked())]], [[profile(_PLAIN)]]]
    found = compare(*(runs if first else reversed(runs)))
    assert CautionCode.EMPTY in codes(found)
    assert found.difference_ns == found.parts.get_column("difference_ns").sum()
    change = DiffChange.ADDED if first else DiffChange.REMOVED
    assert set(found.changed_ops.get_column("change")) == {change.value}


STEPS = [GEMM_NS + 97 * (number * 7 % 20) for number in range(20)]
PLAIN = Program()


def cautions(a: RankProfile, b: RankProfile) -> list[CautionCode]:
    found = compare([[a]], [[b]]).cautions
    assert all(caution.sentence for caution in found)
    return [caution.code for caution in found]


def profile_of(scene: Scene | None = None) -> RankProfile:
    return rank_profile((scene or PLAIN.scene(STEPS)).linked())


def with_setting(setting: DiffSetting, value: str) -> RankProfile:
    found = profile_of()
    return replace(found, settings={**found.settings, setting: value})


def many_events(scene: Scene) -> Scene:
    """The host is late, and 100 ops for each step make it so, as far as the profiler is concerned."""
    host = scene.thread("other")
    for number in range(2000):
        host.run(f"aten::view{number % 3}", 10)
    return scene


def on_h100(scene: Scene) -> Scene:
    assert scene.devices == [A100]
    scene.devices = [H100]
    return scene


@pytest.mark.full(keep=2)
@pytest.mark.slow
@cases(
    "scene, expected",
    {
        "two plain runs": (PLAIN.scene(STEPS), []),
        "devices of the header": (on_h100(PLAIN.scene(STEPS)), [CautionCode.DEVICES_DIFFER]),
        "a single slow step": (
            PLAIN.scene([ns * 50 if n == 12 else ns for n, ns in enumerate(STEPS)]),
            [CautionCode.SINGLE_STEPS],
        ),
        "equal steps": (PLAIN.scene([GEMM_NS] * 20), []),
    },
)
def test_what_differs_beside_the_program_is_noticed(scene: Scene, expected: list[CautionCode]) -> None:
    assert cautions(profile_of(), profile_of(scene)) == expected


@pytest.mark.full(keep=1)
@pytest.mark.slow
@cases(
    "steps, drifts",
    {
        "growing": ([GEMM_NS + 50 * number for number in range(20)], True),
        "alternating": ([GEMM_NS + 500 * (number % 2) for number in range(20)], False),
        "in any order": (np.random.default_rng(2).permutation(STEPS).tolist(), False),
    },
)
def test_only_steps_that_grow_drift(steps: list[int], drifts: bool) -> None:
    assert (CautionCode.DRIFT in cautions(profile_of(), profile_of(PLAIN.scene(steps)))) == drifts


def test_the_same_file_twice_is_noticed() -> None:
    same = profile_of()
    assert cautions(same, same) == [CautionCode.SAME_FILES]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        (DiffSetting.DEVICES, "another", [CautionCode.DEVICES_DIFFER]),
        (DiffSetting.TORCH, "another", [CautionCode.VERSIONS_DIFFER]),
        (DiffSetting.WORLD_SIZE, "8", [CautionCode.WORLD_SIZES_DIFFER]),
        (DiffSetting.PROFILE_MEMORY, "yes", [CautionCode.PROFILER_DIFFERS]),
        (DiffSetting.WITH_STACK, "yes", [CautionCode.MODULES_UNKNOWN, CautionCode.PROFILER_DIFFERS]),
        (DiffSetting.RECORD_SHAPES, "no", [CautionCode.SHAPES_UNKNOWN, CautionCode.PROFILER_DIFFERS]),
        (DiffSetting.OVERHEAD, "100000", [CautionCode.PROFILER_OVERHEAD]),
    ],
)
def test_a_setting_that_differs_is_said(
    setting: DiffSetting, value: str, expected: list[CautionCode]
) -> None:
    assert cautions(profile_of(), with_setting(setting, value)) == expected


@pytest.mark.slow
def test_the_profiler_s_cost_is_said_where_the_host_holds_up_the_device() -> None:
    late = dataclasses.replace(PLAIN, late_ns=2 * GEMM_NS)
    scene, busy = late.scene(STEPS), many_events(late.scene(STEPS))
    assert CautionCode.PROFILER_COST not in cautions(profile_of(scene), profile_of(scene))
    assert CautionCode.PROFILER_COST in cautions(profile_of(scene), profile_of(busy))


@pytest.mark.slow
def test_a_gate_cannot_judge_steps_that_drift_too_much() -> None:
    drifting = profile_of(PLAIN.scene([GEMM_NS + 5_000 * number for number in range(20)]))
    found = compare([[profile_of()]], [[drifting]])
    assert found.gate(0.01) is GateOutcome.NOT_JUDGED
    assert found.verdict is Verdict.NOT_JUDGED
    assert not found.is_significant
    assert CautionCode.FEW_STEPS not in cautions(profile_of(), drifting)


def test_each_code_has_a_sentence() -> None:
    assert Caution(CautionCode.SAME_FILES).sentence


_SCHEMA = {
    "position": pl.Int64,
    "path_id": pl.Int64,
    "module": pl.String,
    "name": pl.String,
    "category": pl.String,
    "input_dims": pl.String,
    "input_types": pl.String,
}


def positions(*rows: tuple[int, str | None, str, str | None]) -> pl.DataFrame:
    """Of each op the path's id, the module, the name and the shapes."""
    found = [
        (number, path, module, name, "cpu_op", dims, None if dims is None else '["float"]')
        for number, (path, module, name, dims) in enumerate(rows)
    ]
    return pl.DataFrame(found, schema=_SCHEMA, orient="row")


def matched(a: pl.DataFrame, b: pl.DataFrame) -> list[tuple[int | None, int | None, str | None]]:
    return match_ops(a, b).rows()


OP = (1, "Linear_0", "aten::mm", "[[2,3]]")


@pytest.mark.parametrize(
    ("other", "level"),
    [
        (OP, MatchedBy.PATH_AND_SHAPES),
        ((1, "Linear_0", "aten::mm", "[[4,3]]"), MatchedBy.PATH),
        ((1, "Projection_0", "aten::mm", "[[2,3]]"), MatchedBy.PATH_OUTSIDE_OF_MODULES),
        ((2, "Linear_0", "aten::mm", "[[2,3]]"), MatchedBy.MODULE_AND_SHAPES),
        ((2, "Projection_0", "aten::mm", "[[2,3]]"), MatchedBy.SHAPES),
    ],
)
def test_an_op_is_matched_at_the_first_level_that_fits(
    other: tuple[int, str, str, str], level: MatchedBy
) -> None:
    assert matched(positions(OP), positions(other)) == [(0, 0, level.value)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (OP, (2, "Projection_0", "aten::mm", "[[4,3]]")),
        (OP, (2, None, "aten::mm", None)),
        (OP, (2, "Projection_0", "aten::bmm", "[[2,3]]")),
        ((1, None, "aten::mm", None), (2, None, "aten::mm", None)),
    ],
)
def test_a_name_alone_or_shapes_alone_match_nothing(
    one: tuple[int, str | None, str, str | None], other: tuple[int, str | None, str, str | None]
) -> None:
    assert matched(positions(one), positions(other)) == [(None, 0, None), (0, None, None)]


def test_what_fits_better_is_matched_first_and_each_once() -> None:
    a = positions(OP, (1, "Linear_0", "aten::mm", "[[8,8]]"))
    b = positions((1, "Linear_0", "aten::mm", "[[9,9]]"), OP, OP)
    assert matched(a, b) == [
        (1, 0, MatchedBy.PATH.value),
        (0, 1, MatchedBy.PATH_AND_SHAPES.value),
        (None, 2, None),
    ]
