"""What the process pool and its workers write into pipes: bytes behind their length in eight bytes.

They are pickles between two processes of one user; no content of a file is ever unpickled.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import IO

from tracebraid.model.rank_files import RankFiles

__all__ = ["Begin", "Task", "message_of", "receive", "send"]

_LENGTH_BYTES = 8


@dataclass(frozen=True)
class Begin:
    """The first message to a worker.

    Args:
        work: the work on a rank, as `work_bytes` has it.
        folder: the parent's working folder, on which relative paths depend; "" where it was deleted.
    """

    work: bytes
    folder: str


@dataclass(frozen=True)
class Task:
    """A rank to work on.

    Args:
        number: its index in the run.
        files: its files.
    """

    number: int
    files: RankFiles


def message_of(data: bytes) -> Begin | Task:
    """A message to a worker."""
    message = pickle.loads(data)
    assert isinstance(message, Begin | Task), "the parent sends nothing else"
    return message


def send(stream: IO[bytes], data: bytes) -> None:
    """Write a message.

    Raises:
        OSError: the reader is gone.
    """
    stream.write(len(data).to_bytes(_LENGTH_BYTES, "little"))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """The next message; None where the writer is gone, also within a message."""
    length = _whole(stream, _LENGTH_BYTES)
    return None if length is None else _whole(stream, int.from_bytes(length, "little"))


def _whole(stream: IO[bytes], size: int) -> bytes | None:
    """So many bytes; a pipe hands them out in parts."""
    data = bytearray(size)
    view, filled = memoryview(data), 0
    while filled < size:
        count: int | None = stream.readinto(view[filled:])  # type: ignore[attr-defined]
        if not count:
            return None
        filled += count
    return bytes(data)
