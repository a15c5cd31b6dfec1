"""Stretches in which a stream waits for launches."""

from __future__ import annotations

import pytest

from tests.builders import kernel
from tests.planted import CALL_NS, LATENCY_NS, Scene, scenes
from tests.unit.linking.made import linked_of
from tracebraid.analysis.launches.launch_bound import LEAST_LAUNCHES, STALL_NS, launch_bound
from tracebraid.model.answers import LAUNCH_BOUND

OP_NS = 20_000
KERNEL_NS = 4_000
"""Much shorter than the host takes from launch to launch."""


def small_ops(scene: Scene, count: int, name: str = "aten::add", stream: int = 7) -> None:
    host = scene.threads[0] if scene.threads else scene.thread()
    for _ in range(count):
        with host.op(name, OP_NS):
            host.launch(scene.stream(stream), "elementwise", KERNEL_NS)


def test_small_ops_in_a_row_are_one_stretch() -> None:
    scene = Scene()
    host = scene.thread()
    with host.step(1), host.annotation("forward"):
        small_ops(scene, 5)
    (row,) = launch_bound(scene.linked()).to_dicts()
    work = scene.of("elementwise")
    idle = 4 * (OP_NS + CALL_NS - KERNEL_NS)
    assert (row["start_ns"], row["span_ns"]) == (work[0].ts, work[-1].end - work[0].ts)
    assert (row["launches"], row["kernels"]) == (5, 5)
    assert (row["device_ns"], row["idle_ns"], row["gain_ns"]) == (5 * KERNEL_NS, idle, idle)
    assert row["host_launch_ns"] == 5 * CALL_NS
    assert (row["step"], row["op"], row["annotation"]) == ("ProfilerStep#1", "aten::add", "forward")
    assert (row["device"], row["stream"]) == ("0", "7")


def test_a_clean_run_has_none() -> None:
    assert launch_bound(scenes.clean().linked()).is_empty()


def test_work_that_waits_in_the_queue_ends_a_stretch() -> None:
    scene = Scene()
    small_ops(scene, 4)
    host, stream = scene.threads[0], scene.stream(7)
    host.spend(OP_NS)
    host.launch(stream, "long", 500_000)
    small_ops(scene, 3, "aten::mul")
    (row,) = launch_bound(scene.linked()).to_dicts()
    assert (row["launches"], row["device_ns"]) == (5, 4 * KERNEL_NS + 500_000)


@pytest.mark.parametrize(
    ("pause", "stretches"), [(STALL_NS - OP_NS - CALL_NS - LATENCY_NS, 1), (STALL_NS, 2)]
)
def test_a_long_pause_of_the_host_is_no_launch_overhead(pause: int, stretches: int) -> None:
    scene = Scene()
    small_ops(scene, 4)
    scene.threads[0].spend(pause)
    small_ops(scene, 4)
    assert launch_bound(scene.linked()).height == stretches


def test_a_synchronisation_ends_a_stretch() -> None:
    scene = Scene()
    small_ops(scene, 4)
    scene.threads[0].synchronize(scene.stream(7))
    small_ops(scene, 3, "aten::mul")
    table = launch_bound(scene.linked())
    assert table.select("launches", "op").rows() == [(4, "aten::add"), (3, "aten::mul")]


def test_few_launches_are_no_stretch() -> None:
    scene = Scene()
    small_ops(scene, LEAST_LAUNCHES - 1)
    assert launch_bound(scene.linked()).is_empty()


def test_the_kernels_of_a_graph_stay_together() -> None:
    scene = Scene()
    small_ops(scene, 3)
    host, stream = scene.threads[0], scene.stream(7)
    host.spend(OP_NS)
    host.replay(stream, [("node", KERNEL_NS)] * 10, gap=500)
    (row,) = launch_bound(scene.linked()).to_dicts()
    assert (row["launches"], row["kernels"]) == (4, 13)
    assert row["device_ns"] + row["idle_ns"] == row["span_ns"]


def test_a_graph_alone_is_no_stretch() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    host.replay(stream, [("node", KERNEL_NS)] * 10, gap=500)
    assert launch_bound(scene.linked()).is_empty()


def test_nothing_is_gained_while_another_stream_works() -> None:
    scene = Scene()
    host = scene.thread()
    host.launch(scene.stream(20), "ncclDevKernel_AllReduce", 1_000_000)
    small_ops(scene, 5)
    (row,) = launch_bound(scene.linked()).to_dicts()
    assert (row["stream"], row["gain_ns"]) == ("7", 0)
    assert row["idle_ns"] == 4 * (OP_NS + CALL_NS - KERNEL_NS)


def test_the_stretch_with_the_most_idle_time_comes_first() -> None:
    scene = Scene()
    small_ops(scene, 3)
    scene.threads[0].spend(STALL_NS)
    small_ops(scene, 6, "aten::mul")
    assert launch_bound(scene.linked()).get_column("op").to_list() == ["aten::mul", "aten::add"]


def test_work_without_launches_makes_none() -> None:
    table = launch_bound(linked_of([kernel("k", 100 * i, 5, i + 1) for i in range(9)]))
    assert table.is_empty()
    assert dict(table.schema) == LAUNCH_BOUND.polars_schema()
