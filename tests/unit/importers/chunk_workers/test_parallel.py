"""Do several processes give what one gives, even where one of them dies?"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

import tracebraid.importers.chunk_workers.parallel as parallel
from tests.builders import complete, flow, kernel, kineto_text, op, write
from tracebraid.importers.chunk_workers.worker import Task, Worker, decode_chunk, start_worker
from tracebraid.importers.json_stream.chunks import open_array
from tracebraid.importers.json_stream.source import Source, open_source
from tracebraid.importers.kineto.reader import read_timeline
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
    monkeypatch.setattr(parallel, "CHUNK_BYTES", 1000)


@pytest.fixture
def with_workers(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Worker | None]], list[Task]]:
    """Install a way to start workers, and have this process wait until a worker was given a chunk."""
    given: list[Task] = []
    was_given = threading.Event()

    def wait_and_decode(*args: Any) -> Any:
        was_given.wait(10)
        was_given.set()
        return decode_chunk(*args)

    def install(start: Callable[[], Worker | None]) -> list[Task]:
        def start_and_watch() -> Worker | None:
            worker = start()
            if worker is None:
                was_given.set()
                return None
            give = worker.give

            def watched(task: Task | None) -> None:
                if task is not None:
                    given.append(task)
                    was_given.set()
                give(task)

            worker.give = watched  # type: ignore[method-assign]
            return worker

        monkeypatch.setattr(parallel, "start_worker", start_and_watch)
        monkeypatch.setattr(parallel, "decode_chunk", wait_and_decode)
        return given

    return install


@dataclass
class Mortal(Worker):
    """A worker that is killed after some chunks, or before it can send its columns."""

    chunks: int = 0

    def await_done(self) -> None:
        if self.chunks == 0:
            self.process.kill()
            self.process.wait()
        self.chunks -= 1
        super().await_done()

    def results(self) -> Any:
        self.process.kill()
        self.process.wait()
        return super().results()


def mortal(chunks: int) -> Worker:
    worker = start_worker()
    assert worker is not None
    return Mortal(worker.process, chunks)


def dead() -> Worker:
    return Worker(
        subprocess.Popen([sys.executable, "-c", "pass"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    )


def assert_same(one: Timeline, other: Timeline) -> None:
    assert one.tables.keys() == other.tables.keys()
    for name, table in one.tables.items():
        assert_frame_equal(table, other.tables[name])
    assert one.findings == other.findings
    assert one.header == other.header


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_two_processes_read_what_one_reads(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    with_workers: Callable[[Callable[[], Worker | None]], list[Task]],
    name: str,
) -> None:
    monkeypatch.setattr(Source, "blocks", partialmethod(Source.blocks, block_bytes=997))
    path = write(tmp_path / name, kineto_text(EVENTS * 2))
    expected = read_timeline(path, processes=1)
    given = with_workers(start_worker)
    assert_same(read_timeline(path, processes=2), expected)
    assert given
    assert expected.events.height == 360
    assert [finding.code for finding in expected.findings] == ["event-duration"]


@pytest.mark.parametrize(
    "start",
    [dead, lambda: mortal(0), lambda: mortal(3), lambda: mortal(-1)],
    ids=["dead", "first", "third", "end"],
)
def test_a_worker_that_dies_loses_no_chunk(
    tmp_path: Path,
    with_workers: Callable[[Callable[[], Worker | None]], list[Task]],
    start: Callable[[], Worker],
) -> None:
    path = write(tmp_path / "t.json", kineto_text(EVENTS))
    expected = read_timeline(path, processes=1)
    given = with_workers(start)
    assert_same(read_timeline(path, processes=2), expected)
    assert given


def test_without_workers_this_process_reads_all(
    tmp_path: Path, with_workers: Callable[[Callable[[], Worker | None]], list[Task]]
) -> None:
    path = write(tmp_path / "t.json", kineto_text(EVENTS))
    expected = read_timeline(path, processes=1)
    given = with_workers(lambda: None)
    assert_same(read_timeline(path, processes=3), expected)
    assert given == []


def test_a_worker_cannot_be_started_without_an_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    assert start_worker() is None
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert start_worker() is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_beside_the_main_thread_reaches_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a progress bar fails: no part of the events may be left out in silence."""
    broke = threading.Event()

    def wait_and_decode(*args: Any) -> Any:
        broke.wait(10)
        broke.set()
        return decode_chunk(*args)

    def progress(_: float) -> None:
        if threading.current_thread() is not threading.main_thread():
            broke.set()
            raise RuntimeError("the bar broke")

    monkeypatch.setattr(parallel, "decode_chunk", wait_and_decode)
    path = write(tmp_path / "t.json", kineto_text(EVENTS))
    with pytest.raises(RuntimeError, match="the bar broke"):
        read_timeline(path, processes=2, progress=progress)


def test_processes_are_worth_their_start_for_large_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(6), raising=False)
    file = open_array(open_source(write(tmp_path / "t.json", kineto_text(EVENTS))))
    assert parallel.worth_processes(file) == 1
    monkeypatch.setattr(Source, "size_bytes", 150 << 20)
    assert parallel.worth_processes(file) == 3
    monkeypatch.setattr(Source, "size_bytes", 60 << 30)
    assert parallel.worth_processes(file) == 6
