"""The pieces of one file, decoded in this process and in worker processes beside it."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracebraid.importers.chunk_workers.worker import ChunkKind, Task, Worker, decode_chunk, start_worker
from tracebraid.importers.json_stream.chunks import ArrayFile, Piece
from tracebraid.importers.kineto.event_args import SeenKeys
from tracebraid.model.job import Progress

__all__ = ["PIECE_BYTES", "decode_file", "worth_processes"]

PIECE_BYTES = 1 << 21
"""Pieces of this size keep the objects of a piece in a few hundred MB and the per-piece cost small."""

_BYTES_PER_PROCESS = 48 << 20
_PROCESSES_AT_MOST = 8
_GZIP_RATIO = 12


def worth_processes(file: ArrayFile) -> int:
    """How many processes are worth their start for a file of that size on this machine."""
    size = file.source.size_bytes * (_GZIP_RATIO if file.source.compressed else 1)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, _PROCESSES_AT_MOST, size // _BYTES_PER_PROCESS))


def decode_file(
    file: ArrayFile,
    processes: int,
    progress: Progress | None = None,
    kind: ChunkKind = ChunkKind.EVENTS,
    chunk_bytes: int | None = None,
) -> list[Any]:
    """The columns of all pieces, in the order of the file: `EventColumns` or `NodeColumns`.

    Each process takes the next piece when it has done with the last one. This process takes part from the
    first moment, so that a worker's start costs nothing but the worker's own work. `progress` is told, now and
    then and from any thread, how far the file is read, 0 to 1.
    """
    work = _Work(file, progress, kind, chunk_bytes or PIECE_BYTES)
    if processes > 1:
        with ThreadPoolExecutor(processes - 1) as helpers:
            helping = [helpers.submit(work.run_in_worker) for _ in range(processes - 1)]
            try:
                work.run_here()
            finally:
                work.stop()
            for helper in helping:
                helper.result()
    else:
        work.run_here()
    for index, piece in work.left_over:
        work.results[index] = work.decode_here(piece)
    return [work.results[index] for index in sorted(work.results)]


@dataclass
class _Work:
    file: ArrayFile
    progress: Progress | None
    kind: ChunkKind
    chunk_bytes: int
    results: dict[int, Any] = field(default_factory=dict)
    left_over: list[tuple[int, Piece]] = field(default_factory=list)
    stopped: bool = False
    seen: SeenKeys = field(default_factory=SeenKeys)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.pieces = enumerate(self.file.pieces(self.chunk_bytes))

    def take(self) -> tuple[int, Piece] | None:
        with self.lock:
            task = None if self.stopped else next(self.pieces, None)
            if task is not None and self.progress is not None:
                self.progress(self.file.fraction_done(task[1]))
            return task

    def stop(self) -> None:
        """Hand out no more pieces: all are taken, or an error ends the work."""
        self.stopped = True

    def decode_here(self, piece: Piece) -> Any:
        data = self.file.view(piece)
        return decode_chunk(self.kind, data, (piece.start, self.file.first_key), self.seen)

    def run_here(self) -> None:
        while (task := self.take()) is not None:
            self.results[task[0]] = self.decode_here(task[1])

    def run_in_worker(self) -> None:
        worker = start_worker()
        if worker is None:
            return
        given: list[tuple[int, Piece]] = []
        try:
            self._feed(worker, given)
            for (index, _), columns in zip(given, worker.results(), strict=True):
                self.results[index] = columns
        except (OSError, EOFError):
            self.left_over += given
        finally:
            worker.close()

    def _feed(self, worker: Worker, given: list[tuple[int, Piece]]) -> None:
        """Keep two pieces with the worker, so that it never waits for this process, until none is left."""
        done = 0
        while True:
            while len(given) - done < 2 and (task := self.take()) is not None:
                given.append(task)
                path = str(Path(self.file.source.path).absolute())
                worker.give(Task(path, task[1], self.file.first_key, self.kind))
            if len(given) == done:
                worker.give(None)
                return
            worker.await_done()
            done += 1
