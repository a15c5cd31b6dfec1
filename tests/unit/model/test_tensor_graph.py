"""Is a tensor graph computed when it is asked for, once, whoever asks?"""

from __future__ import annotations

import pickle
import threading
from pathlib import Path

import polars as pl
import pytest

import tracebraid.importers.execution_trace.tables as tables
from tests.builders import node, tensor
from tests.unit.importers.reading import trace_of
from tracebraid.model.tensor_graph import LazyTensorGraph, TensorGraph

NODES = [node(3, "a", 2, [], [tensor(10, 100, [4])]), node(4, "b", 2, [tensor(10, 100, [4])])]


def test_reading_does_not_compute_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    graph_of = tables.tensor_graph

    def counted(*args: object) -> TensorGraph:
        calls.append(1)
        return graph_of(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(tables, "tensor_graph", counted)
    trace = trace_of(tmp_path, NODES)
    assert trace.nodes.height == 4
    assert calls == []
    assert trace.tensor_edges.select("producer", "consumer").rows() == [(3, 4)]
    assert trace.tensors.height == 1
    assert trace.tensor_uses.height == 2
    assert calls == [1]


def test_threads_that_ask_at_once_get_the_same_one() -> None:
    calls: list[int] = []
    started = threading.Barrier(4)

    def compute() -> TensorGraph:
        calls.append(1)
        return TensorGraph(pl.DataFrame(), pl.DataFrame(), pl.DataFrame({"tensor": [len(calls)]}))

    lazy = LazyTensorGraph(compute)
    found: list[TensorGraph] = []

    def ask() -> None:
        started.wait(10)
        found.append(lazy.get())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == [1]
    assert len(found) == 4
    assert all(graph is found[0] for graph in found)


def test_an_error_while_computing_comes_again_and_is_not_kept() -> None:
    answers = iter([ValueError("no"), TensorGraph(pl.DataFrame(), pl.DataFrame(), pl.DataFrame())])

    def compute() -> TensorGraph:
        answer = next(answers)
        if isinstance(answer, ValueError):
            raise answer
        return answer

    lazy = LazyTensorGraph(compute)
    with pytest.raises(ValueError, match="no"):
        lazy.get()
    assert lazy.get().edges.is_empty()


def test_a_trace_is_pickled_with_its_graph(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, NODES)
    again = pickle.loads(pickle.dumps(trace))
    assert again.tensor_edges.equals(trace.tensor_edges)
    assert again.nodes.equals(trace.nodes)
