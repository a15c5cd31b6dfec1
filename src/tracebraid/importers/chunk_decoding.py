"""Decode the chunks of one large file in this process and in worker processes."""

from __future__ import annotations

import ctypes
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from tracebraid.child_process.worker import Parent, Worker
from tracebraid.filesystem.local import read_range
from tracebraid.importers.execution_trace.decode import decode_nodes
from tracebraid.importers.json_stream.chunks import ArrayFile, Chunk
from tracebraid.importers.kineto.decode import SeenKeys, decode_events
from tracebraid.model.rank_files import Progress
from tracebraid.native.library import native_library

if TYPE_CHECKING:
    from tracebraid.importers.execution_trace.scan import NodeScan
    from tracebraid.importers.kineto.scan import KinetoScan

CHUNK_BYTES = 1 << 21
"""Chunks of this size keep the decoded objects below a few hundred MB and the cost per chunk small."""

_WORTH_BUILDING_BYTES = 1 << 30
"""JSON that the Python readers take 10 to 18 s for; building the native library takes some 10 s, and it then 2 s."""
_BYTES_PER_PROCESS = 48 << 20
"""A process takes about 0.2 s to start, which it saves from about this size on; see benchmarks/README.md."""
_PROCESSES_AT_MOST = 8
"""An upper bound for memory: each process holds a chunk's objects. Only up to two processes are measured."""
_UNPACKED_RATIO = 12
"""Uncompressed over compressed size, slightly below the 13 to 27 that gzip has with our test traces."""
_QUEUED = 2
"""Chunks that lie at a worker, so that it never waits for this process."""
_SERVE = "tracebraid.importers.chunk_decoding:serve"
_DONE, _NO_MORE = b"", b""
"""The reply to each chunk; the message after the last one, to which the reply is the columns of all."""


class ChunkKind(Enum):
    """Kind of a chunk's objects, which selects the decoder."""

    EVENTS = "traceEvents"
    NODES = "nodes"


class Task(Struct, frozen=True):
    """A chunk of a file to decode.

    Args:
        path: of the file; "" where the chunk holds its bytes.
        chunk: the chunk.
        first_key: see `chunks.ArrayFile`.
        kind: what its objects are.
        label: see `decode_file`.
    """

    path: str
    chunk: Chunk
    first_key: bytes
    kind: ChunkKind
    label: str


def json_bytes_of(file: ArrayFile) -> int:
    """Return the size of a file without compression, as estimated from its size."""
    return file.source.size_bytes * (_UNPACKED_RATIO if file.source.compression is not None else 1)


def worth_processes(file: ArrayFile) -> int:
    """Return how many processes are worth their start for a file of that size on this machine."""
    size = json_bytes_of(file)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, _PROCESSES_AT_MOST, size // _BYTES_PER_PROCESS))


def decode_file(
    file: ArrayFile,
    processes: int,
    progress: Progress | None = None,
    kind: ChunkKind = ChunkKind.EVENTS,
    chunk_bytes: int | None = None,
    label: str = "",
) -> list[Any]:
    """The columns of all chunks, in the order of the file: `EventColumns` or `NodeColumns`.

    With a label, those of the rank whose pids begin with it, in a Kineto trace of several ranks. With the native
    library this process alone reads, and one element may be of several chunks.

    Each process takes the next chunk when it has decoded its last one. This process decodes from the start on,
    while the workers start. `progress` is called now and then, from any thread, with the share of the file that is
    read, 0 to 1.
    """
    work = _Work(file, progress, kind, enumerate(file.chunks(chunk_bytes or CHUNK_BYTES)), label)
    # Of a file of several ranks the Python reader takes one.
    library = None if label else native_library(json_bytes_of(file) >= _WORTH_BUILDING_BYTES)
    if library is not None:
        work.scan_here(library)
    elif processes > 1:
        with ThreadPoolExecutor(processes - 1) as executor:
            futures = [executor.submit(work.run_in_worker) for _ in range(processes - 1)]
            try:
                work.run_here()
            except BaseException:
                work.cancel()
                raise
            for future in futures:
                future.result()
    else:
        work.run_here()
    for index, chunk in work.left_over:
        work.results[index] = work.decode_here(chunk)
    return [work.results[index] for index in sorted(work.results)]


def decode_chunk(
    kind: ChunkKind, data: bytes, origin: tuple[int, bytes], seen: SeenKeys, label: str = ""
) -> Any:
    """The columns of a chunk: `EventColumns` or `NodeColumns`."""
    if kind is ChunkKind.NODES:
        return decode_nodes(data, *origin)
    return decode_events(data, *origin, seen, label)


class _Work(Struct):
    file: ArrayFile
    progress: Progress | None
    kind: ChunkKind
    chunks: Iterator[tuple[int, Chunk]]
    label: str = ""
    results: dict[int, Any] = field(default_factory=dict)
    left_over: list[tuple[int, Chunk]] = field(default_factory=list)
    """Chunks of workers that are gone."""
    workers: list[Worker] = field(default_factory=list)
    is_cancelled: bool = False
    seen: SeenKeys = field(default_factory=SeenKeys)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> tuple[int, Chunk] | None:
        with self.lock:
            task = None if self.is_cancelled else next(self.chunks, None)
            if task is not None and self.progress is not None:
                self.progress(self.file.fraction_done(task[1]))
            return task

    def cancel(self) -> None:
        """End the work, as after Ctrl-C."""
        self.is_cancelled = True
        for worker in list(self.workers):
            worker.kill()

    def decode_here(self, chunk: Chunk) -> Any:
        data = self.file.view(chunk)
        return decode_chunk(self.kind, data, (chunk.start, self.file.first_key), self.seen, self.label)

    def run_here(self) -> None:
        while (task := self.take()) is not None:
            self.results[task[0]] = self.decode_here(task[1])

    def scan_here(self, library: ctypes.CDLL) -> None:
        """Read with the native scanner, and decode the chunks that it gives back.

        It decodes from a call as deep as `run_here` does: how deeply a value may be nested depends on that.
        """
        scan_of, index = _scan_of(self.kind), 0
        scan = scan_of(library)
        while (task := self.take()) is not None:
            index, chunk = task
            if scan.add(self.file.view(chunk)):
                continue
            if scan.chunks:
                self.results[index - 1] = scan.columns()
            self.results[index] = self.decode_here(chunk)
            scan = scan_of(library)
        if scan.chunks:
            self.results[index] = scan.columns()

    def run_in_worker(self) -> None:
        try:
            worker = Worker.start(_SERVE)
        except OSError:
            return
        self.workers.append(worker)
        if self.is_cancelled:
            worker.kill()
        given: list[tuple[int, Chunk]] = []
        try:
            self._feed(worker, given)
            for (index, _), columns in zip(given, pickle.loads(_reply(worker)), strict=True):
                self.results[index] = columns
        except (OSError, EOFError):
            self.left_over += given
        finally:
            worker.close()

    def _feed(self, worker: Worker, given: list[tuple[int, Chunk]]) -> None:
        """Give a worker one chunk after another, until none is left."""
        done = 0
        while True:
            while len(given) - done < _QUEUED and (task := self.take()) is not None:
                given.append(task)
                path = self.file.source.path if task[1].data is None else ""
                described = Task(path, task[1], self.file.first_key, self.kind, self.label)
                worker.send(pickle.dumps(described, protocol=5))
            if len(given) == done:
                worker.send(_NO_MORE)
                return
            _reply(worker)
            done += 1


def _scan_of(kind: ChunkKind) -> Callable[[ctypes.CDLL], KinetoScan | NodeScan]:
    if kind is ChunkKind.NODES:
        from tracebraid.importers.execution_trace.scan import NodeScan

        return NodeScan
    from tracebraid.importers.kineto.scan import KinetoScan

    return KinetoScan


def _reply(worker: Worker) -> bytes:
    reply = worker.receive()
    if reply is None:
        raise EOFError("the worker process ended")
    return reply


def serve(replies_fd: str, folder: str) -> None:
    """Decode in a child the chunks that come in; send all columns when there are no more.

    The columns are sent at the end: a reader of large messages would contend with the decoding for the parent's
    interpreter lock.
    """
    parent = Parent(replies_fd, folder)
    results = []
    seen = SeenKeys()
    while (message := parent.receive()) != _NO_MORE:
        task: Task = pickle.loads(message)
        chunk = task.chunk
        data = chunk.data if chunk.data is not None else read_range(task.path, chunk.start, chunk.stop)
        results.append(decode_chunk(task.kind, data, (chunk.start, task.first_key), seen, task.label))
        parent.reply(_DONE)
    parent.reply(pickle.dumps(results, protocol=5))
