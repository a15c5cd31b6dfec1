"""Ops and Python functions: which take the most time, with which shapes, by which keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.builders import Json, call, kernel, op
from tests.cases import cases
from tests.planted import CALL_NS, Scene, device_scene, host_scene
from tests.unit.linking.made import linked_of
from tracebraid.analyses import ops, python_frames
from tracebraid.analysis.ops.ops import KEY_COLUMNS, OpKey
from tracebraid.errors import ArgumentError
from tracebraid.model.linked_trace import LinkedTrace


def nested() -> LinkedTrace:
    """linear [0, 100] > addmm [10, 60], which launches two kernels; linear launches one itself."""
    return linked_of(
        [
            op("linear", 0, 100),
            op("addmm", 10, 50),
            call("launch", 20, 5, 1),
            call("launch", 30, 5, 2),
            call("launch", 80, 5, 3),
            kernel("gemm", 200, 7, 1),
            kernel("bias", 210, 3, 2),
            kernel("own", 220, 4, 3),
        ]
    )


def by_name(linked: LinkedTrace, **options: Any) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in ops(linked, **options).to_dicts()}


def test_self_times_are_an_op_s_own_and_totals_add_what_is_inside() -> None:
    linked = nested()
    found = by_name(linked)
    columns = ("host_self_ns", "host_total_ns", "device_self_ns", "device_total_ns", "kernels")
    assert [found["linear"][column] for column in columns] == [50_000, 100_000, 4_000, 14_000, 1]
    assert [found["addmm"][column] for column in columns] == [50_000, 50_000, 10_000, 10_000, 2]
    assert ops(linked).get_column("device_self_ns").sum() == linked.coverage.gpu_time_ns[1]


def test_device_totals_go_up_through_ops_that_launch_nothing() -> None:
    linked = linked_of(
        [
            op("top", 0, 100, cat="user_annotation"),
            op("middle", 5, 90),
            op("low", 10, 50),
            call("launch", 20, 5, 1),
            kernel("k", 200, 7, 1),
        ]
    )
    found = by_name(linked)
    assert {name: row["device_total_ns"] for name, row in found.items()} == dict.fromkeys(
        ("top", "middle", "low"), 7_000
    )
    assert found["middle"]["device_self_ns"] == 0


def test_a_python_function_is_no_op_and_does_not_part_an_op_from_its_kernels() -> None:
    linked = linked_of(
        [
            op("outer", 0, 100),
            op("f", 5, 90, cat="python_function"),
            op("inner", 10, 50),
            call("launch", 20, 5, 1),
            kernel("k", 200, 7, 1),
        ]
    )
    found = by_name(linked)
    assert set(found) == {"outer", "inner"}
    assert (found["outer"]["host_self_ns"], found["outer"]["device_total_ns"]) == (50_000, 7_000)


def recursive(*names: str) -> list[Json]:
    """Ops of 100, 90, 80, ... us, each inside the one before it; the innermost launches 7 us, the second 5 us."""
    events = [op(name, 5 * i, 100 - 10 * i, Input_Dims=[[2]]) for i, name in enumerate(names)]
    inner = 5 * (len(names) - 1)
    launches = [call("launch", inner + 1, 2, 1), kernel("k", 200, 7, 1)]
    second = [call("launch", 6, 2, 2), kernel("l", 300, 5, 2)]
    return [*events, *launches, *(second if len(names) > 2 else [])]


@cases(
    "events, rows",
    {
        "inside itself": (recursive("f", "f"), [("f", 2, 100_000, 100_000, 7_000)]),
        "at any depth": (
            recursive("f", "g", "f", "g"),
            [("f", 2, 20_000, 100_000, 12_000), ("g", 2, 80_000, 90_000, 12_000)],
        ),
        "of other shapes": (
            [op("f", 0, 100, Input_Dims=[[2]]), op("f", 10, 50, Input_Dims=[[1]])],
            [("f", 1, 50_000, 100_000, 0), ("f", 1, 50_000, 50_000, 0)],
        ),
        "one after the other": (
            [op("g", 0, 100), op("f", 10, 20), op("f", 40, 20)],
            [("g", 1, 60_000, 100_000, 0), ("f", 2, 40_000, 40_000, 0)],
        ),
    },
)
def test_an_op_inside_itself_counts_once_in_totals(
    events: list[Json], rows: list[tuple[object, ...]]
) -> None:
    columns = ("name", "count", "host_self_ns", "host_total_ns", "device_total_ns")
    assert ops(linked_of(events)).select(columns).sort("host_total_ns", descending=True).rows() == rows


def test_the_most_device_time_comes_first_then_the_most_host_time() -> None:
    linked = linked_of(
        [
            op("short", 0, 10),
            op("long", 20, 90),
            op("busy", 200, 5),
            call("launch", 201, 1, 1),
            kernel("k", 300, 7, 1),
        ]
    )
    assert ops(linked).get_column("name").to_list() == ["busy", "long", "short"]


def test_an_op_with_other_shapes_is_another_row() -> None:
    linked = linked_of(
        [
            op("mm", 0, 10, Input_Dims=[[2, 3], [3, 4]]),
            op("mm", 20, 30, Input_Dims=[[2, 3], [3, 4]]),
            op("mm", 60, 5, Input_Dims=[[8, 8], [8, 8]]),
            op("mm", 70, 1),
        ]
    )
    rows = ops(linked).select("input_dims", "count", "host_self_ns").rows()
    assert [(dims and dims.replace(" ", "").replace("\n", ""), n, ns) for dims, n, ns in rows] == [
        ("[[2,3],[3,4]]", 2, 40_000),
        ("[[8,8],[8,8]]", 1, 5_000),
        (None, 1, 1_000),
    ]


def test_annotations_are_rows_with_their_category() -> None:
    linked = linked_of([op("## step ##", 0, 10, cat="user_annotation"), op("mm", 1, 2)])
    assert ops(linked).select("name", "category").rows() == [
        ("## step ##", "user_annotation"),
        ("mm", "cpu_op"),
    ]


def test_per_step_an_op_belongs_to_the_step_in_which_it_started() -> None:
    marks = [op(f"ProfilerStep#{i}", 100 * i, 100, cat="user_annotation") for i in (8, 9, 10)]
    linked = linked_of([*marks, *(op("mm", at, 5) for at in (810, 910, 920, 1010, 1500))])
    found = ops(linked, per_step=True).filter(name="mm").select("step", "count").rows()
    in_steps = [row for row in found if row[0] is not None]
    assert in_steps == [("ProfilerStep#8", 1), ("ProfilerStep#9", 2), ("ProfilerStep#10", 1)]
    assert (None, 1) in found


def test_rows_that_tie_in_all_figures_are_in_a_fixed_order() -> None:
    """Same input, same bytes: group_by alone gives rows in any order."""
    events = []
    for i in range(40):
        events += [op(f"x{i % 20}", 100 * i, 10, cat=("cpu_op", "user_annotation")[i // 20])]
    keys = ops(linked_of(events)).select("name", "category").rows()
    assert keys == sorted(keys)


def scene() -> Scene:
    """Two modules, a function and an annotation, with an op each."""
    made = Scene()
    host, stream = made.thread(), made.stream()
    with host.module("Net_0"), host.frame("net.py(3): forward"):
        with host.module("Linear_0", 1), host.op("aten::mm", 10, dims=[[2, 3], [3, 4]], concrete=["", ""]):
            host.launch(stream, "gemm", 100)
        with (
            host.annotation("norm", 1),
            host.op("aten::mm", 20, dims=[[2, 3], [3, 4]], types=["half", "half"]),
        ):
            host.launch(stream, "gemm", 50)
    return made


def test_columns_of_what_is_not_grouped_by_are_null() -> None:
    for row in ops(scene().linked(), by=["name"]).to_dicts():
        assert [row[column] for column in KEY_COLUMNS if column not in ("name", "category")] == [None] * 7
        assert row["name"] is not None


@cases(
    "by, columns, expected",
    {
        "types": (
            "types",
            "input_types device_self_ns",
            [('["float", "float"]', 100), ('["half", "half"]', 50), (None, 0)],
        ),
        "strides and concrete inputs": (
            "strides, concrete_inputs",
            "input_strides concrete_inputs count",
            [("[[3, 1], [4, 1]]", '["", ""]', 2), (None, None, 1)],
        ),
        "call site": ("call_site", "call_site device_total_ns", [("net.py(3): forward", 150)]),
        "module": ("module", "module device_self_ns", [("Net_0/Linear_0", 100), ("Net_0", 50)]),
        "annotation": (
            "annotation,name",
            "annotation name device_self_ns",
            [(None, "aten::mm", 100), ("norm", "aten::mm", 50), (None, "norm", 0)],
        ),
        "nothing": (
            [],
            "count device_self_ns device_total_ns host_total_ns",
            [(3, 150, 150, 31 + 2 * CALL_NS)],
        ),
    },
)
def test_ops_by_other_keys(by: str | list[str], columns: str, expected: list[tuple[object, ...]]) -> None:
    assert set(ops(scene().linked(), by=by).select(columns.split()).rows()) == set(expected)


@pytest.mark.parametrize("keys", [[key.value] for key in OpKey] + [[key.value for key in OpKey]])
def test_self_times_are_the_same_sum_whatever_the_keys(keys: list[str]) -> None:
    found = ops(scene().linked(), by=keys)
    assert found.get_column("device_self_ns").sum() == 150
    assert found.get_column("host_self_ns").sum() == 31 + 2 * CALL_NS
    assert found.get_column("count").sum() == 3


def test_an_unknown_key_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="shape_of_water"):
        ops(linked_of([]), by="name,shape_of_water")


def test_the_spread_of_totals_shows_an_outlier() -> None:
    durations = [10, 20, 30, 40, 1000]
    linked = linked_of([op("f", 2000 * i, dur) for i, dur in enumerate(durations)])
    row = ops(linked).row(0, named=True)
    ns = [1000 * dur for dur in durations]
    assert (row["host_mean_ns"], row["host_median_ns"]) == (np.mean(ns), 30_000)
    assert row["host_p95_ns"] == pytest.approx(np.percentile(ns, 95))
    assert (row["host_min_ns"], row["host_max_ns"]) == (10_000, 1_000_000)
    assert (row["device_mean_ns"], row["device_max_ns"]) == (0.0, 0)


def test_the_spread_is_over_the_ops_that_count_in_the_total() -> None:
    row = ops(linked_of([op("f", 0, 100), op("f", 10, 50), op("f", 200, 40)])).row(0, named=True)
    assert (row["count"], row["host_mean_ns"], row["host_min_ns"]) == (3, 70_000, 40_000)


def frames_by_name(linked: LinkedTrace, **options: Any) -> dict[str | None, dict[str, Any]]:
    return {row["name"]: row for row in python_frames(linked, **options).to_dicts()}


def test_ops_and_calls_are_time_of_the_function_around_them() -> None:
    scene, host, stream = device_scene()
    with host.frame("train.py(1): main", 100):
        with host.frame("net.py(5): forward", 10), host.op("aten::mm", 20):
            host.launch(stream, "gemm", 300)
        host.launch(stream, "add", 40)
    with host.op("alone", 7):
        host.launch(stream, "add", 1)
    found = frames_by_name(scene.linked())
    main, inner = found["train.py(1): main"], found["net.py(5): forward"]
    assert (inner["host_self_ns"], inner["device_self_ns"], inner["kernels"]) == (30 + CALL_NS, 300, 1)
    assert (main["host_self_ns"], main["host_total_ns"]) == (100 + CALL_NS, 130 + 2 * CALL_NS)
    assert (main["device_self_ns"], main["device_total_ns"], main["is_user"]) == (40, 340, True)
    rest = found[None]
    assert (rest["calls"], rest["host_self_ns"], rest["device_self_ns"]) == (0, 7 + CALL_NS, 1)
    assert rest["is_user"] is False
    assert (rest["host_total_ns"], rest["device_total_ns"]) == (7 + CALL_NS, 1)


def test_a_function_inside_itself_counts_once_in_totals() -> None:
    scene, host, stream = device_scene()
    with host.frame("a.py(1): f", 10), host.frame("a.py(9): g", 5), host.frame("a.py(1): f", 3):
        host.launch(stream, "k", 30)
    row = frames_by_name(scene.linked())["a.py(1): f"]
    assert (row["calls"], row["host_self_ns"]) == (2, 13 + CALL_NS)
    assert (row["host_total_ns"], row["device_total_ns"]) == (18 + CALL_NS, 30)


def test_built_in_methods_are_a_row_for_all_objects_of_a_type() -> None:
    scene, host = host_scene(devices=())
    for address in ("0x7f1a", "0x7f1b"):
        with host.frame(f"<built-in method to of Tensor object at {address}>", 4):
            pass
    row = frames_by_name(scene.linked())["<built-in method to of Tensor>"]
    assert (row["calls"], row["host_self_ns"], row["is_user"]) == (2, 8, False)


def test_by_step_calls_count_where_they_started() -> None:
    scene, host = host_scene(devices=())
    with host.frame("a.py(1): main", 1):
        for number in (1, 2):
            with host.step(number, 2), host.frame("a.py(9): g", 5):
                pass
    rows = python_frames(scene.linked(), per_step=True).to_dicts()
    assert [(r["step"], r["name"], r["calls"], r["host_self_ns"]) for r in rows] == [
        (None, "a.py(1): main", 1, 1),
        ("ProfilerStep#1", "a.py(9): g", 1, 5),
        ("ProfilerStep#1", "a.py(1): main", 0, 2),
        ("ProfilerStep#2", "a.py(9): g", 1, 5),
        ("ProfilerStep#2", "a.py(1): main", 0, 2),
    ]
