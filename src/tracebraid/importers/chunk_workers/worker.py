"""A process that decodes chunks of traces: tasks come in on standard input, columns go out on a pipe of their own.

Nothing of the caller's `__main__` runs in it. Messages are pickles between two processes of one user, each behind its
length in eight bytes; no content of a file is ever unpickled.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from enum import Enum
from typing import IO, Any

from tracebraid.child_process.start import start_child
from tracebraid.filesystem.local import read_range
from tracebraid.importers.execution_trace.decode import decode_nodes
from tracebraid.importers.json_stream.chunks import Chunk
from tracebraid.importers.kineto.decode import decode_events
from tracebraid.importers.kineto.event_args import SeenKeys

__all__ = ["ChunkKind", "Task", "Worker", "decode_chunk", "serve", "start_worker"]

_SERVE = "tracebraid.importers.chunk_workers.worker:serve"


class ChunkKind(Enum):
    """What the objects of a chunk are, and so which function decodes them."""

    EVENTS = "traceEvents"
    NODES = "nodes"


def decode_chunk(kind: ChunkKind, data: bytes, origin: tuple[int, bytes], seen: SeenKeys) -> Any:
    """The columns of a chunk: `EventColumns` or `NodeColumns`.

    Args:
        kind: what its objects are.
        data: objects with commas between them.
        origin: offset of the first byte in the file, and the first key, see `chunks.ArrayFile`.
        seen: the arguments of the preceding chunks.
    """
    if kind is ChunkKind.NODES:
        return decode_nodes(data, *origin)
    return decode_events(data, *origin, seen)


@dataclass(frozen=True)
class Task:
    """A chunk of a file to decode.

    Args:
        path: of the file, absolute, as the worker's working folder differs; "" where the chunk holds its bytes.
        chunk: the chunk.
        first_key: see `chunks.ArrayFile`.
        kind: what its objects are.
    """

    path: str
    chunk: Chunk
    first_key: bytes
    kind: ChunkKind = ChunkKind.EVENTS


@dataclass
class Worker:
    """A running worker process."""

    process: subprocess.Popen[bytes]

    def give(self, task: Task | None) -> None:
        """Hand over a chunk, or None for the end of work; OSError if the process is gone."""
        _send(self._pipe(self.process.stdin), task)

    def await_done(self) -> None:
        """Wait until one more chunk is decoded; EOFError if the process is gone."""
        if _receive(self._pipe(self.process.stdout)) is not True:
            raise EOFError("the worker process ended")

    def results(self) -> list[Any]:
        """The columns of all chunks, in the order they were given, after the end of work was given."""
        results = _receive(self._pipe(self.process.stdout))
        if not isinstance(results, list):
            raise EOFError("the worker process ended")
        return results

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe is not None, "the process was started with pipes"
        return pipe

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue
        self.process.wait()


def start_worker() -> Worker | None:
    """Start a worker process; None where this interpreter cannot be started again."""
    if not sys.executable:
        return None
    answers, write_end = os.pipe()
    try:
        process = start_child(_SERVE, str(write_end), pass_fds=(write_end,))
    except OSError:
        os.close(answers)
        return None
    finally:
        os.close(write_end)
    process.stdout = os.fdopen(answers, "rb")
    return Worker(process)


def serve(answers_fd: str) -> None:
    """Decode the chunks that come in; acknowledge each; send all columns when there are no more.

    The columns are sent at the end: a reader of large messages would contend with the decoding for the parent's
    interpreter lock.

    Args:
        answers_fd: the file descriptor that answers go to.
    """
    tasks = sys.stdin.buffer
    with os.fdopen(int(answers_fd), "wb") as answers:
        results = []
        seen = SeenKeys()
        while isinstance(task := _receive(tasks), Task):
            chunk = task.chunk
            data = chunk.data if chunk.data is not None else read_range(task.path, chunk.start, chunk.stop)
            results.append(decode_chunk(task.kind, data, (chunk.start, task.first_key), seen))
            _send(answers, True)
        _send(answers, results)


def _send(stream: IO[bytes], message: object) -> None:
    data = pickle.dumps(message, protocol=5)
    stream.write(len(data).to_bytes(8, "little"))
    stream.write(data)
    stream.flush()


def _receive(stream: IO[bytes]) -> object:
    length = stream.read(8)
    if len(length) < 8:
        return None
    size = int.from_bytes(length, "little")
    data = stream.read(size)
    return pickle.loads(data) if len(data) == size else None
