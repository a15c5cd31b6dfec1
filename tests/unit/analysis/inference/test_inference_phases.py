"""The iterations of inference, by annotations."""

from __future__ import annotations

import pytest

from tests.planted import CALL_NS, LATENCY_NS, Scene
from tests.planted.scenes import clean
from tests.unit.analysis.inference.serving import annotated
from tests.unit.linking.made import row_of
from tracebraid.analysis.inference.inference_phases import inference_phases
from tracebraid.model.answers import INFERENCE_PHASES


def test_each_annotation_is_an_iteration_with_its_times() -> None:
    scene, planted = annotated(["step[EXTEND bs=1 toks=9]", "step[DECODE bs=1]", "step[DECODE bs=1]"])
    found = inference_phases(scene.linked())
    assert found.get_column("phase").to_list() == ["prefill", "decode", "decode"]
    times = found.select("event_id", "start_ns", "host_ns", "span_ns").rows()
    assert times == [(p.event_id, p.ts, p.dur, p.dur) for p in planted]
    assert found.get_column("interval_ns").to_list() == [planted[1].ts - planted[0].ts] * 2 + [None]
    assert found.select("kernels", "device_ns", "graph_ns").unique().rows() == [(1, 10_000, 0)]


def test_an_iteration_lasts_until_its_last_work_ends() -> None:
    scene = Scene()
    host = scene.thread()
    with host.annotation("step[DECODE bs=2]") as planted:
        work = host.launch(scene.stream(7), "k", 50_000)
    row = inference_phases(scene.linked()).row(0, named=True)
    assert (row["host_ns"], row["span_ns"]) == (CALL_NS, work.end - planted.ts)
    assert work.end - planted.ts == CALL_NS + LATENCY_NS + 50_000


def test_of_annotations_inside_each_other_the_outermost_counts() -> None:
    scene = Scene()
    host = scene.thread()
    for _ in range(2):
        with (
            host.annotation("execute_context_0(0)_generation_4(4)"),
            host.annotation("step[DECODE bs=4]", 5_000),
        ):
            pass
    found = inference_phases(scene.linked())
    assert found.get_column("evidence").to_list() == ["annotation-vllm"] * 2


def test_words_count_only_where_no_engine_wrote_anything() -> None:
    scene = Scene()
    host = scene.thread()
    with host.annotation("decode"):
        for _ in range(3):
            with host.annotation("step[DECODE bs=4]", 5_000):
                pass
    assert inference_phases(scene.linked()).get_column("evidence").to_list() == ["annotation-sglang"] * 3


def test_words_count_where_nothing_else_is_there() -> None:
    scene, _ = annotated(["prefill", "decode"])
    found = inference_phases(scene.linked())
    assert found.get_column("phase").to_list() == ["prefill", "decode"]
    assert found.get_column("tokens").to_list() == [None, None]
    assert (found.get_column("confidence") < 1).all()


def test_words_do_not_count_in_training() -> None:
    scene = clean()
    with scene.thread(start=scene.threads[0].now).annotation("decode", 10):
        pass
    assert inference_phases(scene.linked()).is_empty()


def test_work_that_another_thread_launches_meanwhile_is_not_of_the_iteration() -> None:
    scene = Scene()
    host, other = scene.thread(), scene.thread(start=1_000)
    with host.annotation("step[DECODE bs=1]", 100_000):
        pass
    other.launch(scene.stream(9), "k", 10)
    assert inference_phases(scene.linked()).get_column("kernels").to_list() == [0]


def test_the_work_of_a_graph_is_known_by_its_launch() -> None:
    scene = Scene()
    host = scene.thread()
    with host.annotation("step[DECODE bs=1]"):
        host.launch(scene.stream(7), "k", 30)
        host.replay(scene.stream(7), [("a", 10), ("b", 20)])
    row = inference_phases(scene.linked()).row(0, named=True)
    assert (row["kernels"], row["device_ns"], row["graph_ns"]) == (3, 60, 30)


def test_iterations_have_the_step_in_which_they_start() -> None:
    scene = Scene()
    host = scene.thread()
    with host.step(4), host.annotation("step[DECODE bs=1]", 10):
        pass
    with host.annotation("step[DECODE bs=1]", 10):
        pass
    assert inference_phases(scene.linked()).get_column("step").to_list() == ["ProfilerStep#4", None]


def test_two_iterations_without_length_are_both_there() -> None:
    scene, _ = annotated([])
    host = scene.thread(start=5)
    for _ in range(2):
        with host.annotation("step[DECODE bs=1]"):
            pass
        host.spend(10)
    found = inference_phases(scene.linked())
    assert found.select("host_ns", "span_ns").rows() == [(0, 0)] * 2


@pytest.mark.parametrize("scene", [Scene(), clean(), Scene(devices=[])], ids=["empty", "training", "cpu"])
def test_other_traces_have_no_iterations(scene: Scene) -> None:
    if not scene.events:
        scene.thread().run("aten::add", 5)
    found = inference_phases(scene.linked())
    assert found.is_empty()
    assert dict(found.schema) == INFERENCE_PHASES.polars_schema()


def test_counts_are_in_their_columns() -> None:
    scene, planted = annotated(["execute_context_2(100)_generation_3(3)"])
    row = row_of(inference_phases(scene.linked()), event_id=planted[0].event_id)
    counts = (
        "requests",
        "context_requests",
        "generation_requests",
        "tokens",
        "context_tokens",
        "generation_tokens",
    )
    assert tuple(row[name] for name in counts) == (5, 2, 3, 103, 100, 3)
