"""What a scene plants is read back exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings

import tracebraid
from tests.builders import node
from tests.planted import CALL_NS, H100, LATENCY_NS, RETURN_NS, Copy, Planted, Scene, write_ranks
from tests.planted.nodes import node_id_of, nodes_of
from tests.planted.random_scenes import scenes
from tests.planted.scenes import KERNEL_NS, LAYERS, clean
from tests.unit.linking.made import et_of
from tracebraid.analysis.time.breakdown import breakdown
from tracebraid.model.linked_trace import LinkedTrace

steady = settings(deadline=None, derandomize=True, max_examples=25)


def read(linked: LinkedTrace) -> list[tuple[Any, ...]]:
    """Each event's name, category, start and duration; the device's annotations, which are not planted, left out."""
    text = [pl.col(column).cast(pl.String) for column in ("name", "category")]
    events = linked.timeline.events.select(*text, "ts_ns", "dur_ns")
    return events.filter(pl.col("category") != "gpu_user_annotation").rows()


def row(table: pl.DataFrame, planted: Planted) -> dict[str, Any]:
    return table.row(by_predicate=pl.col("event_id") == planted.event_id, named=True)


def ids(*events: Planted | None) -> tuple[int | None, ...]:
    return tuple(None if event is None else event.event_id for event in events)


@steady
@given(scenes())
def test_times_nesting_and_launches_are_read_back(scene: Scene) -> None:
    linked = scene.linked()
    assert read(linked) == [(e.name, e.category, e.ts, e.dur) for e in scene.events]
    tree = {r[0]: r[1:] for r in linked.host_tree.select("event_id", "parent_event", "op_event").rows()}
    host = [e for e in scene.events if e.pid == scene.pid and e.category != "cpu_instant_event"]
    assert tree == {e.event_id: ids(e.parent, e.op) for e in host}
    launches = linked.launches.select("event_id", "call_event", "op_event").rows()
    assert launches == [(e.event_id, *ids(e.call, e.op)) for e in scene.events if e.call is not None]


@steady
@given(scenes())
def test_streams_run_in_the_order_of_the_calls(scene: Scene) -> None:
    for stream in scene.streams:
        for before, after in zip(stream.work, stream.work[1:], strict=False):
            assert before.end <= after.ts
            assert before.call is not None
            assert after.call is not None
            assert before.call.ts <= after.call.ts
        assert all(work.call is not None and work.call.ts <= work.ts for work in stream.work)


def test_times_far_from_the_base_are_exact() -> None:
    scene = Scene(base_ns=1_780_000_000_000_000_000)
    host = scene.thread(start=8_000_000_000_001_003)
    event = host.run("aten::add", 7)
    assert row(scene.linked().timeline.events, event)["ts_ns"] == scene.base_ns + event.ts


def test_a_kernel_starts_when_it_is_ready_and_the_stream_is_free() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    first = host.launch(stream, "k", 50_000)
    second = host.launch(stream, "k", 10)
    assert (first.ts, second.ts) == (CALL_NS + LATENCY_NS, first.end)


def test_a_stream_waits_for_an_event_of_another() -> None:
    scene = Scene()
    host = scene.thread()
    before = host.launch(scene.stream(7), "k", 50_000)
    host.wait_event(scene.stream(9), host.record(scene.stream(7)))
    after = host.launch(scene.stream(9), "k", 10)
    assert after.ts == before.end
    found = scene.linked().dependencies.filter(kind="event_wait").select("before_event", "after_event").rows()
    assert found == [ids(before, after)]


@pytest.mark.parametrize("recorded", [True, False])
def test_the_host_waits_for_a_stream(recorded: bool) -> None:
    scene = Scene()
    host = scene.thread()
    work = host.launch(scene.stream(7), "k", 50_000)
    call = host.synchronize(scene.stream(7), recorded)
    assert host.now == call.end == work.end + RETURN_NS
    found = scene.linked().dependencies.filter(kind="sync").select("before_event", "after_event").rows()
    assert found == [ids(work, call)]


def test_inputs_are_those_of_the_op() -> None:
    scene = Scene()
    op = scene.thread().run("aten::mm", 5, dims=[[2, 3], [3, 4], []], concrete=["", "", "1"])
    found = row(scene.linked().timeline.host_ops, op)
    assert found["input_dims"] == "[[2, 3], [3, 4], []]"
    assert found["input_types"] == '["float", "float", "Scalar"]'
    assert found["input_strides"] == "[[3, 1], [4, 1], []]"
    assert found["concrete_inputs"] == '["", "", "1"]'


def test_backward_is_linked_to_forward() -> None:
    scene = Scene()
    host, engine = scene.thread(), scene.thread()
    with host.op("aten::mm", 10, sequence=scene.count("sequence")) as forward:
        pass
    engine.until(host.now)
    with engine.backward("MmBackward0", forward, host, 10) as backward:
        pass
    found = scene.linked().forward_backward.select("forward_event", "backward_event").rows()
    assert ids(forward, backward) in found


def test_modules_and_frames_name_their_callers() -> None:
    scene = Scene()
    host = scene.thread()
    with host.frame("train.py(3): main") as main, host.module("Linear_2", 4) as module:
        pass
    found = row(scene.linked().timeline.tables["python_functions"], module)
    assert found["python_parent_id"] == main.args["Python id"]
    assert found["python_module_id"] == 2


def test_memory_has_running_totals() -> None:
    scene = Scene()
    host = scene.thread()
    first = host.allocate(1000)
    host.allocate(24)
    host.release(first)
    again = host.allocate(1000)
    table = scene.linked().timeline.tables["memory"]
    assert table.get_column("total_allocated_bytes").to_list() == [1000, 1024, 24, 1024]
    assert table.get_column("size_bytes").to_list() == [1000, 24, -1000, 1000]
    assert again.address == first.address
    assert host.scene_allocator().peak == 1024


def test_a_graph_s_kernels_share_the_correlation_of_its_launch() -> None:
    scene = Scene()
    kernels = scene.thread().replay(scene.stream(7), [("a", 10), ("b", 20)], graph=3, gap=2)
    work = scene.linked().timeline.device_work
    assert work.get_column("correlation").n_unique() == 1
    assert work.get_column("graph_id").to_list() == [3, 3]
    assert work.get_column("graph_node_id").n_unique() == 2
    assert kernels[1].ts == kernels[0].end + 2


def test_a_copy_has_bytes_and_bandwidth() -> None:
    scene = Scene()
    copy = scene.thread().copy(scene.stream(7), Copy.PINNED_TO_DEVICE, 24_000, 1_000, blocking=True)
    found = row(scene.linked().timeline.device_work, copy)
    assert (found["size_bytes"], found["bandwidth_gb_per_s"]) == (24_000, 24.0)
    assert copy.call is not None
    assert copy.call.end == copy.end + RETURN_NS


def test_a_collective_has_its_arguments_on_the_host_and_on_the_device() -> None:
    scene = Scene(rank=1, world_size=4)
    scene.groups["7"] = [1, 3]
    kernel = scene.thread().collective(scene.stream(9), 1_000, group="7")
    table = scene.linked().timeline.collectives
    assert table.get_column("pg_ranks").to_list() == [[1, 3], [1, 3]]
    assert row(table, kernel)["pg_name"] == "7"


def test_the_header_says_what_the_device_is() -> None:
    linked = Scene(rank=2, world_size=4, devices=[H100]).linked()
    assert linked.timeline.device_names == [H100["name"]]
    assert (linked.rank, linked.timeline.world_size) == (2, 4)


def test_an_execution_trace_is_linked_by_the_ids_of_the_ops() -> None:
    scene = Scene()
    op = scene.thread().run("aten::add", 5)
    linked = scene.linked(et_of(node(5, "aten::add", 1001, rf_id=op.rf_id)))
    assert row(linked.host_links, op)["node_id"] == 5


@steady
@given(scenes())
def test_each_op_is_linked_with_its_node(scene: Scene) -> None:
    linked = scene.linked(nodes_of(scene))
    found = linked.host_links.select("event_id", "node_id").rows()
    assert found == [(op.event_id, node_id_of(op)) for op in scene.of_category("cpu_op", "user_annotation")]


def test_annotations_appear_on_the_device() -> None:
    scene = Scene(device_annotations=True)
    host = scene.thread()
    with host.step(1), host.op("aten::mm"):
        work = [host.launch(scene.stream(7), "k", 1_000) for _ in range(2)]
    found = scene.linked().timeline.events.filter(pl.col("category").cast(pl.String) == "gpu_user_annotation")
    assert found.select("ts_ns", "dur_ns").rows() == [(work[0].ts, work[1].end - work[0].ts)]


def test_in_a_clean_scene_the_device_never_waits() -> None:
    scene = clean(steps=3)
    found = breakdown(scene.linked()).filter(pl.col("step").is_null()).row(0, named=True)
    assert found["idle_ns"] == 0
    assert found["span_ns"] == 3 * (2 * LAYERS + 2) * KERNEL_NS


def test_several_ranks_are_a_job(tmp_path: Path) -> None:
    job = tracebraid.open(write_ranks(tmp_path, [clean(rank=rank, world_size=2) for rank in range(2)]))
    assert job.ranks == [0, 1]
    assert [job[rank].timeline.collectives.height for rank in job.ranks] == [6, 6]
