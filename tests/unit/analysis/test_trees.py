"""What stands around events: call sites of the user, frames of flame graphs, and graphs of ops."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.builders import op
from tests.planted import Planted, Scene, device_scene, host_scene
from tests.planted.nodes import node_id_of, nodes_of
from tests.unit.linking.made import linked_of
from tracebraid.analyses import ops
from tracebraid.analysis.flames import LAUNCHED_IN_NOTHING, NOT_LAUNCHED, flame_frames
from tracebraid.analysis.host.host_trees import call_sites
from tracebraid.analysis.op_graph import OpGraph, near, op_graph, top
from tracebraid.model.answers.ops import FlameTree, OpEdge, OpNode
from tracebraid.model.linked_trace import LinkedTrace

TORCH = "/x/site-packages/torch/nn/functional.py(1): f"
MODULE = "/x/site-packages/torch/nn/modules/module.py(727): _call_impl"


def sites(linked: LinkedTrace) -> dict[int, str | None]:
    return dict(call_sites(linked).iter_rows())


def test_the_innermost_frame_of_the_user_counts_even_outside_of_torch_s_own() -> None:
    scene, host = host_scene(devices=())
    with (
        host.frame("train.py(3): main"),
        host.frame("model.py(7): forward", 1),
        host.module("Linear_0"),
        host.frame("torch/nn/modules/linear.py(1): forward"),
        host.frame("<built-in function linear>"),
        host.op("aten::linear", 2) as outer,
        host.op("aten::addmm", 1) as inner,
    ):
        pass
    found = sites(scene.linked())
    assert found[outer.event_id] == found[inner.event_id] == "model.py(7): forward"


def test_a_comprehension_is_its_function_s() -> None:
    scene, host = host_scene(devices=())
    with (
        host.frame("model.py(7): prototypes", 1),
        host.frame("model.py(9): <listcomp>"),
        host.frame("torch/x.py(1): f"),
        host.op("aten::mean", 2) as planted,
    ):
        pass
    host.spend(5)
    with host.frame("model.py(11): <genexpr>", 1) as alone:
        pass
    found = sites(scene.linked())
    assert found[planted.event_id] == "model.py(7): prototypes"
    assert found[alone.event_id] == "model.py(11): <genexpr>"


def test_without_a_frame_of_the_user_it_is_the_innermost_that_has_a_line() -> None:
    scene, host = host_scene(devices=())
    with (
        host.frame("threading.py(3): run"),
        host.frame("torch/x.py(1): f"),
        host.frame("<built-in function g>"),
        host.op("aten::add", 2) as planted,
    ):
        pass
    alone = host.run("aten::mul", 3)
    found = sites(scene.linked())
    assert found[planted.event_id] == "torch/x.py(1): f"
    assert found[alone.event_id] is None


def test_a_backward_op_on_a_thread_without_frames_has_the_line_of_its_forward_op() -> None:
    scene = Scene(devices=())
    host, autograd = scene.thread(), scene.thread()
    with host.frame("model.py(7): forward"), host.op("aten::mm", 5, sequence=1) as forward:
        pass
    autograd.until(host.now)
    with autograd.backward("MmBackward0", forward, host, 1) as backward, autograd.op("aten::mm", 1) as inner:
        pass
    other = autograd.run("aten::add", 1)
    found = sites(scene.linked())
    assert found[backward.event_id] == found[inner.event_id] == "model.py(7): forward"
    assert found[other.event_id] is None


@pytest.mark.parametrize(
    ("frames", "site"),
    [
        ([("<built-in function relu>", "net.py:9")], "net.py(9): forward"),
        ([("torch/x.py(1): f", "net.py:9"), ("<built-in function g>", "torch/x.py:2")], "net.py(9): forward"),
        (
            [("net.py(9): <listcomp>", "net.py:9"), ("<built-in function g>", "net.py:10")],
            "net.py(9): forward",
        ),
        ([("net.py(20): inner", "net.py:9"), ("<built-in function g>", "net.py:21")], "net.py(21): inner"),
        ([], "net.py(7): forward"),
        ([("<built-in function g>", "")], "net.py(7): forward"),
        ([("<built-in function g>", "other.py:9")], "net.py(7): forward"),
        ([("<built-in function g>", "no line")], "net.py(7): forward"),
    ],
)
def test_the_line_is_that_of_the_call_where_the_trace_tells_it(
    frames: list[tuple[str, str]], site: str
) -> None:
    """On other threads too: a backward op has the line of its forward op."""
    scene = Scene(devices=())
    host, autograd = scene.thread(), scene.thread()
    with ExitStack() as stack:
        stack.enter_context(host.frame("train.py(3): main", called_from="train.py:40"))
        stack.enter_context(host.frame("net.py(7): forward", 1, "train.py:5"))
        for name, called_from in frames:
            stack.enter_context(host.frame(name, 1, called_from))
        forward = stack.enter_context(host.op("aten::mm", 2, sequence=1))
    autograd.until(host.now)
    with autograd.backward("MmBackward0", forward, host, 1) as backward:
        pass
    found = sites(scene.linked())
    assert found[forward.event_id] == found[backward.event_id] == site


def test_old_traces_have_the_stack_with_the_op() -> None:
    stacks = [f"{TORCH};{MODULE};net.py(30): forward;train.py(5): main", MODULE, ""]
    events = [op(f"op {i}", 20 * i, 10, Call_stack=stack) for i, stack in enumerate(stacks)]
    found = sites(linked_of([*events, op("none", 80, 10)]))
    assert list(found.values()) == ["net.py(30): forward", MODULE, None, None]
    assert call_sites(linked_of([])).is_empty()


DEEP = 2_000


def of(frames: pl.DataFrame, tree: FlameTree) -> pl.DataFrame:
    return frames.filter(tree=tree.value)


def test_steps_and_addresses_do_not_split_what_is_the_same() -> None:
    scene, host = host_scene()
    for number in range(3):
        with host.step(number):
            host.spend(10)
            with host.frame(f"<built-in method run of Engine object at 0x7f{number}a>", 5):
                host.run("aten::mm", 1_000)
            host.spend(10)
    frames = of(flame_frames(scene.linked()), FlameTree.HOST)
    assert frames.get_column("name").to_list() == [
        "ProfilerStep",
        "<built-in method run of Engine>",
        "aten::mm",
    ]
    assert frames.get_column("kind").to_list() == ["annotation", "python", "op"]
    assert frames.get_column("count").to_list() == [3, 3, 3]
    assert frames.get_column("self_ns").to_list()[-1] == 3_000


def test_a_kernel_is_on_the_stack_of_its_launch_without_the_call() -> None:
    scene, host, stream = device_scene()
    with host.frame("train.py(3): step"), host.op("aten::linear"), host.op("aten::mm"):
        host.launch(stream, "gemm", 700)
        host.launch(stream, "gemm", 300)
    frames = of(flame_frames(scene.linked()), FlameTree.DEVICE)
    assert frames.get_column("name").to_list() == ["train.py(3): step", "aten::linear", "aten::mm", "gemm"]
    assert frames.row(3, named=True)["self_ns"] == 1_000
    assert frames.get_column("total_ns").to_list() == [1_000] * 4
    assert frames.row(3, named=True)["count"] == 2
    assert frames.row(3, named=True)["kind"] == "compute"


def test_device_time_without_a_stack_has_roots_that_say_so() -> None:
    scene, host, stream = device_scene()
    host.launch(stream, "outside", 200)
    stream.run("unknown", 500)
    frames = of(flame_frames(scene.linked()), FlameTree.DEVICE)
    roots = dict(frames.filter(depth=0).select("name", "total_ns").iter_rows())
    assert roots == {LAUNCHED_IN_NOTHING: 200, NOT_LAUNCHED: 500}
    assert frames.filter(depth=1).get_column("name").to_list() == ["unknown", "outside"]


def test_frames_of_one_name_and_several_kinds_stay_apart() -> None:
    """Without a device and modules there is the tree of the host alone."""
    scene, host = host_scene(devices=())
    host.run("same", 100)
    with host.annotation("same", 50):
        pass
    frames = flame_frames(scene.linked())
    assert dict(frames.select("kind", "count").iter_rows()) == {"op": 1, "annotation": 1}
    assert frames.get_column("tree").unique().to_list() == [FlameTree.HOST.value]


@pytest.mark.slow
def test_two_thousand_levels_are_as_many_frames() -> None:
    scene, host, stream = device_scene()
    with ExitStack() as nested:
        for _ in range(DEEP):
            nested.enter_context(host.op("aten::checkpoint", 1))
        host.launch(stream, "gemm", 700)
    frames = flame_frames(scene.linked())
    device = of(frames, FlameTree.DEVICE)
    assert device.get_column("depth").to_list() == list(range(DEEP + 1))
    assert device.get_column("total_ns").unique().to_list() == [700]
    assert of(frames, FlameTree.HOST).get_column("depth").max() == DEEP


class Program:
    """Two steps; in the second a forward op with its backward op on another thread."""

    def __init__(self) -> None:
        self.scene = Scene()
        host, autograd, stream = self.scene.thread(), self.scene.thread(), self.scene.stream()
        with host.step(1), host.op("aten::linear", 5, dims=[[2, 3]]) as self.first:
            host.spend(10)
            with host.op("aten::mm", 5) as self.mm:
                self.gemm = host.launch(stream, "gemm", 700)
        with host.step(2) as self.step:
            host.spend(10)
            with host.op("aten::relu", 5, sequence=4) as self.relu:
                self.small = host.launch(stream, "relu", 50)
            autograd.until(host.now)
            with autograd.backward("ReluBackward0", self.relu, host) as self.back:
                autograd.spend(20)
        self.linked = self.scene.linked(nodes_of(self.scene))

    def edges(self, graph: OpGraph, kind: OpEdge) -> set[tuple[str, str]]:
        """The edges of a kind by the names of their ends."""
        name_of = dict(graph.nodes.select("event_id", "name").iter_rows())
        rows = graph.edges.filter(kind=kind.value).select("source", "target").iter_rows()
        return {(name_of[source], name_of[target]) for source, target in rows}


@pytest.fixture(scope="module")
def program() -> Program:
    return Program()


def row(graph: OpGraph, event: Planted) -> dict[str, object]:
    return graph.nodes.filter(event_id=event.event_id).row(0, named=True)


def test_nodes_have_what_is_known_of_ops(program: Program) -> None:
    found = row(op_graph(program.linked), program.first)
    assert found["kind"] == OpNode.OP.value
    assert found["node_id"] == node_id_of(program.first)
    assert found["input_dims"] == "[[2, 3]]"
    assert (found["kernels"], found["device_self_ns"], found["device_total_ns"]) == (0, 0, 700)
    assert row(op_graph(program.linked), program.gemm)["kind"] == OpNode.DEVICE_WORK.value


def test_edges_are_calls_launches_and_backward(program: Program) -> None:
    graph = op_graph(program.linked)
    assert program.edges(graph, OpEdge.CALL) >= {
        ("ProfilerStep#1", "aten::linear"),
        ("aten::linear", "aten::mm"),
        ("ProfilerStep#2", "aten::relu"),
    }
    assert program.edges(graph, OpEdge.LAUNCH) == {("aten::mm", "gemm"), ("aten::relu", "relu")}
    assert program.edges(graph, OpEdge.FORWARD_BACKWARD) == {
        ("aten::relu", "ReluBackward0"),
        ("aten::relu", "autograd::engine::evaluate_function: ReluBackward0"),
    }


@pytest.mark.parametrize(
    "part",
    [
        lambda linked: op_graph(linked, step="ProfilerStep#1"),
        lambda linked: top(op_graph(linked), 1),
        lambda linked: near(op_graph(linked), "aten::mm"),
    ],
    ids=["a step", "the greatest op with what encloses it", "near an op"],
)
def test_parts_of_a_graph(program: Program, part: Callable[[LinkedTrace], OpGraph]) -> None:
    graph = part(program.linked)
    assert set(graph.nodes.get_column("name")) == {"ProfilerStep#1", "aten::linear", "aten::mm", "gemm"}
    assert graph.edges.height == 3
    assert near(op_graph(program.linked), "no such op").nodes.is_empty()


def test_data_flows_as_the_execution_trace_has_it(demo: Path) -> None:
    linked = tracebraid.open(demo)[0]
    graph = op_graph(linked)
    data = graph.edges.filter(kind=OpEdge.DATA.value)
    node_of = dict(
        graph.nodes.filter(pl.col("node_id").is_not_null()).select("event_id", "node_id").iter_rows()
    )
    et = linked.et
    assert et is not None
    flows = set(et.tensor_edges.select("producer", "consumer").iter_rows())
    pairs = {(node_of[a], node_of[b]) for a, b in data.select("source", "target").iter_rows()}
    linked_nodes = set(node_of.values())
    assert pairs == {(a, b) for a, b in flows if a != b and a in linked_nodes and b in linked_nodes}
    assert pairs
    assert graph.nodes.get_column("host_self_ns").sum() == ops(linked).get_column("host_self_ns").sum()
