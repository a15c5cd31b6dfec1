"""One change of a program at a time: each is found, and called what it is."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from tests.planted import CALL_NS
from tests.planted.programs import GEMM_NS, Program
from tracebraid.analysis.compare.compare import compare
from tracebraid.analysis.compare.profiles.rank_profile import RankProfile, rank_profile
from tracebraid.model.answers import DiffChange, DiffPart, IdleCause, MatchedBy
from tracebraid.model.questions.comparison import CautionCode, Comparison

_PLAIN = Program()
_STEPS = [GEMM_NS + 100 * number for number in range(8)]


def profile(program: Program, steps: list[int] = _STEPS) -> RankProfile:
    return rank_profile(program.scene(steps).linked())


def diff(program: Program, steps: list[int] = _STEPS) -> Comparison:
    return compare([profile(_PLAIN)], [profile(program, steps)])


def ops(found: Comparison) -> dict[str, str]:
    return dict(found.changed_ops.select("name", "change").iter_rows())


def kernels(found: Comparison) -> set[tuple[str, str | None, str | None]]:
    return set(found.changed_kernels.select("change", "kernel_a", "kernel_b").iter_rows())


def difference(found: Comparison, part: DiffPart) -> int:
    rows = found.parts.filter(pl.col("part") == part.value)
    return int(rows.get_column("difference_ns").sum())


def codes(found: Comparison) -> set[CautionCode]:
    return {caution.code for caution in found.cautions}


def test_the_same_program_has_no_difference() -> None:
    found = diff(_PLAIN)
    assert found.difference_ns == 0
    assert not found.is_significant
    assert found.changed_ops.is_empty()
    assert found.changed_kernels.is_empty()
    assert found.parts.get_column("difference_ns").to_list() == [0] * found.parts.height
    assert not found.ops.get_column("significant").any()


def test_a_renamed_kernel_is_found_under_its_op() -> None:
    found = diff(replace(_PLAIN, gemm="gemm_256x128"))
    assert kernels(found) == {(DiffChange.RENAMED.value, "gemm_128x64", "gemm_256x128")}
    assert found.changed_kernels.item(0, "op") == "aten::addmm"
    assert found.changed_ops.is_empty()


def test_an_added_op_is_found_with_its_kernel_and_its_time() -> None:
    found = diff(replace(_PLAIN, added=True))
    assert ops(found) == {"aten::dropout": DiffChange.ADDED.value}
    assert kernels(found) == {(DiffChange.ADDED.value, None, "dropout_kernel")}
    assert difference(found, DiffPart.COMPUTE) == 60_000
    assert found.is_significant
    # The step is longer than 60 µs by the host's part alone where the device does not hide it.
    assert found.steps.item(0, "difference_ns") == found.parts.get_column("difference_ns").sum()


def test_a_removed_op_is_found() -> None:
    found = compare([profile(replace(_PLAIN, added=True))], [profile(_PLAIN)])
    assert ops(found) == {"aten::dropout": DiffChange.REMOVED.value}
    assert kernels(found) == {(DiffChange.REMOVED.value, "dropout_kernel", None)}


def test_an_added_kernel_of_an_op_that_both_have_is_found() -> None:
    found = diff(replace(_PLAIN, extra_kernel=True))
    assert ops(found) == {}
    assert kernels(found) == {(DiffChange.ADDED.value, None, "splitk_reduce")}
    assert found.changed_kernels.item(0, "irregular") is False


def test_a_kernel_of_some_steps_is_found_and_marked() -> None:
    found = diff(replace(_PLAIN, extra_kernel=True, every=3))
    assert kernels(found) == {(DiffChange.ADDED.value, None, "splitk_reduce")}
    assert found.changed_kernels.item(0, "irregular") is True


def test_another_shape_is_no_other_op() -> None:
    found = diff(replace(_PLAIN, batch=128))
    assert set(ops(found).values()) == {DiffChange.SHAPES.value}
    assert {"aten::linear", "aten::addmm", "aten::relu", "aten::to"} == set(ops(found))
    outermost = found.changed_ops.filter("outermost").get_column("name").to_list()
    assert "aten::linear" in outermost
    assert "aten::addmm" not in outermost


def test_another_type_is_no_other_op() -> None:
    found = diff(replace(_PLAIN, dtype="c10::BFloat16"))
    assert set(ops(found).values()) == {DiffChange.TYPES.value}


def test_an_op_under_a_new_annotation_is_moved() -> None:
    found = diff(replace(_PLAIN, wrapped=True))
    assert ops(found) == {
        "autocast": DiffChange.ADDED.value,
        "aten::linear": DiffChange.MOVED.value,
        "aten::addmm": DiffChange.MOVED.value,
    }
    matched = found.ops.filter(pl.col("name") == "aten::addmm").item(0, "matched_by")
    assert matched == MatchedBy.MODULE_AND_SHAPES.value or matched == MatchedBy.SHAPES.value
    assert found.changed_kernels.is_empty()


def test_an_op_that_is_called_more_often_is_found() -> None:
    found = diff(replace(_PLAIN, calls=3))
    assert ops(found) == {"aten::relu": DiffChange.COUNT.value}
    row = found.changed_ops.row(0, named=True)
    assert (row["count_a"], row["count_b"]) == (1.0, 3.0)


def test_a_slower_kernel_is_the_compute_of_its_op_and_nothing_else() -> None:
    found = diff(_PLAIN, [ns + 30_000 for ns in _STEPS])
    assert found.is_significant
    assert found.difference_ns == difference(found, DiffPart.COMPUTE) == 30_000
    row = found.parts.row(0, named=True)
    assert (row["op"], row["difference_ns"], row["significant"]) == ("aten::addmm", 30_000, True)
    assert found.steps.item(0, "low_ns") <= 30_000 <= found.steps.item(0, "high_ns")
    assert found.ops.filter("significant").get_column("name").to_list() == ["aten::addmm"]


def test_a_late_host_is_idle_time() -> None:
    found = diff(replace(_PLAIN, late_ns=2 * GEMM_NS))
    rows = found.parts.filter(pl.col("part") == DiffPart.IDLE.value, pl.col("difference_ns") > 0)
    assert rows.item(0, "cause") == IdleCause.HOST_LATE.value
    assert difference(found, DiffPart.COMPUTE) == 0
    assert found.difference_ns == difference(found, DiffPart.IDLE) > GEMM_NS - 3 * CALL_NS


def test_a_missing_copy_is_exposed_memory() -> None:
    found = diff(replace(_PLAIN, with_copy=False))
    assert difference(found, DiffPart.EXPOSED_MEMORY) == -20_000


def test_a_regression_needs_its_share_and_confidence() -> None:
    slower = diff(_PLAIN, [ns + 60_000 for ns in _STEPS])
    assert slower.is_slower(0.05)
    assert not slower.is_slower(0.5)
    faster = compare([profile(_PLAIN, [ns + 60_000 for ns in _STEPS])], [profile(_PLAIN)])
    assert faster.is_significant
    assert not faster.is_slower(0.05)
    few = compare([profile(_PLAIN, _STEPS[:4])], [profile(_PLAIN, [ns * 2 for ns in _STEPS[:4]])])
    assert not few.can_judge
    assert not few.is_slower(0.05)
    assert CautionCode.FEW_STEPS in codes(few)


def test_warm_up_is_left_out() -> None:
    found = diff(_PLAIN, [20 * GEMM_NS, *_STEPS])
    assert found.steps.item(0, "left_out_b") == 1
    assert found.steps.item(0, "steps_b") == len(_STEPS)
    assert found.difference_ns == 0


def test_runs_without_steps_are_compared_as_a_whole() -> None:
    found = compare(
        [rank_profile(_PLAIN.scene(_STEPS).linked(), "train")],
        [rank_profile(_PLAIN.scene(_STEPS[:4]).linked(), "train")],
        "train",
    )
    assert {CautionCode.NO_STEPS, CautionCode.FEW_STEPS} <= codes(found)
    assert found.steps.item(0, "low_ns") is None
    assert found.difference_ns == found.parts.get_column("difference_ns").sum() < 0
    assert not found.parts.get_column("significant").any()


def test_other_programs_are_said_to_be_others() -> None:
    from tests.planted import Scene

    other = Scene()
    host, stream = other.thread(), other.stream(7)
    for number in range(1, 4):
        with host.step(number), host.op("aten::conv2d", dims=[[1, 3, 8, 8]]):
            host.launch(stream, "conv", 10_000)
    found = compare([profile(_PLAIN)], [rank_profile(other.linked())])
    assert CautionCode.PROGRAMS_DIFFER in codes(found)
    assert CautionCode.PROGRAMS_DIFFER not in codes(diff(_PLAIN))


@pytest.mark.parametrize("first", [True, False])
def test_an_empty_trace_is_said_to_be_empty(first: bool) -> None:
    from tests.planted import Scene

    runs = [[rank_profile(Scene().linked())], [profile(_PLAIN)]]
    a, b = runs if first else reversed(runs)
    found = compare(a, b)
    assert CautionCode.EMPTY in codes(found)
    assert found.difference_ns == found.parts.get_column("difference_ns").sum()
    assert set(found.changed_ops.get_column("change")) == {
        (DiffChange.ADDED if first else DiffChange.REMOVED).value
    }
