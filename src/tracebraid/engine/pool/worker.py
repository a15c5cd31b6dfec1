"""A worker process of the pool: ranks come in on standard input, events go out on a pipe of their own.

Nothing of the caller's `__main__` runs in it. It ends when its standard input does, even in the middle of a rank: when
its parent was killed, nobody wants the answer.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, NoReturn

from tracebraid.engine.pickling import loaded
from tracebraid.engine.pool.messages import Begin, Task, message_of, receive, send
from tracebraid.engine.running import event_bytes, run_rank
from tracebraid.engine.workers import Advanced, Event, Raised
from tracebraid.errors import EngineError

__all__ = ["READY", "serve"]

READY = b""
"""The first message of a worker: it has started."""

_GRACE_S = 0.5
"""How long a worker that is to end may take to remove the files that it has not finished."""

_PROGRESS_EVERY_S = 0.1
"""Of the progress of a rank no more is sent: a bar shows ten states a second."""


def serve(answers_fd: str) -> None:
    """Work on the ranks that come in, one after the other, until standard input ends.

    Args:
        answers_fd: the file descriptor that events go to.
    """
    tasks, answers = _own_pipes(int(answers_fd))
    signal.signal(signal.SIGTERM, _end)
    messages: queue.SimpleQueue[Begin | Task] = queue.SimpleQueue()
    threading.Thread(target=_read_messages, args=(tasks, messages), daemon=True).start()
    outbox = _Outbox(answers)
    outbox.send_bytes(READY)
    begin = messages.get()
    assert isinstance(begin, Begin), "the parent sends this first"
    with suppress(OSError):
        # Nothing is imported from there: the module path has neither the folder nor relative entries.
        os.chdir(begin.folder)
    try:
        work = loaded(begin.work)
    except Exception as error:  # noqa: BLE001 - Unpickling imports what the question names.
        problem = f"the question cannot be loaded in a worker process ({type(error).__name__}: {error})"
        _refuse_all(messages, outbox, EngineError(f"{problem}; use the engine in-process for it"))
    while isinstance(task := messages.get(), Task):
        outbox.send(run_rank(work, task.number, task.files, outbox.progress_of(task.number)))


def _own_pipes(answers_fd: int) -> tuple[IO[bytes], IO[bytes]]:
    """The two pipes, out of reach of what the questions read and print, and of processes that they start."""
    os.set_inheritable(answers_fd, False)
    tasks = os.fdopen(os.dup(0), "rb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    # Standard output is dropped: startup files may print. What a question prints is for people.
    sys.stdout = sys.stderr
    return tasks, os.fdopen(answers_fd, "wb")


def _end(_signal: int, _frame: object) -> NoReturn:
    """End with the handlers that remove unfinished files."""
    raise SystemExit(1)


def _read_messages(tasks: IO[bytes], messages: queue.SimpleQueue[Begin | Task]) -> None:
    """Pass messages on; end the process when there can be no more."""
    while (data := receive(tasks)) is not None:
        messages.put(message_of(data))
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE_S)
    os._exit(1)


def _refuse_all(messages: queue.SimpleQueue[Begin | Task], outbox: _Outbox, error: Exception) -> NoReturn:
    while True:
        task = messages.get()
        assert isinstance(task, Task), "the work comes once"
        outbox.send(Raised(task.number, error))


@dataclass
class _Outbox:
    """The way out, for all threads."""

    answers: IO[bytes]
    lock: threading.Lock = field(default_factory=threading.Lock)

    def send_bytes(self, data: bytes) -> None:
        """Send, or end where nobody reads any more: the parent was killed."""
        with self.lock:
            try:
                send(self.answers, data)
            except BrokenPipeError:
                # What is still buffered goes nowhere: the last flush of the file says nothing.
                nothing = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nothing, self.answers.fileno(), inheritable=False)
                os.close(nothing)
                raise SystemExit(1) from None

    def send(self, event: Event) -> None:
        self.send_bytes(event_bytes(event))

    def progress_of(self, number: int) -> _RankProgress:
        return _RankProgress(self, number)


@dataclass
class _RankProgress:
    """Sends the progress of a rank now and then."""

    outbox: _Outbox
    number: int
    sent_at_s: float = -_PROGRESS_EVERY_S

    def __call__(self, share: float) -> None:
        now_s = time.monotonic()
        if now_s - self.sent_at_s >= _PROGRESS_EVERY_S:
            self.sent_at_s = now_s
            self.outbox.send(Advanced(self.number, share))
