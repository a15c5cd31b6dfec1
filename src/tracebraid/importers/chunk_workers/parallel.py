"""The chunks of one file, decoded in this process and in worker processes beside it."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracebraid.importers.chunk_workers.worker import ChunkKind, Task, Worker, decode_chunk, start_worker
from tracebraid.importers.json_stream.chunks import ArrayFile, Chunk
from tracebraid.importers.kineto.event_args import SeenKeys
from tracebraid.model.rank_files import Progress

__all__ = ["CHUNK_BYTES", "decode_file", "worth_processes"]

CHUNK_BYTES = 1 << 21
"""Chunks of this size keep the decoded objects below a few hundred MB and the cost per chunk small."""

_BYTES_PER_PROCESS = 48 << 20
"""A process takes about 0.2 s to start, which it saves from about this size on; see benchmarks/README.md."""
_PROCESSES_AT_MOST = 8
"""An upper bound for memory: each process holds a chunk's objects. Only up to two processes are measured."""
_UNPACKED_RATIO = 12
"""Uncompressed over compressed size, slightly below the 13 to 27 that gzip has with our test traces."""


def worth_processes(file: ArrayFile) -> int:
    """How many processes are worth their start for a file of that size on this machine."""
    size = file.source.size_bytes * (_UNPACKED_RATIO if file.source.compression is not None else 1)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, _PROCESSES_AT_MOST, size // _BYTES_PER_PROCESS))


def decode_file(
    file: ArrayFile,
    processes: int,
    progress: Progress | None = None,
    kind: ChunkKind = ChunkKind.EVENTS,
    chunk_bytes: int | None = None,
) -> list[Any]:
    """The columns of all chunks, in the order of the file: `EventColumns` or `NodeColumns`.

    Each process takes the next chunk when it has decoded its last one. This process decodes from the start on,
    while the workers start. `progress` is called now and then, from any thread, with the share of the file that is
    read, 0 to 1.
    """
    work = _Work(file, progress, kind, chunk_bytes or CHUNK_BYTES)
    if processes > 1:
        with ThreadPoolExecutor(processes - 1) as executor:
            futures = [executor.submit(work.run_in_worker) for _ in range(processes - 1)]
            try:
                work.run_here()
            finally:
                work.stop()
            for future in futures:
                future.result()
    else:
        work.run_here()
    for index, chunk in work.left_over:
        work.results[index] = work.decode_here(chunk)
    return [work.results[index] for index in sorted(work.results)]


@dataclass
class _Work:
    file: ArrayFile
    progress: Progress | None
    kind: ChunkKind
    chunk_bytes: int
    results: dict[int, Any] = field(default_factory=dict)
    left_over: list[tuple[int, Chunk]] = field(default_factory=list)
    stopped: bool = False
    seen: SeenKeys = field(default_factory=SeenKeys)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.chunks = enumerate(self.file.chunks(self.chunk_bytes))

    def take(self) -> tuple[int, Chunk] | None:
        with self.lock:
            task = None if self.stopped else next(self.chunks, None)
            if task is not None and self.progress is not None:
                self.progress(self.file.fraction_done(task[1]))
            return task

    def stop(self) -> None:
        """Hand out no more chunks: all are taken, or an error ends the work."""
        self.stopped = True

    def decode_here(self, chunk: Chunk) -> Any:
        data = self.file.view(chunk)
        return decode_chunk(self.kind, data, (chunk.start, self.file.first_key), self.seen)

    def run_here(self) -> None:
        while (task := self.take()) is not None:
            self.results[task[0]] = self.decode_here(task[1])

    def run_in_worker(self) -> None:
        worker = start_worker()
        if worker is None:
            return
        given: list[tuple[int, Chunk]] = []
        try:
            self._feed(worker, given)
            for (index, _), columns in zip(given, worker.results(), strict=True):
                self.results[index] = columns
        except (OSError, EOFError):
            self.left_over += given
        finally:
            worker.close()

    def _feed(self, worker: Worker, given: list[tuple[int, Chunk]]) -> None:
        """Keep two chunks queued at the worker, so that it never waits for this process, until none is left."""
        done = 0
        while True:
            while len(given) - done < 2 and (task := self.take()) is not None:
                given.append(task)
                worker.give(Task(self._path_of(task[1]), task[1], self.file.first_key, self.kind))
            if len(given) == done:
                worker.give(None)
                return
            worker.await_done()
            done += 1

    def _path_of(self, chunk: Chunk) -> str:
        """Where the worker is to read a chunk; "" where it is handed the bytes."""
        return str(Path(self.file.source.path).absolute()) if chunk.data is None else ""
