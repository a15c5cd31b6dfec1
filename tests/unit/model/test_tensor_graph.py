"""Is a tensor graph computed when it is asked for, once, whoever asks?"""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import tracebraid.importers.execution_trace.tables as tables
from tests.builders import node, tensor
from tests.unit.importers.reading import trace_of
from tracebraid.importers.execution_trace.tensor_graph import tensor_graph
from tracebraid.model.tensor_graph import TensorGraph

NODES = [node(3, "a", 2, [], [tensor(10, 100, [4])]), node(4, "b", 2, [tensor(10, 100, [4])])]


def test_reading_does_not_compute_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(*args: object) -> TensorGraph:
        calls.append(1)
        return tensor_graph(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(tables, "tensor_graph", counted)
    trace = trace_of(tmp_path, NODES)
    assert trace.nodes.height == 4
    assert calls == []
    assert trace.tensor_edges.select("producer", "consumer").rows() == [(3, 4)]
    assert trace.tensors.height == 1
    assert trace.tensor_uses.height == 2
    assert calls == [1]


def test_a_trace_is_pickled_with_its_graph(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, NODES)
    again = pickle.loads(pickle.dumps(trace))
    assert again.tensor_edges.equals(trace.tensor_edges)
    assert again.nodes.equals(trace.nodes)
