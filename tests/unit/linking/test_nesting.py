"""Which host event lies inside which, and the times that follow from it."""

from __future__ import annotations

from typing import Any

import polars as pl

from tests.growth import growth
from tests.unit.linking.made import Host, host_timeline
from tracebraid.linking.nesting import TOLERANCE_NS, host_tree
from tracebraid.model.schema import HOST_TREE

US = 1000


def tree_of(*events: Host) -> dict[str, dict[str, Any]]:
    """Each event's row of `host_tree` by its name, with names instead of ids."""
    names = [event.name for event in events]
    rows = {names[row["event_id"]]: row for row in host_tree(host_timeline(events)).iter_rows(named=True)}
    for row in rows.values():
        for column in ("parent_event", "op_event"):
            row[column] = None if row[column] is None else names[row[column]]
    return rows


def parents(*events: Host) -> dict[str, str | None]:
    return {name: row["parent_event"] for name, row in tree_of(*events).items()}


def test_the_parent_is_the_innermost_event_around() -> None:
    found = parents(Host("a", 0, 100), Host("b", 10, 90), Host("c", 20, 30), Host("d", 92, 95))
    assert found == {"a": None, "b": "a", "c": "b", "d": "a"}


def test_depth_counts_the_events_around() -> None:
    tree = tree_of(Host("a", 0, 100), Host("b", 10, 90), Host("c", 20, 30), Host("d", 92, 95))
    assert {name: row["depth"] for name, row in tree.items()} == {"a": 0, "b": 1, "c": 2, "d": 1}


def test_the_order_in_the_file_does_not_matter_where_starts_differ() -> None:
    found = parents(Host("c", 20, 30), Host("a", 0, 100), Host("b", 10, 90))
    assert found == {"a": None, "b": "a", "c": "b"}


def test_an_event_that_starts_where_another_ends_is_its_neighbour() -> None:
    assert parents(Host("a", 0, 100), Host("b", 100, 200)) == {"a": None, "b": None}


def test_a_child_that_sticks_out_by_rounding_stays_inside() -> None:
    found = parents(Host("a", 0, 10 * US), Host("b", 5 * US, 11 * US))
    assert found["b"] == "a"


def test_a_child_that_sticks_out_is_cut_at_its_parents_end() -> None:
    tree = tree_of(Host("a", 0, 10 * US), Host("b", 5 * US, 11 * US))
    assert (tree["b"]["inclusive_ns"], tree["a"]["exclusive_ns"]) == (5 * US, 5 * US)


def test_a_grandchild_is_cut_where_its_parent_was_cut() -> None:
    tree = tree_of(Host("a", 0, 10 * US), Host("b", 5 * US, 11 * US), Host("c", 6 * US, 11 * US))
    assert (tree["c"]["parent_event"], tree["c"]["inclusive_ns"]) == ("b", 4 * US)
    assert tree["b"]["exclusive_ns"] == 1 * US


def test_an_overlap_beyond_rounding_is_no_nesting() -> None:
    found = parents(Host("a", 0, 10 * US), Host("b", 5 * US, 10 * US + TOLERANCE_NS + 1))
    assert found == {"a": None, "b": None}


def test_a_neighbour_that_overlaps_by_rounding_is_no_child() -> None:
    """Two calls back to back overlap by some ns; the second one lies outside by more than it lies inside."""
    found = parents(Host("a", 0, 10_000), Host("b", 9_995, 10_400))
    assert found == {"a": None, "b": None}


def test_what_follows_a_partial_overlap_lies_in_the_later_one() -> None:
    found = parents(Host("a", 0, 10 * US), Host("b", 5 * US, 50 * US), Host("c", 6 * US, 7 * US))
    assert found == {"a": None, "b": None, "c": "b"}


def test_overlapping_siblings_count_once_in_their_parents_exclusive_time() -> None:
    tree = tree_of(Host("p", 0, 100 * US), Host("a", 10 * US, 40 * US), Host("b", 30 * US, 60 * US))
    assert tree["p"]["exclusive_ns"] == 50 * US


def test_of_ops_that_start_together_the_first_in_the_file_is_outside() -> None:
    assert parents(Host("outer", 0, 100), Host("inner", 0, 100)) == {"outer": None, "inner": "outer"}


def test_an_op_without_length_is_a_neighbour_of_the_op_that_starts_with_it() -> None:
    """In µs traces short ops have no length: `_local_scalar_dense` before `select`, both inside `item`."""
    found = parents(Host("item", 0, 9 * US), Host("dense", 5 * US, 5 * US), Host("select", 5 * US, 7 * US))
    assert found == {"item": None, "dense": "item", "select": "item"}


def test_an_op_is_outside_of_a_runtime_call_that_starts_with_it() -> None:
    found = parents(Host("call", 0, 100, "cuda_runtime"), Host("op", 0, 100))
    assert found == {"op": None, "call": "op"}


def test_a_python_function_is_outside_of_an_op_that_starts_with_it() -> None:
    found = parents(Host("op", 0, 50), Host("f", 0, 100, "python_function"))
    assert found == {"f": None, "op": "f"}


def test_of_python_functions_that_start_together_the_longest_is_outside() -> None:
    found = parents(Host("inner", 0, 50, "python_function"), Host("outer", 0, 100, "python_function"))
    assert found == {"outer": None, "inner": "outer"}


def test_the_op_around_skips_calls_and_python_functions() -> None:
    tree = tree_of(
        Host("op", 0, 100),
        Host("call", 10, 90, "cuda_runtime"),
        Host("driver", 20, 80, "cuda_driver"),
        Host("f", 92, 98, "python_function"),
        Host("g", 93, 97, "python_function"),
    )
    assert {name: row["op_event"] for name, row in tree.items()} == {
        "op": None,
        "call": "op",
        "driver": "op",
        "f": "op",
        "g": "op",
    }


def test_an_op_inside_a_python_function_lies_in_the_op_around_that() -> None:
    tree = tree_of(Host("outer", 0, 100), Host("f", 10, 90, "python_function"), Host("inner", 20, 80))
    assert (tree["inner"]["parent_event"], tree["inner"]["op_event"]) == ("f", "outer")


def test_an_annotation_counts_as_an_op_around() -> None:
    tree = tree_of(Host("step", 0, 100, "user_annotation"), Host("call", 10, 20, "cuda_runtime"))
    assert tree["call"]["op_event"] == "step"


def test_zero_durations_inside_are_children() -> None:
    assert parents(Host("a", 0, 100), Host("z", 50, 50))["z"] == "a"


def test_a_zero_duration_at_its_parents_start_is_a_child() -> None:
    assert parents(Host("a", 0, 100), Host("z", 0, 0, "cuda_runtime"))["z"] == "a"


def test_a_zero_duration_at_an_ops_end_is_a_child() -> None:
    """In traces in µs: `aten::_local_scalar_dense` at the end of `aten::item`."""
    assert parents(Host("a", 0, 100), Host("z", 100, 100))["z"] == "a"


def test_of_two_zero_durations_at_one_moment_the_first_in_the_file_is_outside() -> None:
    assert parents(Host("y", 5, 5), Host("z", 5, 5)) == {"y": None, "z": "y"}


def test_a_zero_duration_between_two_ops_is_in_the_one_that_began_last_before_it() -> None:
    a, b, z = Host("a", 0, 100), Host("b", 100, 200), Host("z", 100, 100)
    assert parents(a, z, b)["z"] == "a"
    assert parents(a, b, z)["z"] == "b"


def test_a_zero_duration_at_its_grandparents_end_too_is_in_the_innermost() -> None:
    assert parents(Host("a", 0, 100), Host("b", 50, 100), Host("z", 100, 100))["z"] == "b"


def test_calls_without_length_are_neighbours() -> None:
    found = parents(Host("c", 5, 5, "cuda_runtime"), Host("d", 5, 5, "cuda_runtime"))
    assert found == {"c": None, "d": None}


def test_a_frame_that_ends_late_closes_no_annotation() -> None:
    late = Host("<built-in function next>", 20, 90_000, "python_function")
    tree = tree_of(
        Host("step", 0, 60_000, "user_annotation"),
        Host("graph", 10, 50_000, "user_annotation"),
        late,
        Host("launch", 30, 40, "cuda_runtime"),
        Host("op", 50, 60),
    )
    assert {tree[name]["op_event"] for name in ("launch", "op", late.name)} == {"graph"}
    assert tree["graph"]["op_event"] == "step"
    assert (tree[late.name]["parent_event"], tree[late.name]["inclusive_ns"]) == ("graph", 49_980)


def test_the_frames_that_close_an_annotation_do_not_close_what_was_open_before_it() -> None:
    tree = tree_of(
        Host("f", 0, 100_000, "python_function"),
        Host("enter", 5_000, 11_000, "python_function"),
        Host("step", 10_000, 50_000, "user_annotation"),
        Host("exit", 49_000, 60_000, "python_function"),
        Host("next", 55_000, 58_000, "user_annotation"),
    )
    assert {name: row["op_event"] for name, row in tree.items()} == {
        "f": None,
        "enter": None,
        "step": None,
        "exit": "step",
        "next": None,
    }
    assert tree["step"]["parent_event"] == "f"


def test_a_call_that_outlasts_an_op_does_not_close_it() -> None:
    tree = tree_of(
        Host("op", 0, 10_000), Host("call", 5_000, 50_000, "cuda_runtime"), Host("in", 6_000, 7_000)
    )
    assert tree["in"]["op_event"] == "op"
    assert tree["call"]["op_event"] is None


def test_a_zero_duration_has_no_time() -> None:
    tree = tree_of(Host("a", 0, 100), Host("z", 50, 50))
    assert (tree["z"]["inclusive_ns"], tree["z"]["exclusive_ns"], tree["a"]["exclusive_ns"]) == (0, 0, 100)


def test_threads_do_not_see_each_other() -> None:
    found = parents(Host("a", 0, 100, lane=0), Host("b", 10, 20, lane=1), Host("c", 30, 40, lane=0))
    assert found == {"a": None, "b": None, "c": "a"}


def test_exclusive_time_is_without_what_lies_directly_inside() -> None:
    tree = tree_of(Host("a", 0, 100), Host("b", 10, 60), Host("c", 20, 30), Host("d", 70, 80))
    exclusive = {name: row["exclusive_ns"] for name, row in tree.items()}
    assert exclusive == {"a": 40, "b": 40, "c": 10, "d": 10}


def test_an_ops_own_time_holds_its_calls_and_not_its_ops() -> None:
    tree = tree_of(
        Host("op", 0, 100), Host("call", 10, 30, "cuda_runtime"), Host("inner", 40, 60), Host("x", 45, 50)
    )
    assert (tree["op"]["exclusive_ns"], tree["op"]["op_exclusive_ns"]) == (60, 80)


def test_an_ops_own_time_is_without_ops_inside_python_functions_inside_it() -> None:
    tree = tree_of(Host("op", 0, 100), Host("f", 10, 90, "python_function"), Host("inner", 20, 60))
    assert (tree["op"]["exclusive_ns"], tree["op"]["op_exclusive_ns"]) == (20, 60)


def test_calls_and_python_functions_have_no_op_time() -> None:
    tree = tree_of(Host("f", 0, 100, "python_function"), Host("call", 10, 20, "cuda_runtime"))
    assert tree["f"]["op_exclusive_ns"] is None
    assert tree["call"]["op_exclusive_ns"] is None


def test_device_events_and_instants_have_no_place_in_the_tree() -> None:
    tree = tree_of(Host("op", 0, 100), Host("k", 10, 20, "kernel"), Host("m", 30, 30, "cpu_instant_event"))
    assert list(tree) == ["op"]


def test_no_host_events_make_an_empty_table_of_the_schema() -> None:
    tree = host_tree(host_timeline([Host("k", 10, 20, "kernel")]))
    assert tree.is_empty()
    assert dict(tree.schema) == HOST_TREE.polars_schema()


def test_the_table_has_its_declared_schema_and_one_row_per_event_in_order() -> None:
    tree = host_tree(host_timeline([Host("b", 50, 60), Host("a", 0, 100), Host("c", 0, 10, lane=3)]))
    assert dict(tree.schema) == HOST_TREE.polars_schema()
    assert tree.get_column("event_id").to_list() == [0, 1, 2]


def nested(levels: int) -> list[Host]:
    return [Host(f"op{level % 50}", level, 2 * levels - level) for level in range(levels)]


def test_a_hundred_thousand_levels_need_no_recursion() -> None:
    tree = host_tree(host_timeline(nested(100_000)))
    assert tree.get_column("depth").max() == 99_999
    assert (tree.get_column("exclusive_ns") == 2).sum() == 100_000
    parent = tree.get_column("parent_event")
    assert parent.tail(-1).equals(pl.Series("parent_event", range(99_999)))


def test_deep_nesting_takes_linear_time() -> None:
    timelines = (host_timeline(nested(levels)) for levels in (10_000, 160_000))
    assert growth(host_tree, *timelines) < 80, "16 times the events: 16 times the time, 256 if quadratic"
