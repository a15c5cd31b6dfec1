"""Which ops take the most time, with which shapes."""

from __future__ import annotations

from typing import Any

from tests.builders import call, kernel, op
from tests.unit.linking.made import linked_of
from tracebraid.analysis.ops.ops import ops
from tracebraid.model.answers import OPS
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


def test_host_self_time_is_without_the_ops_inside_and_with_the_calls() -> None:
    found = by_name(nested())
    assert (found["linear"]["host_self_ns"], found["linear"]["host_total_ns"]) == (50_000, 100_000)
    assert (found["addmm"]["host_self_ns"], found["addmm"]["host_total_ns"]) == (50_000, 50_000)


def test_device_self_time_is_what_an_op_launched_itself() -> None:
    found = by_name(nested())
    assert (found["linear"]["device_self_ns"], found["linear"]["kernels"]) == (4_000, 1)
    assert (found["addmm"]["device_self_ns"], found["addmm"]["kernels"]) == (10_000, 2)


def test_device_total_time_adds_what_the_ops_inside_launched() -> None:
    found = by_name(nested())
    assert found["linear"]["device_total_ns"] == 14_000
    assert found["addmm"]["device_total_ns"] == 10_000


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


def test_device_self_times_add_up_to_the_attributed_time() -> None:
    linked = nested()
    assert ops(linked).get_column("device_self_ns").sum() == linked.coverage.gpu_time_ns[1]


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


def recursive(*names: str) -> LinkedTrace:
    """Ops of 100, 90, 80, ... us, each inside the one before it; the innermost launches 7 us, the second 5 us."""
    events = [op(name, 5 * i, 100 - 10 * i, Input_Dims=[[2]]) for i, name in enumerate(names)]
    inner = 5 * (len(names) - 1)
    launches = [call("launch", inner + 1, 2, 1), kernel("k", 200, 7, 1)]
    second = [call("launch", 6, 2, 2), kernel("l", 300, 5, 2)]
    return linked_of([*events, *launches, *(second if len(names) > 2 else [])])


def test_an_op_inside_itself_counts_once_in_totals() -> None:
    row = by_name(recursive("f", "f"))["f"]
    assert (row["host_total_ns"], row["device_total_ns"]) == (100_000, 7_000)
    assert (row["count"], row["host_self_ns"], row["device_self_ns"]) == (2, 100_000, 7_000)


def test_an_op_inside_itself_at_any_depth_counts_once_in_totals() -> None:
    found = by_name(recursive("f", "g", "f", "g"))
    assert (found["f"]["host_total_ns"], found["f"]["device_total_ns"]) == (100_000, 12_000)
    assert (found["g"]["host_total_ns"], found["g"]["device_total_ns"]) == (90_000, 12_000)
    assert found["f"]["host_self_ns"] + found["g"]["host_self_ns"] == 100_000


def test_the_same_op_of_other_shapes_inside_is_no_recursion() -> None:
    linked = linked_of([op("f", 0, 100, Input_Dims=[[2]]), op("f", 10, 50, Input_Dims=[[1]])])
    assert sorted(ops(linked).get_column("host_total_ns")) == [50_000, 100_000]


def test_the_same_op_one_after_the_other_counts_twice() -> None:
    linked = linked_of([op("g", 0, 100), op("f", 10, 20), op("f", 40, 20)])
    assert by_name(linked)["f"]["host_total_ns"] == 40_000


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
    linked = linked_of(
        [
            op("ProfilerStep#1", 0, 100, cat="user_annotation"),
            op("ProfilerStep#2", 100, 100, cat="user_annotation"),
            op("mm", 10, 5),
            op("mm", 110, 5),
            op("mm", 120, 5),
            op("mm", 500, 5),
        ]
    )
    found = ops(linked, per_step=True).filter(name="mm").select("step", "count").rows()
    assert set(found) == {(None, 1), ("ProfilerStep#1", 1), ("ProfilerStep#2", 2)}


def test_steps_come_in_the_order_of_time() -> None:
    marks = [op(f"ProfilerStep#{i}", 100 * i, 100, cat="user_annotation") for i in (8, 9, 10, 11)]
    linked = linked_of([*marks, *(op("mm", 100 * i + 5, 5) for i in (8, 9, 10, 11))])
    found = ops(linked, per_step=True).filter(name="mm").get_column("step").to_list()
    assert found == [f"ProfilerStep#{i}" for i in (8, 9, 10, 11)]


def test_rows_that_tie_in_all_figures_are_in_a_fixed_order() -> None:
    """Same input, same bytes: group_by alone gives rows in any order."""
    events = []
    for i in range(40):
        events += [op(f"x{i % 20}", 100 * i, 10, cat=("cpu_op", "user_annotation")[i // 20])]
    keys = ops(linked_of(events)).select("name", "category").rows()
    assert keys == sorted(keys)


def test_a_trace_without_ops_has_an_empty_table_of_the_schema() -> None:
    for per_step in (False, True):
        table = ops(linked_of([kernel("k", 0, 5, 1)]), per_step=per_step)
        assert table.is_empty()
        assert dict(table.schema) == OPS.polars_schema()


def test_the_table_has_its_declared_schema() -> None:
    for per_step in (False, True):
        assert dict(ops(nested(), per_step=per_step).schema) == OPS.polars_schema()
