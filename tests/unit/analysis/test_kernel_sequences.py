"""Sequences of kernels that come back, and the kernels of graphs with the ops of their capture."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tests.cases import cases
from tests.planted import CALL_NS, LATENCY_NS, Scene, Stream, Thread, device_scene, host_scene
from tracebraid.analyses import graph_kernels, kernel_sequences, op_kernel_sequences
from tracebraid.analysis.kernels.sequences import LONGEST_GAP_NS, MOST_NAMES
from tracebraid.model.answers.efficiency import CaptureMatch
from tracebraid.model.linked_trace import LinkedTrace


def layers(runs: int, between_ns: int = 0) -> LinkedTrace:
    """Layers of norm, gemm, add (100 ns each, one every 6 us), with another kernel before and behind them all."""
    scene, host, stream = device_scene()
    host.launch(stream, "first", 100)
    for _ in range(runs):
        with host.op("layer"):
            for name in ("norm", "gemm", "add"):
                host.launch(stream, name, 100)
                host.spend(1_000)
        host.spend(between_ns)
    host.launch(stream, "last", 100)
    return scene.linked()


def names(row: dict[str, object]) -> list[str]:
    found: list[str] = json.loads(str(row["pattern"]))
    return found


def test_a_layer_that_comes_back_is_found_once() -> None:
    found = kernel_sequences(layers(4)).rows(named=True)
    assert len(found) == 1
    row = found[0]
    assert names(row) == ["norm", "gemm", "add"]
    assert (row["op"], row["length"], row["count"], row["complete"]) == (None, 3, 4, 0)
    assert row["device_ns"] == 4 * 3 * 100
    assert row["gap_ns"] == 4 * 2 * (CALL_NS + 1_000 - 100)
    assert row["launch_ns"] == 4 * 2 * CALL_NS
    assert row["op_ns"] is None


def test_a_long_gap_ends_a_sequence() -> None:
    row = kernel_sequences(layers(4, LONGEST_GAP_NS)).row(0, named=True)
    assert names(row) == ["norm", "gemm", "add"]
    assert (row["count"], row["complete"]) == (4, 3), "the first layer has a neighbour"


def test_under_an_op_its_whole_sequence_is_found() -> None:
    linked = layers(4)
    row = kernel_sequences(linked, op="layer").row(0, named=True)
    assert (row["op"], row["length"], row["count"], row["complete"]) == ("layer", 3, 4, 4)
    assert row["op_ns"] == 4 * 3 * (CALL_NS + 1_000)
    assert kernel_sequences(linked, op="not there").is_empty()
    assert kernel_sequences(linked, op="layer", min_length=4).is_empty()


def test_steps_are_asked_for_by_their_name_without_a_number() -> None:
    scene, host, stream = device_scene()
    for number in (1, 2, 3):
        with host.step(number):
            for name in ("a", "b"):
                host.launch(stream, name, 10)
    row = kernel_sequences(scene.linked(), op="ProfilerStep").row(0, named=True)
    assert (names(row), row["count"], row["complete"]) == (["a", "b"], 3, 3)
    assert kernel_sequences(scene.linked(), per_step=True).is_empty()


def test_an_op_inside_an_op_of_its_name_counts_once() -> None:
    scene, host, stream = device_scene()
    outer_ns = 0
    for _ in range(2):
        with host.op("block") as outer, host.op("block"):
            for name in ("a", "b"):
                host.launch(stream, name, 10)
        outer_ns += outer.dur
    row = kernel_sequences(scene.linked(), op="block").row(0, named=True)
    assert (row["count"], row["op_ns"]) == (2, outer_ns)


def run_of(host: Thread, scene: Scene, kernels: str) -> None:
    for name in kernels:
        host.launch(scene.stream(7), name, 10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernels", "expected"),
    [
        ("xabyabz", [("ab", 2)]),
        ("ababababz", [("ab", 4)]),
        ("xaaaayaaaaz", [("aaaa", 2)]),
        ("xaaayaaz", []),
        ("abc", []),
        ("xabcyabcwabvab", [("ab", 2), ("abc", 2)]),
        ("xabababaz", [("ab", 3)]),
        ("xabcabcabcaz", [("abc", 3)]),
        ("xababayababaz", [("ab", 4)]),
    ],
)
def test_only_sequences_that_say_something_of_their_own(
    kernels: str, expected: list[tuple[str, int]]
) -> None:
    scene = Scene()
    run_of(scene.thread(), scene, kernels)
    found = kernel_sequences(scene.linked()).rows(named=True)
    assert sorted(("".join(names(row)), row["count"]) for row in found) == expected


def test_a_collective_ends_a_sequence_and_streams_are_apart() -> None:
    scene, streams = Scene(world_size=2), Scene()
    host, other = scene.thread(), streams.thread()
    for _ in range(3):
        run_of(host, scene, "ab")
        host.collective(scene.stream(7), 100)
        run_of(host, scene, "cd")
        other.launch(streams.stream(7), "a", 10)
        other.launch(streams.stream(8), "b", 10)
    found = kernel_sequences(scene.linked()).rows(named=True)
    assert sorted("".join(names(row)) for row in found) == ["cdab"]
    assert kernel_sequences(streams.linked()).is_empty(), "each stream is one run of one kernel"


def test_a_long_sequence_is_written_in_part() -> None:
    scene, host = host_scene()
    for run in range(2):
        for number in range(MOST_NAMES + 5):
            host.launch(scene.stream(7), f"k{number}", 10)
        host.launch(scene.stream(7), f"behind {run}", 10)
    row = kernel_sequences(scene.linked()).row(0, named=True)
    assert row["length"] == MOST_NAMES + 5
    assert names(row) == [f"k{number}" for number in range(MOST_NAMES)]
    assert row["first_event"] == scene.of("k0")[0].event_id


def test_ops_are_apart_by_what_they_launch() -> None:
    scene, host, stream = device_scene()
    for kernels in (["fill", "gemm"], ["gemm"], ["gemm"]):
        with host.op("aten::mm", ns=2_000):
            for name in kernels:
                host.launch(stream, name, 100)
    found = op_kernel_sequences(scene.linked()).rows(named=True)
    rows = [(json.loads(row["pattern"]), row["length"], row["count"], row["device_ns"]) for row in found]
    assert rows == [(["fill", "gemm"], 2, 1, 200), (["gemm"], 1, 2, 200)]
    assert {row["op_launch_delay_ns"] for row in found} == {2_000.0}
    assert {row["runtime_delay_ns"] for row in found} == {float(CALL_NS + LATENCY_NS)}


def test_an_op_on_another_thread_keeps_its_kernels() -> None:
    """Both run at the same time on one stream: by times alone the kernels would be of either."""
    scene = Scene()
    first, second, stream = scene.thread(), scene.thread(), scene.stream(7)
    with first.op("a"), second.op("b"):
        for _ in range(2):
            first.launch(stream, "of a", 10)
            second.launch(stream, "of b", 10)
    found = op_kernel_sequences(scene.linked())
    patterns = {row["op"]: json.loads(row["pattern"]) for row in found.rows(named=True)}
    assert patterns == {"a": ["of a", "of a"], "b": ["of b", "of b"]}


def test_kernels_belong_to_the_innermost_op() -> None:
    scene, host, stream = device_scene()
    with host.op("aten::linear"), host.op("aten::addmm"):
        host.launch(stream, "gemm", 10)
    assert op_kernel_sequences(scene.linked()).get_column("op").to_list() == ["aten::addmm"]


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


def method_of(scene: Scene) -> str:
    """The method of all rows; where there is none, no op is named."""
    found = graph_kernels(scene.linked())
    (method,) = set(found.get_column("method"))
    assert (found.get_column("op").null_count() == found.height) == (
        method not in ("node-order", "stream-order")
    )
    return str(method)


def replay(host: Thread, stream: Stream, kernels: Sequence[str], graph: int = 1) -> None:
    host.replay(stream, [(name, 100) for name in kernels], graph=graph)


def with_capture(ops: Sequence[str], kernels: Sequence[str], captures: int = 1) -> Scene:
    scene, host = host_scene()
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


@pytest.mark.full(keep=4)
@pytest.mark.slow
@cases(
    "captures, kernels, method",
    {
        "none": ([], 3, CaptureMatch.NO_CAPTURE),
        "of fewer launches": ([OPS[:2]], 3, CaptureMatch.NO_CAPTURE),
        "of more launches": ([[*OPS, "aten::mm"]], 3, CaptureMatch.NO_CAPTURE),
        "two that fit and differ": (
            [["aten::mm", "aten::sum"], ["aten::addmm", "aten::sum"]],
            2,
            CaptureMatch.SEVERAL_CAPTURES,
        ),
        "of ops that launch others": (
            [["aten::sort", "aten::mm", "aten::embedding"]],
            3,
            CaptureMatch.FAMILIES_DIFFER,
        ),
    },
)
def test_a_capture_is_not_the_graph_s(captures: list[list[str]], kernels: int, method: CaptureMatch) -> None:
    scene, host = host_scene()
    for ops in captures:
        capture(host, ops)
    replay(host, scene.stream(7), KERNELS[:kernels])
    assert method_of(scene) == method.value
    found = graph_kernels(scene.linked())
    assert found.get_column("family").to_list() == ["gemm", "reduction", "copy"][:kernels]
    if method is CaptureMatch.FAMILIES_DIFFER:
        assert found.get_column("confidence").to_list() == [pytest.approx(1 / 3)] * 3, "a product may reduce"


@pytest.mark.parametrize("late", [True, False], ids=["after the launch", "of other work"])
def test_a_late_capture_and_one_of_other_work_are_not_the_graph_s(late: bool) -> None:
    scene, host = host_scene()
    if late:
        replay(host, scene.stream(7), KERNELS)
        host.until(1_000_000)
        capture(host, OPS)
    else:
        capture(host, OPS, api="cudaMemcpyAsync")
        replay(host, scene.stream(7), KERNELS)
    assert method_of(scene) == CaptureMatch.NO_CAPTURE.value


def test_of_captures_that_are_alike_only_the_names_of_ops_are_said() -> None:
    found = graph_kernels(with_capture(OPS, KERNELS, captures=2).linked())
    assert found.get_column("op").to_list() == OPS
    assert found.get_column("op_event").null_count() == 3


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
    scene, host, stream = device_scene()
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
    scene, host = host_scene()
    capture(host, OPS)
    call = host.call("hipGraphLaunch")
    for number, name in enumerate(KERNELS):
        scene.stream(7 + number % 2).run(name, 10, call.end, call=call)
    assert method_of(scene) == CaptureMatch.NO_CAPTURE.value


def test_a_graph_launched_before_the_trace_began_is_known_by_its_id() -> None:
    scene = Scene()
    scene.stream(7).run("k", 10, args={"graph id": 4, "graph node id": 5})
    scene.stream(7).run("no graph", 10, args={"graph id": 0, "graph node id": 0})
    assert graph_kernels(scene.linked()).select("graph_id", "name", "launches").rows() == [(4, "k", 1)]
