"""Do several processes read of an Execution Trace what one reads?"""

from __future__ import annotations

from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

import tracebraid.importers.chunk_workers.parallel as parallel
import tracebraid.importers.execution_trace.reader as reader
from tests.builders import et_text, node, process_node, tensor, thread_node, write
from tracebraid.importers.chunk_workers.worker import Task, Worker, start_worker
from tracebraid.importers.execution_trace.reader import read_execution_trace

TABLES = ("nodes", "values", "tensors", "tensor_uses", "tensor_edges", "collectives", "extra_attrs")
NODES = [
    node(
        i,
        f"op {i % 7}",
        2,
        [tensor(i, i, [4]), ("GenericList[Tensor(float)]", [tensor(i, i, [4])[1]], [[4]])],
        [tensor(i + 1, i + 1, [4])],
        **({"pg_name": str(i % 3)} if i % 5 == 0 else {"new": i}),
    )
    for i in range(3, 200)
]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """The chunks that workers were given; this process takes none before a worker has one."""
    monkeypatch.setattr(reader, "_CHUNK_BYTES", 2000)
    tasks: list[Task] = []
    worker = start_worker()
    assert worker is not None
    give = worker.give

    def watched(task: Task | None) -> None:
        if task is not None:
            tasks.append(task)
        give(task)

    worker.give = watched  # type: ignore[method-assign]
    monkeypatch.setattr(parallel, "start_worker", lambda: worker)
    return tasks


def in_workers_first(monkeypatch: pytest.MonkeyPatch, given: list[Task]) -> None:
    """Leave all chunks to the worker."""
    monkeypatch.setattr(parallel._Work, "run_here", lambda self: None)
    monkeypatch.setattr(parallel._Work, "stop", lambda self: None)


@pytest.mark.parametrize("name", ["et.json", "et.json.gz"])
@pytest.mark.parametrize("repeated", [False, True])
def test_two_processes_read_what_one_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[Task], name: str, repeated: bool
) -> None:
    nodes = [process_node(), thread_node(), *NODES, *([{**NODES[4], "name": "again"}] if repeated else [])]
    text = et_text(nodes).replace('"op 3"', '"op "quoted" 3"', 1)
    path = write(tmp_path / name, text)
    expected = read_execution_trace(path, processes=1)
    in_workers_first(monkeypatch, given)
    found = read_execution_trace(path, processes=2)
    assert given
    for table in TABLES:
        assert_frame_equal(getattr(found, table), getattr(expected, table))
    assert found.findings == expected.findings
    assert found.nodes.height == len(NODES) + 2
    codes = [finding.code for finding in found.findings]
    assert codes == ["node-mended", *(["duplicate-id"] if repeated else [])]


def test_a_worker_that_dies_loses_no_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[Task]
) -> None:
    path = write(tmp_path / "et.json", et_text([process_node(), thread_node(), *NODES]))
    expected = read_execution_trace(path, processes=1)

    def results(self: Worker) -> list[object]:
        raise EOFError

    monkeypatch.setattr(Worker, "results", results)
    in_workers_first(monkeypatch, given)
    assert_frame_equal(read_execution_trace(path, processes=2).nodes, expected.nodes)
    assert given


def test_progress_comes_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_CHUNK_BYTES", 2000)
    path = write(tmp_path / "et.json", et_text([process_node(), thread_node(), *NODES]))
    done: list[float] = []
    read_execution_trace(path, processes=1, progress=done.append)
    assert done == sorted(done)
    assert done[-1] > 0.9
