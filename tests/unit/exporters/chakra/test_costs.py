"""What nodes compute and move: the costs of an op are shared among its nodes, and add up to those of all ops."""

from __future__ import annotations

import polars as pl
import pytest

from tests.chakra_nodes import communication_of
from tests.planted import Scene
from tracebraid.analysis.efficiency.costs_of_ops import costs_of_ops
from tracebraid.exporters.chakra.costs import with_costs
from tracebraid.exporters.chakra.nodes.rank_nodes import rank_nodes
from tracebraid.graph.rank_graph import rank_graph
from tracebraid.model.chakra.codes import Detail

DIMS = [[200, 300], [300, 400]]
FLOPS, BYTES = 2 * 200 * 300 * 400, 4 * (200 * 300 + 300 * 400 + 200 * 400)


def scene_of_products() -> Scene:
    """A product in two kernels, one of which takes three times as long as the other; a kernel without shapes."""
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    with host.op("aten::mm", dims=DIMS, types=["float", "float"]):
        host.launch(stream, "gemm", 30_000)
        host.launch(stream, "splitk", 10_000)
    with host.op("aten::unheard_of"):
        host.launch(stream, "other", 5_000)
    return scene


@pytest.mark.parametrize("detail", list(Detail))
def test_the_kernels_of_an_op_share_its_costs_by_their_time(detail: Detail) -> None:
    linked = scene_of_products().linked()
    graph = rank_graph(linked)
    nodes = rank_nodes(graph, communication_of(graph), detail).nodes
    found = with_costs(nodes, graph, costs_of_ops(linked))
    assert found.schema == nodes.schema
    known = found.filter(pl.col("num_ops").is_not_null()).select(
        pl.col("name").cast(pl.String), "num_ops", "tensor_size"
    )
    assert known.rows() == [
        ("gemm", FLOPS * 3 // 4, BYTES * 3 // 4),
        ("splitk", FLOPS // 4, BYTES // 4),
    ]


def test_work_on_the_host_has_costs_where_nothing_was_launched() -> None:
    scene = Scene()
    host = scene.thread()
    with host.op("aten::mm", dims=DIMS, types=["float", "float"]):
        host.spend(1_000)
        with host.op("aten::resolve_conj"):
            host.spend(500)
        host.spend(1_000)
    linked = scene.linked()
    graph = rank_graph(linked)
    nodes = rank_nodes(graph, communication_of(graph), Detail.FULL).nodes
    found = with_costs(nodes, graph, costs_of_ops(linked))
    assert found.select(pl.col("num_ops", "tensor_size").sum()).row(0) == (FLOPS, BYTES)


def test_without_shapes_nothing_is_known() -> None:
    scene = Scene()
    host = scene.thread()
    with host.op("aten::mm"):
        host.spend(1_000)
    linked = scene.linked()
    graph = rank_graph(linked)
    nodes = rank_nodes(graph, communication_of(graph)).nodes
    assert with_costs(nodes, graph, costs_of_ops(linked)).equals(nodes)
