"""Kernels of graphs, and the ops of their capture."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.planted import Scene, Stream, Thread
from tracebraid.analysis.kernels.graphs.graph_kernels import graph_kernels
from tracebraid.model.answers import CaptureMatch

LAYER = [
    ("aten::mm", "ampere_sgemm_128x64_nn"),
    ("aten::sum", "reduce_kernel"),
    ("aten::cat", "CatArrayBatchedCopy"),
]


def capture(host: Thread, ops: Sequence[str], api: str = "cudaLaunchKernel") -> None:
    host.call("cudaStreamBeginCapture")
    host.call("cudaStreamIsCapturing")
    for name in ops:
        with host.op(name):
            host.call(api)
    host.call("cudaStreamEndCapture")


def replay(host: Thread, stream: Stream, kernels: Sequence[str], graph: int = 1) -> None:
    host.replay(stream, [(name, 100) for name in kernels], graph=graph)


def with_capture(ops: Sequence[str], kernels: Sequence[str], captures: int = 1) -> Scene:
    scene = Scene()
    host = scene.thread()
    for _ in range(captures):
        capture(host, ops)
    for _ in range(3):
        replay(host, scene.stream(7), kernels)
    return scene


OPS, KERNELS = [op for op, _ in LAYER], [name for _, name in LAYER]


def test_nodes_are_joined_to_the_ops_of_the_capture() -> None:
    scene = with_capture(OPS, KERNELS)
    found = graph_kernels(scene.linked())
    columns = (
        "graph",
        "graph_id",
        "launches",
        "node",
        "graph_node_id",
        "family",
        "name",
        "op",
        "count",
        "total_ns",
    )
    assert found.select(columns).rows() == [
        (0, 1, 3, 0, 1000, "gemm", KERNELS[0], "aten::mm", 3, 300),
        (0, 1, 3, 1, 1001, "reduction", KERNELS[1], "aten::sum", 3, 300),
        (0, 1, 3, 2, 1002, "copy", KERNELS[2], "aten::cat", 3, 300),
    ]
    assert set(found.get_column("method")) == {CaptureMatch.NODE_ORDER.value}
    assert found.get_column("confidence").to_list() == [1.0] * 3
    assert found.get_column("op_event").to_list() == [scene.of(op)[0].event_id for op in OPS]


def test_without_a_capture_no_op_is_said() -> None:
    scene = Scene()
    replay(scene.thread(), scene.stream(7), KERNELS)
    found = graph_kernels(scene.linked())
    assert found.get_column("op").null_count() == 3
    assert set(found.get_column("method")) == {CaptureMatch.NO_CAPTURE.value}
    assert found.get_column("family").to_list() == ["gemm", "reduction", "copy"]


@pytest.mark.parametrize("ops", [OPS[:2], [*OPS, "aten::mm"]])
def test_a_capture_of_another_number_of_launches_is_not_the_graph_s(ops: list[str]) -> None:
    found = graph_kernels(with_capture(ops, KERNELS).linked())
    assert set(found.get_column("method")) == {CaptureMatch.NO_CAPTURE.value}


def test_a_capture_whose_ops_launch_other_kernels_is_not_the_graph_s() -> None:
    found = graph_kernels(with_capture(["aten::sort", "aten::mm", "aten::embedding"], KERNELS).linked())
    assert set(found.get_column("method")) == {CaptureMatch.FAMILIES_DIFFER.value}
    assert found.get_column("op").null_count() == 3
    assert found.get_column("confidence").to_list() == [pytest.approx(1 / 3)] * 3, "a product may reduce"


def test_a_capture_of_other_sorts_of_work_is_not_the_graph_s() -> None:
    scene = Scene()
    host = scene.thread()
    capture(host, OPS, api="cudaMemcpyAsync")
    replay(host, scene.stream(7), KERNELS)
    assert set(graph_kernels(scene.linked()).get_column("method")) == {CaptureMatch.NO_CAPTURE.value}


def test_a_capture_that_ends_after_the_launch_is_not_the_graph_s() -> None:
    scene = Scene()
    host = scene.thread()
    replay(host, scene.stream(7), KERNELS)
    host.until(1_000_000)
    capture(host, OPS)
    assert set(graph_kernels(scene.linked()).get_column("method")) == {CaptureMatch.NO_CAPTURE.value}


def test_of_captures_that_are_alike_only_the_names_of_ops_are_said() -> None:
    found = graph_kernels(with_capture(OPS, KERNELS, captures=2).linked())
    assert found.get_column("op").to_list() == OPS
    assert found.get_column("op_event").null_count() == 3


def test_captures_that_fit_and_differ_leave_the_op_open() -> None:
    scene = Scene()
    host = scene.thread()
    capture(host, ["aten::mm", "aten::sum"])
    capture(host, ["aten::addmm", "aten::sum"])
    replay(host, scene.stream(7), KERNELS[:2])
    found = graph_kernels(scene.linked())
    assert set(found.get_column("method")) == {CaptureMatch.SEVERAL_CAPTURES.value}
    assert found.get_column("op").null_count() == 2


def test_launches_of_the_backward_thread_are_in_the_capture() -> None:
    scene = Scene()
    host, autograd = scene.thread(), scene.thread()
    host.call("cudaStreamBeginCapture")
    with host.op("aten::mm"):
        host.call("cudaLaunchKernel")
    autograd.until(host.now)
    with autograd.op("aten::sum"):
        autograd.call("cudaLaunchKernel")
    host.until(autograd.now)
    host.call("cudaStreamEndCapture")
    replay(host, scene.stream(7), KERNELS[:2])
    assert graph_kernels(scene.linked()).get_column("op").to_list() == ["aten::mm", "aten::sum"]


def test_captures_at_the_same_time_hold_the_launches_of_their_own_threads() -> None:
    scene = Scene()
    first, second = scene.thread(), scene.thread()
    for thread in (first, second):
        thread.call("cudaStreamBeginCapture")
    for thread, ops in ((first, OPS[:2]), (second, OPS[2:])):
        for name in ops:
            with thread.op(name):
                thread.call("cudaLaunchKernel")
    for thread in (first, second):
        thread.until(100_000)
        thread.call("cudaStreamEndCapture")
    replay(first, scene.stream(7), KERNELS[:2])
    replay(first, scene.stream(7), KERNELS[2:], graph=2)
    assert graph_kernels(scene.linked()).select("graph", "op").rows() == [
        (0, OPS[0]),
        (0, OPS[1]),
        (1, OPS[2]),
    ]


def test_graphs_without_ids_are_kept_apart_by_what_they_run() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    capture(host, OPS)
    for kernels in (KERNELS, KERNELS[:2], KERNELS):
        call = host.call("hipGraphLaunch")
        for name in kernels:
            stream.run(name, 10, call.end, call=call)
    found = graph_kernels(scene.linked())
    assert found.select("graph", "launches", "node", "op", "method").rows() == [
        (0, 2, 0, "aten::mm", "stream-order"),
        (0, 2, 1, "aten::sum", "stream-order"),
        (0, 2, 2, "aten::cat", "stream-order"),
        (1, 1, 0, None, "no-capture"),
        (1, 1, 1, None, "no-capture"),
    ]


def test_on_several_streams_without_ids_nothing_is_said_of_ops() -> None:
    scene = Scene()
    host = scene.thread()
    capture(host, OPS)
    call = host.call("hipGraphLaunch")
    for number, name in enumerate(KERNELS):
        scene.stream(7 + number % 2).run(name, 10, call.end, call=call)
    assert set(graph_kernels(scene.linked()).get_column("method")) == {CaptureMatch.NO_CAPTURE.value}


def test_a_trace_without_graphs_has_no_rows() -> None:
    scene = Scene()
    scene.thread().launch(scene.stream(7), "k", 10)
    assert graph_kernels(scene.linked()).is_empty()


def test_a_graph_launched_before_the_trace_began_is_known_by_its_id() -> None:
    scene = Scene()
    scene.stream(7).run("k", 10, args={"graph id": 4, "graph node id": 5})
    scene.stream(7).run("no graph", 10, args={"graph id": 0, "graph node id": 0})
    assert graph_kernels(scene.linked()).select("graph_id", "name", "launches").rows() == [(4, "k", 1)]
