"""What activities are described by: family, module, shapes, node, bytes, group."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.planted import Copy, PlannedJob, Planted, Scene, write_ranks
from tests.planted.nodes import node_id_of, nodes_of
from tracebraid.api.graphing import dependency_graph
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.graph.dependency_graph import DependencyGraph


def row(graph: DependencyGraph, event: Planted) -> dict[str, object]:
    """The activity of an event."""
    found = graph.activities.filter(pl.col("event_id") == event.event_id)
    return found.row(0, named=True)


def test_forward_backward_and_copy() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    with host.step(1, 1_000):
        with host.module("Linear_0", 1_000), host.op("aten::mm", dims=[[2, 3], [3, 4]], sequence=1) as mm:
            forward = host.launch(stream, "sgemm_128x64_nn", 50_000)
        with host.backward("MmBackward0", mm, host):
            backward = host.launch(stream, "sgemm_128x64_nt", 50_000)
        copied = host.copy(stream, Copy.DEVICE_TO_PINNED, 4096, 7_000)
    graph = dependency_graph(scene.linked(nodes_of(scene)))
    of_op, of_kernel = row(graph, mm), row(graph, forward)
    assert (of_op["family"], of_op["module"]) == ("gemm", "Linear_0")
    assert of_op["shapes"] == of_kernel["shapes"] == "[[2, 3], [3, 4]]"
    assert of_op["node_id"] == of_kernel["node_id"] == node_id_of(mm)
    assert (of_kernel["family"], of_kernel["module"]) == ("gemm", "Linear_0")
    assert row(graph, backward)["module"] == "Linear_0"
    assert (row(graph, copied)["size_bytes"], row(graph, copied)["family"]) == (4096, "copy")


@pytest.mark.parametrize("devices", [True, False])
def test_communication_has_group_and_bytes(tmp_path: Path, devices: bool) -> None:
    job = PlannedJob(2) if devices else PlannedJob(2, devices=())
    with job.step(1):
        job.compute(10_000)
        planted = job.collective(nelems=256)
    graph = dependency_graph(tracebraid.open(job.write(tmp_path)))
    members = graph.activities.filter(pl.col("kind") == "communication")
    assert members.get_column("rank").to_list() == [0, 1]
    assert members.get_column("event_id").to_list() == [planted.event_ids[rank] for rank in (0, 1)]
    whole = graph.activities.filter(pl.col("kind") == "collective")
    assert whole.get_column("name").to_list() == ["all_reduce"]
    for found in (members, whole):
        assert found.get_column("size_bytes").unique().to_list() == [1024]
        assert found.get_column("collective").unique().to_list() == [0]
        assert found.get_column("group").null_count() == 0


def test_an_execution_trace_that_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    scene = Scene()
    scene.thread().run("aten::mm", 1_000)
    write_ranks(tmp_path, [scene])
    (tmp_path / "et_trace_0.json").write_text("{}")
    graph = dependency_graph(tracebraid.open(tmp_path))
    assert graph.activities.get_column("node_id").null_count() == graph.activities.height
    assert FindingCode.GRAPH_WITHOUT_NODES in {finding.code for finding in graph.findings}
