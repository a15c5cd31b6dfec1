"""Exported graphs of ops: all ranks in one file, or the part that is asked for."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import tracebraid
from tests.planted import Scene, write_ranks
from tracebraid.analysis.op_graph import op_graph
from tracebraid.api.exports import export as op_graphs
from tracebraid.errors import ArgumentError, InputError

ID = "{http://graphml.graphdrawing.org/xmlns}node"


def scene(rank: int) -> Scene:
    found = Scene(rank=rank, world_size=2)
    host, stream = found.thread(), found.stream()
    for number in (1, 2):
        with host.step(number), host.op("aten::linear"):
            host.launch(stream, f"gemm_{number}", 1_000)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_ranks(tmp_path_factory.mktemp("graphs"), [scene(0), scene(1)])


def ids(path: Path) -> Sequence[str | None]:
    return [node.get("id") for node in ET.fromstring(path.read_bytes()).iter(ID)]


def test_the_graph_of_all_ranks_has_every_node_once(folder: Path, tmp_path: Path) -> None:
    job = tracebraid.open(folder)
    target = tmp_path / "ops.graphml"
    done = tracebraid.export(job, target, "graphml")
    expected = [
        f"r{rank}e{event}" for rank in job.ranks for event in op_graph(job[rank]).nodes.get_column("event_id")
    ]
    assert ids(target) == expected
    assert done.rows == len(expected)


def test_compressed_where_the_name_says_so(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "ops.dot.gz"
    tracebraid.export(tracebraid.open(folder), target, "dot", tracebraid.ExportOptions(rank=1, step="1"))
    text = gzip.decompress(target.read_bytes()).decode()
    assert text.startswith("digraph")
    assert "gemm_1" in text
    assert "gemm_2" not in text


def test_a_part_of_it(folder: Path, tmp_path: Path) -> None:
    job = tracebraid.open(folder)
    tracebraid.export(job, tmp_path / "a.graphml", "graphml", tracebraid.ExportOptions(near="gemm_2"))
    tracebraid.export(job, tmp_path / "b.graphml", "graphml", tracebraid.ExportOptions(top=1))
    assert len(ids(tmp_path / "a.graphml")) == 2 * len(["ProfilerStep#2", "aten::linear", "gemm_2"])
    assert len(ids(tmp_path / "b.graphml")) == 2 * len(["ProfilerStep#1", "aten::linear", "gemm_1"])


def test_what_is_not_there_is_refused(folder: Path, tmp_path: Path) -> None:
    job = tracebraid.open(folder)
    for options in (tracebraid.ExportOptions(near="none"), tracebraid.ExportOptions(step="9")):
        with pytest.raises(ArgumentError):
            tracebraid.export(job, tmp_path / "ops.dot", "dot", options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("part", [{"top": 3}, {"near": "aten::linear"}])
def test_other_formats_have_no_part_of_it(folder: Path, tmp_path: Path, part: dict[str, Any]) -> None:
    options = tracebraid.ExportOptions(**part)
    with pytest.raises(ArgumentError):
        tracebraid.export(tracebraid.open(folder), tmp_path / "out.json", "chrome", options)
    assert list(tmp_path.iterdir()) == []


def test_too_many_nodes_are_refused(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_graphs, "MOST_NODES", 7)
    job = tracebraid.open(folder)
    with pytest.raises(ArgumentError):
        tracebraid.export(job, tmp_path / "ops.dot", "dot")
    tracebraid.export(job, tmp_path / "ops.dot", "dot", tracebraid.ExportOptions(rank=0))


def test_a_trace_without_ops_is_refused(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    job = tracebraid.open(write_ranks(tmp_path / "traces", [Scene(devices=())]))
    with pytest.raises(InputError):
        tracebraid.export(job, tmp_path / "ops.dot", "dot")
