"""Nesting against references that are slow and plain."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.linking.made import Host, host_timeline
from tracebraid.linking.nesting import TOLERANCE_NS, host_tree

steady = settings(deadline=None, derandomize=True)
STEP = 10 * TOLERANCE_NS
Shape = list[Any]
"""Of nested calls: the shapes inside."""

intervals = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(0, 1)).map(
        lambda draw: Host("e", draw[0] * STEP, (draw[0] + draw[1]) * STEP, lane=draw[2])
    ),
    max_size=25,
)
"""Any intervals on two threads, so far apart that rounding plays no part."""

trees: st.SearchStrategy[Shape] = st.recursive(
    st.just([]), lambda children: st.lists(children, max_size=4), max_leaves=25
)
"""The shape of nested calls: a list of the shapes inside."""


def laid_out(forest: list[Shape], gap: int, lane: int = 0) -> tuple[list[Host], list[int]]:
    """Nested intervals of that shape, with `gap` ns around and inside each, and the row of each one's parent."""
    events: list[Host] = []
    parents: list[int] = []
    now = 0

    def place(shape: Shape, parent: int) -> None:
        nonlocal now
        row = len(events)
        now += gap
        events.append(Host("e", now, now, lane=lane))
        parents.append(parent)
        now += gap
        for inner in shape:
            place(inner, row)
        now += gap
        events[row] = events[row]._replace(end=now)

    for shape in forest:
        place(shape, -1)
        now += gap
    return events, parents


def reference_parents(events: list[Host]) -> list[int]:
    """In quadratic time: the latest earlier interval around each, unless a later one ran over its end."""
    order = sorted(range(len(events)), key=lambda i: (events[i].lane, events[i].start, i))
    found = [-1] * len(events)
    for place, row in enumerate(order):
        this = events[row]
        for before in reversed(range(place)):
            outer = events[order[before]]
            touches = outer.end == this.start == this.end
            if outer.lane != this.lane or (outer.end <= this.start and not touches):
                continue
            between = [events[order[i]] for i in range(before + 1, place)]
            run_over = any(one.start < outer.end < one.end for one in between)
            left = any(one.start >= outer.end and one.end > one.start for one in between)
            if not run_over and not left and this.end <= outer.end:
                found[row] = order[before]
                break
    return found


def union_length(spans: list[tuple[int, int]]) -> int:
    length, reach = 0, None
    for start, end in sorted(spans):
        begin = start if reach is None else max(start, reach)
        length += max(0, end - begin)
        reach = end if reach is None else max(reach, end)
    return length


def tree_rows(events: list[Host]) -> list[dict[str, Any]]:
    return host_tree(host_timeline(events)).to_dicts()


@given(intervals)
@steady
def test_parents_are_those_of_the_quadratic_reference(events: list[Host]) -> None:
    found = [row["parent_event"] for row in tree_rows(events)]
    assert found == [None if parent < 0 else parent for parent in reference_parents(events)]


@given(intervals)
@steady
def test_exclusive_time_is_inclusive_time_less_the_union_of_the_children(events: list[Host]) -> None:
    rows = tree_rows(events)
    children: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row, event in zip(rows, events, strict=True):
        if row["parent_event"] is not None:
            children[row["parent_event"]].append((event.start, event.start + row["inclusive_ns"]))
    expected = [row["inclusive_ns"] - union_length(children[row["event_id"]]) for row in rows]
    assert [row["exclusive_ns"] for row in rows] == expected


@given(intervals)
@steady
def test_inclusive_time_never_exceeds_the_parents(events: list[Host]) -> None:
    rows = tree_rows(events)
    for row in rows:
        if row["parent_event"] is not None:
            assert row["inclusive_ns"] <= rows[row["parent_event"]]["inclusive_ns"]


@given(st.lists(trees, max_size=4))
@steady
def test_the_shape_of_nested_calls_comes_back(forest: list[Shape]) -> None:
    events, parents = laid_out(forest, gap=1)
    assert [row["parent_event"] for row in tree_rows(events)] == [p if p >= 0 else None for p in parents]


@given(st.lists(trees, max_size=4), st.lists(trees, max_size=4))
@steady
def test_exclusive_times_of_nested_calls_add_up_to_the_time_that_they_cover(
    forest: list[Shape], other: list[Shape]
) -> None:
    events = [event for lane, one in enumerate((forest, other)) for event in laid_out(one, 7, lane)[0]]
    rows = tree_rows(events)
    for lane in (0, 1):
        total = sum(row["exclusive_ns"] for row, e in zip(rows, events, strict=True) if e.lane == lane)
        assert total == union_length([(e.start, e.end) for e in events if e.lane == lane])


@given(st.lists(trees, max_size=4), st.integers(3000, 9000))
@steady
def test_rounding_to_whole_microseconds_changes_no_parent(forest: list[Shape], gap: int) -> None:
    exact, parents = laid_out(forest, gap)
    rounded = [
        event._replace(
            start=event.start // 1000 * 1000,
            end=event.start // 1000 * 1000 + (event.end - event.start) // 1000 * 1000,
        )
        for event in exact
    ]
    assert [row["parent_event"] for row in tree_rows(rounded)] == [p if p >= 0 else None for p in parents]


@given(st.lists(trees, max_size=4), st.data())
@steady
def test_ends_that_stick_out_by_rounding_leave_no_negative_time(
    forest: list[Shape], data: st.DataObject
) -> None:
    exact, parents = laid_out(forest, gap=4 * TOLERANCE_NS)
    moved = [
        event._replace(end=event.end + data.draw(st.integers(-TOLERANCE_NS // 2, TOLERANCE_NS // 2)))
        for event in exact
    ]
    rows = tree_rows(moved)
    assert [row["parent_event"] for row in rows] == [p if p >= 0 else None for p in parents]
    assert all(0 <= row["exclusive_ns"] <= row["inclusive_ns"] for row in rows)
    assert all(row["op_exclusive_ns"] == row["exclusive_ns"] for row in rows)


kinds = st.sampled_from(["cpu_op", "user_annotation", "cuda_runtime", "python_function"])
mixed = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 40), st.integers(0, 1), kinds).map(
        lambda draw: Host("e", draw[0] * 400, (draw[0] + draw[1]) * 400, draw[3], draw[2])
    ),
    max_size=30,
)
"""Any host events, rounding included; frames with any ends."""


@given(mixed, st.sampled_from([["python_function"], ["cuda_runtime"], ["python_function", "cuda_runtime"]]))
@steady
def test_ops_nest_as_if_there_were_no_frames_and_calls(events: list[Host], without: list[str]) -> None:
    """So do calls as if there were no frames."""
    kept = [row for row, event in enumerate(events) if event.category not in without]
    all_rows = {row["event_id"]: row for row in tree_rows(events)}
    for number, row in enumerate(tree_rows([events[row] for row in kept])):
        whole = all_rows[kept[number]]
        around = None if row["op_event"] is None else kept[row["op_event"]]
        assert whole["op_event"] == around
        assert whole["op_exclusive_ns"] == row["op_exclusive_ns"]


@given(mixed)
@steady
def test_the_op_around_is_the_first_op_among_the_parents(events: list[Host]) -> None:
    rows = {row["event_id"]: row for row in tree_rows(events)}
    is_op = {row: event.category in ("cpu_op", "user_annotation") for row, event in enumerate(events)}
    for row in rows.values():
        parent = row["parent_event"]
        assert row["depth"] == (0 if parent is None else rows[parent]["depth"] + 1)
        while parent is not None and not is_op[parent]:
            parent = rows[parent]["parent_event"]
        assert row["op_event"] == parent
        children = [other for other in rows.values() if other["parent_event"] == row["event_id"]]
        end = events[row["event_id"]].start + row["inclusive_ns"]
        spans = [(events[one["event_id"]].start, one["inclusive_ns"]) for one in children]
        covered = union_length([(start, max(start, min(start + length, end))) for start, length in spans])
        assert row["exclusive_ns"] == row["inclusive_ns"] - covered
