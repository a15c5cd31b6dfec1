"""The step without recording: planted costs are taken out to the nanosecond, and judged by unrecorded steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracebraid
from tests.builders import Json
from tests.planted import Scene
from tracebraid import dependency_graph
from tracebraid.model.capture_facts import COSTS, CaptureFacts, RecordingCosts, recording_costs
from tracebraid.model.graph import DependencyGraph, EdgeKind, WhatIfNote
from tracebraid.reports.what_if import what_if_parts
from tracebraid.simulation.unrecorded import costs_of, recorded_work, step_ns

STEPS, OPS = 4, 10
OP_NS, REST_NS, GAP_NS = 20_000, 30_000, 5_000
KERNEL_NS = 15_000
STEP_NS = OPS * (OP_NS + REST_NS)


def cost(median_ns: float, inside: float = 0.5, spread: float = 0.0) -> Json:
    return {
        "low_ns": median_ns * (1 - spread),
        "median_ns": median_ns,
        "high_ns": median_ns * (1 + spread),
        "inside": inside,
    }


def scene_of(costs: object = None, dims: list[Any] | None = None, **facts: Any) -> Scene:
    """Steps of ops, one after the other, with work of the thread around each, and time of the capture between steps."""
    scene = Scene(devices=[])
    host = scene.thread()
    for number in range(STEPS):
        with host.step(number):
            for _ in range(OPS):
                host.spend(REST_NS // 2)
                host.run("aten::mm", OP_NS, dims=dims)
                host.spend(REST_NS // 2)
        host.spend(GAP_NS)
    scene.facts = {COSTS: costs, **facts}
    return scene


def graph_with(costs: object = None, **options: Any) -> DependencyGraph:
    return dependency_graph(scene_of(costs, **options).linked())


def bare_ns(graph: DependencyGraph, level: Any = "median_ns") -> float:
    return step_ns(recorded_work(graph, costs_of(graph)).removed(level))


# The first step is its own span; the others, and so the median one, begin at the end of the one before.
RECORDED_NS = STEP_NS + GAP_NS


@pytest.mark.parametrize(
    ("costs", "saved_ns"),
    [
        pytest.param({"op": cost(4_000)}, OPS * 4_000, id="ops, half inside"),
        pytest.param({"op": cost(4_000, inside=1.0)}, OPS * 4_000, id="ops, all inside"),
        pytest.param({"op": cost(4_000, inside=0.0)}, OPS * 4_000, id="ops, all outside"),
        pytest.param({"op": cost(2_000), "python": cost(900)}, OPS * 2_000, id="no Python function is there"),
        pytest.param({"annotation": cost(6_000, inside=1.0)}, 6_000, id="inside the step's mark"),
        pytest.param({"annotation": cost(6_000, inside=0.0)}, 0, id="outside it, where the capture works"),
        pytest.param({"op": cost(500_000, inside=1.0)}, OPS * OP_NS, id="no more than an op takes"),
        pytest.param({"op": cost(500_000)}, STEP_NS, id="no more than there is"),
    ],
)
def test_planted_costs_are_taken_out_exactly(costs: Json, saved_ns: int) -> None:
    graph = graph_with(costs)
    assert step_ns(graph) == RECORDED_NS
    assert bare_ns(graph) == STEP_NS - saved_ns


@pytest.mark.parametrize(
    ("dims", "further"),
    [
        pytest.param([[4], [4], [], [4]], 0, id="as many as are covered"),
        pytest.param([[4]], 0, id="fewer"),
        pytest.param([[[4], [4], [4], [4], [4], [4]], []], 3, id="a list"),
    ],
)
def test_each_further_input_costs(dims: list[Any], further: int) -> None:
    graph = graph_with({"op": cost(1_000), "tensor": cost(100, inside=1.0)}, dims=dims)
    assert bare_ns(graph) == STEP_NS - OPS * (1_000 + 100 * further)


def test_the_ends_of_the_costs_are_those_of_the_step() -> None:
    graph = graph_with({"op": cost(4_000, spread=0.25)})
    assert (bare_ns(graph, "high_ns"), bare_ns(graph, "low_ns")) == (STEP_NS - 50_000, STEP_NS - 30_000)


def test_functions_of_python_and_built_in_ones_cost_each_their_own() -> None:
    scene = Scene(devices=[])
    host = scene.thread()
    for number in range(2):
        with host.step(number, 5_000):
            with host.frame("train.py(1): step", 100_000):
                with host.frame("<built-in method append of list object at 0x7f>", 50_000):
                    host.spend(1_000)
                host.spend(1_000)
            host.spend(5_000)
    scene.facts = {COSTS: {"python": cost(3_000), "builtin": cost(700)}}
    graph = dependency_graph(scene.linked())
    assert step_ns(graph) - bare_ns(graph) == 3_700


def test_device_work_and_latencies_stay() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream()
    for number in range(2):
        with host.step(number):
            for _ in range(3):
                with host.op("aten::mm", 10_000):
                    host.launch(stream, "sgemm", KERNEL_NS)
            host.synchronize()
    scene.facts = {COSTS: {"op": cost(2_000), "annotation": cost(1_000)}}
    graph = dependency_graph(scene.linked())
    bare = recorded_work(graph, costs_of(graph)).removed()
    others = graph.edges.kind != EdgeKind.HOST
    assert others.any()
    assert np.array_equal(bare.edges.work_ns[others], graph.edges.work_ns[others])
    assert (bare.edges.work_ns <= graph.edges.work_ns).all()
    assert step_ns(bare) < step_ns(graph)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(None, id="none"),
        pytest.param([], id="a list"),
        pytest.param("cheap", id="text"),
        pytest.param({}, id="empty"),
        pytest.param({"op": 4}, id="a number"),
        pytest.param({"op": cost(-4_000)}, id="negative"),
        pytest.param({"op": cost(float("nan"))}, id="not a number"),
        pytest.param({"op": cost(float("inf"))}, id="infinite"),
        pytest.param({"op": cost(10**12)}, id="minutes"),
        pytest.param({"op": {**cost(100), "median_ns": 10**400}}, id="no float can be that"),
        pytest.param({"op": {**cost(100), "median_ns": "100"}}, id="text for a number"),
        pytest.param({"op": {**cost(100), "median_ns": True}}, id="truth for a number"),
        pytest.param({"op": {**cost(100), "low_ns": 200}}, id="the low end above the middle"),
        pytest.param({"op": {**cost(100), "inside": 1.5}}, id="more inside than there is"),
        pytest.param({"op": {"median_ns": 100}}, id="without an interval"),
        pytest.param({"kernel": cost(100)}, id="a kind that there is not"),
    ],
)
def test_costs_that_cannot_be_are_none(values: object) -> None:
    assert recording_costs(values) is None
    scene = scene_of()
    scene.facts = {"cores": 2}
    linked = scene.linked()
    linked.timeline.header["tracebraid"] = {"cores": 2, COSTS: values}
    assert linked.capture_facts == CaptureFacts(cores=2)
    found = tracebraid.what_if(linked, "scale 0.5 kind=op")
    assert found.unrecorded is None
    assert {WhatIfNote.RECORDING_SCALED, WhatIfNote.RECORDING_DISAGREES}.isdisjoint(found.notes)


def test_a_kind_that_cannot_be_leaves_the_others() -> None:
    found = recording_costs({"op": cost(4_000), "python": cost(-1)})
    assert found == RecordingCosts(op=recording_costs({"op": cost(4_000)}).op)  # type: ignore[union-attr]


@pytest.mark.parametrize("value", [-1, 1.5, "3", None, True, 10**30, [3]])
def test_facts_that_cannot_be_are_not_known(value: object) -> None:
    scene = scene_of()
    linked = scene.linked()
    names = ("cores", "involuntary_switches", "run_queue_wait_ns", "untraced_step_median_ns")
    thread = {"tid": 1, "name": "a", "cpu_ns": 1, "run_queue_wait_ns": value}
    facts = {**dict.fromkeys(names, value), "of_threads": [thread, value], "cpu_quota_cores": "x"}
    linked.timeline.header["tracebraid"] = facts
    assert linked.capture_facts == CaptureFacts()


def test_facts_of_a_process_reach_the_graph() -> None:
    thread = {
        "tid": 7,
        "name": "python",
        "cpu_ns": 9,
        "run_queue_wait_ns": 8,
        "voluntary_switches": 2,
        "involuntary_switches": 1,
    }
    facts = {"cores": 2, "involuntary_switches": 3, "run_queue_wait_ns": 8, "cpu_quota_cores": 1.5}
    graph = graph_with(**facts, of_threads=[thread])
    found = graph.captures[0]
    assert (found.cores, found.involuntary_switches, found.run_queue_wait_ns) == (2, 3, 8)
    assert (found.cpu_quota_cores, found.of_threads[0].run_queue_wait_ns) == (1.5, 8)


def what_if_with(measured_ns: int, steps: int = 5, spread_ns: int = 1_000, median_ns: float = 4_000) -> Any:
    graph = graph_with(
        {"op": cost(median_ns, spread=0.1)},
        untraced_steps=steps,
        untraced_step_median_ns=measured_ns,
        untraced_step_q1_ns=measured_ns - spread_ns,
        untraced_step_q3_ns=measured_ns + spread_ns,
    )
    return tracebraid.what_if(graph, "scale 0.5 kind=op name=aten::mm")


def test_the_gain_is_that_of_the_step_without_recording() -> None:
    found = what_if_with(measured_ns=STEP_NS - OPS * 4_000)
    bare = found.unrecorded
    own_ns = OPS * (OP_NS - 2_000)
    assert (bare.before_ns, bare.after_ns) == (STEP_NS - OPS * 4_000, STEP_NS - OPS * 4_000 - own_ns / 2)
    assert (bare.measured_ns, bare.factor) == (STEP_NS - OPS * 4_000, 1.0)
    # A tenth of what lies inside an op makes its own time, of which half is gained, shorter or longer.
    assert bare.low_ns < own_ns / 2 - OPS * 100
    assert bare.high_ns > own_ns / 2 + OPS * 100
    assert found.before_ns == STEP_NS + GAP_NS * (STEPS - 1) / STEPS


def test_costs_are_scaled_where_the_unrecorded_steps_say_so() -> None:
    found = what_if_with(measured_ns=STEP_NS - OPS * 6_000)
    assert found.unrecorded.factor == pytest.approx(1.5, rel=0.02)
    assert found.unrecorded.before_ns == pytest.approx(STEP_NS - OPS * 6_000, rel=0.002)
    assert WhatIfNote.RECORDING_SCALED in found.notes


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"measured_ns": 2 * STEP_NS}, id="longer than recorded"),
        pytest.param({"measured_ns": STEP_NS // 20}, id="beyond any factor"),
        pytest.param({"measured_ns": STEP_NS - OPS * 6_000, "steps": 2}, id="of two steps"),
        pytest.param({"measured_ns": STEP_NS - 10, "median_ns": 9_000}, id="nearly no cost shows"),
    ],
)
def test_where_no_factor_is_sound_the_answer_says_that_they_disagree(options: Any) -> None:
    found = what_if_with(**options)
    assert found.unrecorded.factor == 1.0
    assert WhatIfNote.RECORDING_DISAGREES in found.notes


@pytest.mark.parametrize(("steps", "scale"), [(3, 0.5), (2, 1.0)])
def test_what_the_costs_do_not_explain_is_a_share_of_all_times(steps: int, scale: float) -> None:
    """Steps that are measured beside the recording are half as long as those without its costs, which fit no factor."""
    less_ns, own_ns = STEP_NS - OPS * 500, OPS * (OP_NS - 250)
    found = what_if_with(measured_ns=less_ns // 2, steps=steps, median_ns=500)
    bare = found.unrecorded
    assert bare.factor == 1.0
    assert bare.before_ns == pytest.approx(scale * less_ns, abs=1)
    assert bare.before_ns - bare.after_ns == pytest.approx(scale * own_ns / 2, abs=2)
    assert bare.low_ns < bare.before_ns - bare.after_ns < bare.high_ns
    said = "\n".join(str(part) for part in what_if_parts(found, 3))
    assert ("(measured)" in said, "in too few steps" in said) == (scale < 1, scale == 1)


@pytest.mark.parametrize(
    ("options", "factor"),
    [
        pytest.param({"measured_ns": STEP_NS - OPS * 4_300}, 1.075, id="within the costs' interval"),
        pytest.param({"measured_ns": STEP_NS - OPS * 5_000, "spread_ns": 9_000}, 1.25, id="steps that vary"),
        pytest.param(
            {"measured_ns": STEP_NS - OPS * 5_000, "spread_ns": 60_000},
            1.0,
            id="that vary more than recording costs",
        ),
        pytest.param({"measured_ns": STEP_NS - OPS * 4_300, "steps": 2}, 1.0, id="of two steps"),
    ],
)
def test_what_lies_within_the_interval_is_no_disagreement(options: Any, factor: float) -> None:
    found = what_if_with(**options)
    assert found.unrecorded.factor == pytest.approx(factor, rel=0.02)
    assert {WhatIfNote.RECORDING_SCALED, WhatIfNote.RECORDING_DISAGREES}.isdisjoint(found.notes)


def test_where_some_ranks_have_no_costs_nothing_is_said() -> None:
    graph = graph_with({"op": cost(4_000)})
    graph.captures[1] = CaptureFacts()  # type: ignore[index]
    assert tracebraid.what_if(graph, "scale 0.5 kind=op").unrecorded is None
