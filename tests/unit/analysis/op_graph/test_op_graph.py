"""The graph of ops of planted traces, and of the bundled ones: its nodes, its edges, and parts of it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.planted import Planted, Scene
from tests.planted.nodes import node_id_of, nodes_of
from tracebraid.analysis.op_graph.op_graph import OpGraph, op_graph
from tracebraid.analysis.op_graph.part import near, top
from tracebraid.analysis.ops.ops import ops
from tracebraid.model.answers import OpEdge, OpNode


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


def test_a_step_has_what_starts_and_is_launched_in_it(program: Program) -> None:
    graph = op_graph(program.linked, step="ProfilerStep#1")
    assert set(graph.nodes.get_column("name")) == {"ProfilerStep#1", "aten::linear", "aten::mm", "gemm"}
    assert graph.edges.height == 3


def test_the_greatest_ops_keep_what_encloses_them(program: Program) -> None:
    graph = top(op_graph(program.linked), 1)
    assert set(graph.nodes.get_column("name")) == {"ProfilerStep#1", "aten::linear", "aten::mm", "gemm"}


def test_near_an_op_is_what_is_in_it_and_an_edge_away(program: Program) -> None:
    graph = near(op_graph(program.linked), "aten::mm")
    assert set(graph.nodes.get_column("name")) == {"ProfilerStep#1", "aten::linear", "aten::mm", "gemm"}
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
