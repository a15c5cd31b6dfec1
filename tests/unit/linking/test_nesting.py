"""Which host event lies inside which, and the times that follow from it."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tests.builders import Json, call, kernel, op
from tests.growth import grows_less
from tests.unit.linking.made import Host, event_ids, host_timeline, linked_of
from tracebraid.linking.nesting import TOLERANCE_NS, host_tree, proven_ends
from tracebraid.model.finding import Finding
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.schema import HOST_TREE

CATEGORIES = {
    "call": "cuda_runtime",
    "driver": "cuda_driver",
    "frame": "python_function",
    "note": "user_annotation",
}


def scene(text: str) -> list[Host]:
    """Events as `name start end`, in ns, with a category or a lane behind it, one behind the other."""
    events = []
    for name, start, end, *more in (part.split() for part in text.split(", ")):
        lane = int(more.pop()) if more and more[-1].isdigit() else 0
        category = CATEGORIES[more[0]] if more else "cpu_op"
        events.append(Host(name, int(start), int(end), category, lane))
    return events


def tree_of(*events: Host) -> dict[str, dict[str, Any]]:
    """Each event's row of `host_tree` by its name, with names instead of ids."""
    names = [event.name for event in events]
    rows = {names[row["event_id"]]: row for row in host_tree(host_timeline(events)).iter_rows(named=True)}
    for row in rows.values():
        for column in ("parent_event", "op_event"):
            row[column] = None if row[column] is None else names[row[column]]
    return rows


def links(text: str) -> dict[str, str]:
    """`b<a c<b`: b lies in a, c in b."""
    return dict(pair.split("<") for pair in text.split())


@pytest.mark.parametrize(
    ("events", "inside"),
    [
        pytest.param("a 0 100, b 10 90, c 20 30, d 92 95", "b<a c<b d<a", id="the innermost event around"),
        pytest.param("c 20 30, a 0 100, b 10 90", "c<b b<a", id="whatever the order in the file"),
        pytest.param("a 0 100, b 100 200", "", id="one that starts where another ends"),
        pytest.param("a 0 10_000, b 5_000 11_000", "b<a", id="one that sticks out by rounding"),
        pytest.param(f"a 0 10_000, b 5_000 {10_001 + TOLERANCE_NS}", "", id="an overlap beyond rounding"),
        # Two calls back to back overlap by some ns; the second one lies outside by more than it lies inside.
        pytest.param("a 0 10_000, b 9_995 10_400", "", id="a neighbour that overlaps by rounding"),
        pytest.param("a 0 10_000, b 5_000 50_000, c 6_000 7_000", "c<b", id="what follows a partial overlap"),
        pytest.param("outer 0 100, inner 0 100", "inner<outer", id="ops that start together"),
        # In µs traces short ops have no length: `_local_scalar_dense` before `select`, both inside `item`.
        pytest.param(
            "item 0 9, dense 5 5, select 5 7", "dense<item select<item", id="no length, beside an op"
        ),
        pytest.param("c 0 100 call, op 0 100", "c<op", id="an op and a call that start together"),
        pytest.param("op 0 50, f 0 100 frame", "op<f", id="an op and a function that start together"),
        pytest.param(
            "inner 0 50 frame, outer 0 100 frame", "inner<outer", id="functions that start together"
        ),
        pytest.param("a 0 100, z 50 50", "z<a", id="no length, inside"),
        pytest.param("a 0 100, z 0 0 call", "z<a", id="no length, at the start"),
        # In traces in µs: `aten::_local_scalar_dense` at the end of `aten::item`.
        pytest.param("a 0 100, z 100 100", "z<a", id="no length, at the end"),
        pytest.param("y 5 5, z 5 5", "z<y", id="no length, two at one moment"),
        pytest.param(
            "a 0 100, z 100 100, b 100 200", "z<a", id="no length, between two ops, before the second"
        ),
        pytest.param(
            "a 0 100, b 100 200, z 100 100", "z<b", id="no length, between two ops, after the second"
        ),
        pytest.param("a 0 100, b 50 100, z 100 100", "b<a z<b", id="no length, at the end of two"),
        pytest.param("c 5 5 call, d 5 5 call", "", id="calls without length"),
        pytest.param("a 0 100, b 10 20 1, c 30 40", "c<a", id="threads"),
    ],
)
def test_the_event_around_each(events: str, inside: str) -> None:
    tree = tree_of(*scene(events))
    assert {name: row["parent_event"] for name, row in tree.items() if row["parent_event"]} == links(inside)


@pytest.mark.parametrize(
    ("events", "inside"),
    [
        pytest.param(
            "op 0 100, c 10 90 call, d 20 80 driver, f 92 98 frame, g 93 97 frame",
            "c<op d<op f<op g<op",
            id="calls and functions are no ops",
        ),
        pytest.param("o 0 100, f 10 90 frame, i 20 80", "f<o i<o", id="an op inside a function inside an op"),
        pytest.param("step 0 100 note, c 10 20 call", "c<step", id="annotations are ops"),
        pytest.param(
            "step 0 60_000 note, graph 10 50_000 note, next 20 90_000 frame, launch 30 40 call, op 50 60",
            "graph<step next<graph launch<graph op<graph",
            id="a frame that ends late closes no annotation",
        ),
        pytest.param(
            "f 0 100_000 frame, enter 5_000 11_000 frame, step 10_000 50_000 note, exit 49_000 60_000 frame, "
            "after 55_000 58_000 note",
            "exit<step",
            id="frames that close an annotation do not close what was open before it",
        ),
        pytest.param(
            "a 0 70_000 note, f 30_000 100_000 frame, b 70_000 170_000 note, op 80_000 90_000",
            "f<a op<b",
            id="annotations across functions",
        ),
        pytest.param(
            "op 0 10_000, c 5_000 50_000 call, i 6_000 7_000",
            "i<op",
            id="a call that outlasts an op does not close it",
        ),
    ],
)
def test_the_op_around_each(events: str, inside: str) -> None:
    tree = tree_of(*scene(events))
    assert {name: row["op_event"] for name, row in tree.items() if row["op_event"]} == links(inside)


@pytest.mark.parametrize(
    ("events", "column", "values"),
    [
        pytest.param("a 0 100, b 10 90, c 20 30, d 92 95", "depth", [0, 1, 2, 1], id="depth"),
        pytest.param(
            "a 0 10_000, b 5_000 11_000", "inclusive_ns", [10_000, 5_000], id="cut at its parent's end"
        ),
        pytest.param("a 0 10_000, b 5_000 11_000", "exclusive_ns", [5_000, 5_000], id="without what was cut"),
        pytest.param(
            "a 0 10_000, b 5_000 11_000, c 6_000 11_000",
            "inclusive_ns",
            [10_000, 5_000, 4_000],
            id="cut where its parent was cut",
        ),
        pytest.param(
            "p 0 100, a 10 40, b 30 60", "exclusive_ns", [50, 30, 30], id="overlapping siblings count once"
        ),
        pytest.param("a 0 100, z 50 50", "inclusive_ns", [100, 0], id="no length"),
        pytest.param("a 0 100, z 50 50", "exclusive_ns", [100, 0], id="no length, exclusive"),
        pytest.param(
            "a 0 100, b 10 60, c 20 30, d 70 80", "exclusive_ns", [40, 40, 10, 10], id="directly inside"
        ),
        pytest.param(
            "o 0 100, c 10 30 call, i 40 60, x 45 50", "exclusive_ns", [60, 20, 15, 5], id="with calls"
        ),
        pytest.param(
            "o 0 100, c 10 30 call, i 40 60, x 45 50",
            "op_exclusive_ns",
            [80, None, 15, 5],
            id="an op's own time holds its calls and not its ops",
        ),
        pytest.param(
            "o 0 100, f 10 90 frame, i 20 60",
            "op_exclusive_ns",
            [60, None, 40],
            id="nor ops inside functions inside it",
        ),
        pytest.param("f 0 100 frame, c 10 20 call", "op_exclusive_ns", [None, None], id="no op, no op time"),
        pytest.param(
            "step 0 60_000 note, graph 10 50_000 note, next 20 90_000 frame",
            "inclusive_ns",
            [60_000, 49_990, 89_980],
            id="no annotation cuts a frame",
        ),
        pytest.param("op 0 50, f 20 90 frame", "inclusive_ns", [50, 30], id="an op cuts a frame"),
        pytest.param(
            "f 0 100 frame, enter 5 11 frame, a 10 50 note, g 20 30 frame, exit 49 60 frame",
            "exclusive_ns",
            [100 - 6 - 38 - 11, 6, 28, 10, 11],
            id="the body of an annotation lies between what opens and what closes it",
        ),
        pytest.param(
            "f 0 100 frame, enter 5 11 frame, a 10 50 note, g 20 30 frame, exit 49 60 frame",
            "depth",
            [0, 1, 1, 2, 1],
            id="what closes an annotation is called by what the annotation is in",
        ),
        pytest.param(
            "a 0 70_000 note, f 30_000 100_000 frame, b 70_000 170_000 note, op 80_000 90_000, c 40_000 50_000 call",
            "exclusive_ns",
            [30_000, 50_000, 70_000, 10_000, 10_000],
            id="a function goes on in the next annotation",
        ),
    ],
)
def test_depths_and_times(events: str, column: str, values: list[int | None]) -> None:
    assert [row[column] for row in tree_of(*scene(events)).values()] == values


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


@pytest.mark.slow
def test_a_hundred_thousand_levels_need_no_recursion() -> None:
    tree = host_tree(host_timeline(nested(100_000)))
    assert tree.get_column("depth").max() == 99_999
    assert (tree.get_column("exclusive_ns") == 2).sum() == 100_000
    parent = tree.get_column("parent_event")
    assert parent.tail(-1).equals(pl.Series("parent_event", range(99_999)))


def test_deep_nesting_takes_linear_time() -> None:
    timelines = (host_timeline(nested(levels)) for levels in (5_000, 80_000))
    assert grows_less(80, host_tree, *timelines), "16 times the events: 16 times the time, 256 if quadratic"


# --- Python frames that Kineto ends late: what they do not change, and what is said of them ----------


NEXT = "<built-in function next>"
GRAPH = "## Call CompiledFxGraph f00d ##"
KERNELS = 20


def frame(name: str, ts: float, dur: float, number: int, caller: int | None) -> Json:
    ids = {"Python id": number, "Python parent id": caller}
    return {**op(name, ts, dur, cat="python_function"), "args": ids}


def late_findings(linked: LinkedTrace) -> list[Finding]:
    return [one for one in linked.all_findings if one.code == "frame-end-late"]


def compiled_call(next_dur: float, caller_of_next: int | None = 2) -> list[Json]:
    """A compiled region of 1 ms, in whose beginning `next` is called; then it launches kernels."""
    events = [
        op("ProfilerStep#3", 0, 2000, cat="user_annotation"),
        frame("train.py(3): train", 1, 80_000, 1, None),
        op("Torch-Compiled Region: 0/0", 5, 1500, cat="user_annotation"),
        frame("compiled.py(9): call", 10, 1200, 2, 1),
        op(GRAPH, 20, 1000, cat="user_annotation"),
        frame(NEXT, 30, next_dur, 3, caller_of_next),
    ]
    for number in range(KERNELS):
        events.append(call("cuLaunchKernel", 50 + 10 * number, 5, 100 + number))
        events.append(kernel(f"triton_{number}", 60 + 10 * number, 8, 100 + number))
    return [*events, frame("compiled.py(20): check", 300, 10, 4, 2), op("aten::mul", 400, 10)]


def test_launches_stay_in_the_annotation_around_a_frame_that_ends_late() -> None:
    linked = linked_of(compiled_call(72_000))
    graph = event_ids(linked)[GRAPH]
    assert linked.device_links.get_column("op_event").to_list() == [graph] * KERNELS
    assert linked.coverage.gpu_events.share == 1.0


def test_a_frame_that_ends_late_is_counted_and_located() -> None:
    (found,) = late_findings(linked_of(compiled_call(72_000)))
    assert found.count == 1
    assert NEXT in found.where


def test_a_frame_is_cut_where_its_caller_calls_another_function() -> None:
    linked = linked_of(compiled_call(72_000))
    start = linked.timeline.events.filter(event_id=event_ids(linked)[NEXT]).item(0, "ts_ns")
    assert proven_ends(linked.timeline).rows() == [(event_ids(linked)[NEXT], start + 270_000)]


def test_a_built_in_function_that_outlasts_annotations_by_long_is_late_without_its_caller_too() -> None:
    assert [one.count for one in late_findings(linked_of(compiled_call(72_000, None)))] == [1]


def test_frames_that_end_in_time_are_no_finding() -> None:
    assert late_findings(linked_of(compiled_call(3))) == []


def test_frames_that_close_an_annotation_are_no_finding() -> None:
    """As a profiler's own step does: it closes one step and opens the next."""
    events = [
        frame("train.py(3): train", 0, 9000, 1, None),
        frame("profiler.py(1): step", 900, 5000, 2, 1),
        op("ProfilerStep#1", 10, 990, cat="user_annotation"),
        frame("profiler.py(2): __exit__", 990, 20, 3, 2),
        frame("<built-in method exit>", 995, 10, 4, 3),
        op("ProfilerStep#2", 1100, 3000, cat="user_annotation"),
    ]
    assert late_findings(linked_of(events)) == []


def test_a_built_in_function_that_closes_an_annotation_inside_of_a_call_is_no_finding() -> None:
    """`next` on a generator that leaves a range and works on for long."""
    events = [
        op("range", 0, 100, cat="user_annotation"),
        frame(NEXT, 50, 9000, 1, None),
        frame("work.py(2): generate", 51, 8990, 2, 1),
    ]
    assert late_findings(linked_of(events)) == []


def test_a_frame_that_outlasts_an_operator_is_late() -> None:
    found = late_findings(linked_of([op("aten::mm", 0, 100), frame("f.py(1): f", 50, 90, 1, None)]))
    assert [one.count for one in found] == [1]
