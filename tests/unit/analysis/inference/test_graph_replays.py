"""Replays of graphs."""

from __future__ import annotations

import pytest

from tests.planted import CALL_NS, Scene
from tests.planted.scenes import clean
from tracebraid.analysis.inference.graph_replays import graph_replays
from tracebraid.model.answers import GRAPH_REPLAYS


def test_graphs_with_their_replays_and_share() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    host.launch(stream, "k", 100)
    for _ in range(2):
        host.replay(stream, [("a", 100), ("b", 200)], graph=1)
    host.replay(stream, [("a", 300)], graph=2)
    found = graph_replays(scene.linked())
    columns = ("api", "graph_id", "kernels_per_replay", "replays", "kernels", "host_ns", "device_ns", "share")
    assert found.select(columns).rows() == [
        ("cudaGraphLaunch", 1, 2, 2, 4, 2 * CALL_NS, 600, 0.6),
        ("cudaGraphLaunch", 2, 1, 1, 1, CALL_NS, 300, 0.3),
    ]
    assert found.get_column("mean_device_ns").to_list() == [300.0, 300.0]


def test_graphs_without_id_are_told_by_their_number_of_events() -> None:
    scene = Scene()
    host = scene.thread()
    for count in (3, 2, 3):
        for event in host.replay(scene.stream(7), [("a", 10)] * count, api="hipGraphLaunch"):
            del event.args["graph id"], event.args["graph node id"]
    found = graph_replays(scene.linked())
    assert found.select("api", "graph_id", "kernels_per_replay", "replays").rows() == [
        ("hipGraphLaunch", None, 3, 2),
        ("hipGraphLaunch", None, 2, 1),
    ]


def test_a_launch_without_work_is_a_replay_of_nothing() -> None:
    scene = Scene()
    scene.thread().call("cudaGraphLaunch")
    row = graph_replays(scene.linked()).row(0, named=True)
    assert (row["replays"], row["kernels"], row["device_ns"], row["share"]) == (1, 0, 0, None)


def test_work_of_a_graph_whose_launch_is_not_in_the_trace() -> None:
    scene = Scene()
    stream = scene.stream(7)
    for correlation in (5, 5, 6, 6):
        stream.run("a", 10, args={"graph id": 9, "graph node id": 1, "correlation": correlation})
    stream.run("k", 40)
    found = graph_replays(scene.linked())
    assert found.select("api", "graph_id", "kernels_per_replay", "replays", "host_ns", "share").rows() == [
        (None, 9, 2, 2, None, 0.5)
    ]


def test_rows_by_step_add_up_to_the_rows_over_all() -> None:
    scene = Scene()
    host = scene.thread()
    for number in (1, 2):
        with host.step(number):
            host.launch(scene.stream(7), "k", 100)
            host.replay(scene.stream(7), [("a", 100 * number)])
    linked = scene.linked()
    by_step = graph_replays(linked, per_step=True)
    assert by_step.select("step", "share").rows() == [
        ("ProfilerStep#1", 0.5),
        ("ProfilerStep#2", pytest.approx(2 / 3)),
    ]
    assert by_step.get_column("device_ns").sum() == graph_replays(linked).get_column("device_ns").sum()


def test_a_trace_without_graphs_has_no_rows() -> None:
    found = graph_replays(clean().linked())
    assert found.is_empty()
    assert dict(found.schema) == GRAPH_REPLAYS.polars_schema()
