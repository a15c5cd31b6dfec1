"""Do several processes give what one gives, even where one of them dies?"""

from __future__ import annotations

import os
import sys
import threading
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

import tracebraid.importers.chunk_decoding as chunk_decoding
import tracebraid.importers.execution_trace.reader as reader
from tests.builders import (
    complete,
    et_text,
    flow,
    kernel,
    kineto_text,
    node,
    op,
    process_node,
    tensor,
    thread_node,
    write,
)
from tests.waiting import HANG_S, wait_for
from tracebraid.child_process.worker import Worker
from tracebraid.importers.chunk_decoding import decode_chunk
from tracebraid.importers.execution_trace.reader import read_execution_trace
from tracebraid.importers.json_stream.chunks import open_array
from tracebraid.importers.json_stream.source import Source, open_source
from tracebraid.importers.kineto.reader import read_timeline
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.timeline import Timeline

EVENTS = [
    event
    for i in range(60)
    for event in (
        op(f"op {i % 7}", i, 1, tid=i % 3, External_id=i, odd=i, Input_Dims=[[i]]),
        kernel("k", i, 1, i, stream=i % 5, grid=[i, 1, 1], **{"Collective name": f"c{i % 2}"}),
        complete("wrong", "cuda_runtime", i, -1, pid=1, tid=f"t{i % 4}", args={"correlation": str(i)}),
        flow("s", i, i, tid=i % 3),
        {"ph": "C", "name": "n", "ts": i},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": i % 3, "args": {"name": f"thread {i}"}},
    )
]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many chunks, which the Python reader decodes."""
    monkeypatch.setattr(chunk_decoding, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(chunk_decoding, "native_library", lambda _: None)


def watch_workers(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The chunks that workers were given; this process decodes none before a worker has one, or is not there."""
    chunks: list[bytes] = []
    was_given = threading.Event()
    start, send = Worker.start.__func__, Worker.send  # type: ignore[attr-defined]

    def watched_start(cls: type[Worker], *arguments: Any, **options: Any) -> Worker:
        try:
            worker: Worker = start(cls, *arguments, **options)
        except OSError:
            was_given.set()
            raise
        return worker

    def watched_send(self: Worker, message: bytes) -> None:
        if message:
            chunks.append(message)
        was_given.set()
        send(self, message)

    def wait_and_decode(*args: Any) -> Any:
        was_given.wait(HANG_S)
        was_given.set()
        return decode_chunk(*args)

    monkeypatch.setattr(Worker, "start", classmethod(watched_start))
    monkeypatch.setattr(Worker, "send", watched_send)
    monkeypatch.setattr(chunk_decoding, "decode_chunk", wait_and_decode)
    return chunks


def mortal(replies: int | None) -> type[Worker]:
    """Workers that are gone after some replies; None: before they can send their columns."""

    class Mortal(Worker):
        left = replies
        is_last = False

        def send(self, message: bytes) -> None:
            self.is_last = not message
            super().send(message)

        def receive(self, timeout_s: float | None = None) -> bytes | None:
            if self.is_last or self.left == 0:
                self.kill()
                return None
            self.left = None if self.left is None else self.left - 1
            return super().receive(timeout_s)

    return Mortal


class Dead(Worker):
    """A worker that has ended before its first chunk."""

    @classmethod
    def start(cls, *arguments: Any, **options: Any) -> Worker:
        worker = super().start(*arguments, **options)
        worker.kill()
        return worker


def assert_same(one: Timeline, other: Timeline) -> None:
    assert one.tables.keys() == other.tables.keys()
    for name, table in one.tables.items():
        assert_frame_equal(table, other.tables[name])
    assert one.findings == other.findings
    assert one.header == other.header


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_two_processes_read_what_one_reads(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    monkeypatch.setattr(Source, "blocks", partialmethod(Source.blocks, block_bytes=997))
    path = write(tmp_path / name, kineto_text(EVENTS * 2))
    expected = read_timeline(path, processes=1)
    given = watch_workers(monkeypatch)
    assert_same(read_timeline(path, processes=2), expected)
    assert given
    assert expected.events.height == 360
    assert {finding.code for finding in expected.findings} == {
        FindingCode.EVENT_DURATION,
        FindingCode.OPS_UNKNOWN,
    }


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize(
    "workers",
    [Dead, mortal(0), mortal(3), mortal(None)],
    ids=["dead", "first", "third", "end"],
)
def test_a_worker_that_dies_loses_no_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: type[Worker]
) -> None:
    path = write(tmp_path / "t.json", kineto_text(EVENTS))
    expected = read_timeline(path, processes=1)
    given = watch_workers(monkeypatch)
    monkeypatch.setattr(chunk_decoding, "Worker", workers)
    assert_same(read_timeline(path, processes=2), expected)
    assert given


@pytest.mark.full
@pytest.mark.parametrize("executable", ["", "/no/such/python"])
def test_without_workers_this_process_reads_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executable: str
) -> None:
    path = write(tmp_path / "t.json", kineto_text(EVENTS))
    expected = read_timeline(path, processes=1)
    given = watch_workers(monkeypatch)
    monkeypatch.setattr(sys, "executable", executable)
    assert_same(read_timeline(path, processes=3), expected)
    assert given == []


@pytest.mark.full
def test_an_error_here_ends_the_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Ctrl-C does: workers lead sessions of their own, which it does not reach."""
    given = watch_workers(monkeypatch)
    killed = threading.Event()
    kill = Worker.kill

    def watched_kill(self: Worker) -> None:
        kill(self)
        killed.set()

    def never(self: Worker, timeout_s: float | None = None) -> None:
        assert killed.wait(HANG_S)

    def interrupted(self: object) -> None:
        wait_for(lambda: given)
        raise KeyboardInterrupt

    monkeypatch.setattr(Worker, "kill", watched_kill)
    monkeypatch.setattr(Worker, "receive", never)
    monkeypatch.setattr(chunk_decoding._Work, "run_here", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_timeline(write(tmp_path / "t.json", kineto_text(EVENTS)), processes=2)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_beside_the_main_thread_reaches_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a progress bar fails: no part of the events may be left out in silence."""
    broke = threading.Event()

    def wait_and_decode(*args: Any) -> Any:
        broke.wait(HANG_S)
        broke.set()
        return decode_chunk(*args)

    def progress(_: float) -> None:
        if threading.current_thread() is not threading.main_thread():
            broke.set()
            raise RuntimeError("the bar broke")

    monkeypatch.setattr(chunk_decoding, "decode_chunk", wait_and_decode)
    path = write(tmp_path / "t.json", kineto_text(EVENTS))
    with pytest.raises(RuntimeError, match="the bar broke"):
        read_timeline(path, processes=2, progress=progress)


def test_processes_are_worth_their_start_for_large_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(6), raising=False)
    file = open_array(open_source(write(tmp_path / "t.json", kineto_text(EVENTS))))
    assert chunk_decoding.worth_processes(file) == 1
    monkeypatch.setattr(Source, "size_bytes", 150 << 20)
    assert chunk_decoding.worth_processes(file) == 3
    monkeypatch.setattr(Source, "size_bytes", 60 << 30)
    assert chunk_decoding.worth_processes(file) == 6


# --- Do several processes read of an Execution Trace what one reads ----------------------------------


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
def small_chunks_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_CHUNK_BYTES", 2000)


def in_workers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_decoding._Work, "run_here", lambda self: None)


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.usefixtures("small_chunks_of_nodes")
@pytest.mark.parametrize("name", ["et.json", "et.json.gz"])
@pytest.mark.parametrize("repeated", [False, True])
def test_two_processes_read_of_an_execution_trace_what_one_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, repeated: bool
) -> None:
    nodes = [process_node(), thread_node(), *NODES, *([{**NODES[4], "name": "again"}] if repeated else [])]
    text = et_text(nodes).replace('"op 3"', '"op "quoted" 3"', 1)
    path = write(tmp_path / name, text)
    expected = read_execution_trace(path, processes=1)
    given = watch_workers(monkeypatch)
    in_workers_only(monkeypatch)
    found = read_execution_trace(path, processes=2)
    assert given
    for table in TABLES:
        assert_frame_equal(getattr(found, table), getattr(expected, table))
    assert found.findings == expected.findings
    assert found.nodes.height == len(NODES) + 2
    codes = [finding.code for finding in found.findings]
    assert codes == ["node-mended", *(["duplicate-id"] if repeated else [])]


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.usefixtures("small_chunks_of_nodes")
def test_a_worker_that_dies_loses_no_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "et.json", et_text([process_node(), thread_node(), *NODES]))
    expected = read_execution_trace(path, processes=1)
    given = watch_workers(monkeypatch)
    monkeypatch.setattr(chunk_decoding, "Worker", mortal(None))
    in_workers_only(monkeypatch)
    assert_frame_equal(read_execution_trace(path, processes=2).nodes, expected.nodes)
    assert given


def test_progress_comes_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_CHUNK_BYTES", 2000)
    path = write(tmp_path / "et.json", et_text([process_node(), thread_node(), *NODES]))
    done: list[float] = []
    read_execution_trace(path, processes=1, progress=done.append)
    assert done == sorted(done)
    assert done[-1] > 0.9
