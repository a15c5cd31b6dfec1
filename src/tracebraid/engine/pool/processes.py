"""The worker processes of a pool, as `Workers`: each is started when no other is free."""

from __future__ import annotations

import os
import pickle
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

from tracebraid.child_process.start import start_child
from tracebraid.engine.pool.messages import Begin, Task, receive, send
from tracebraid.engine.pool.worker import READY
from tracebraid.engine.running import event_of
from tracebraid.engine.workers import Advanced, Event, Lost
from tracebraid.errors import EngineError
from tracebraid.model.rank_files import RankFiles

__all__ = ["WorkerProcesses"]

_SERVE = "tracebraid.engine.pool.worker:serve"
_GRACE_S = 0.5
"""How long workers may take to end, and remove the files that they have not finished, before they are killed."""
_POLL_S = 0.01
_INSTEAD = "use the engine in-process"


@dataclass
class WorkerProcesses:
    """Worker processes, each with one rank at a time.

    Args:
        work: the work on a rank, as `work_bytes` has it.
        threads: how many threads each may compute with.
    """

    work: bytes
    threads: int
    idle: list[_Process] = field(default_factory=list)
    busy: dict[int, _Process] = field(default_factory=dict)
    """By the number of the rank."""
    events: list[Event] = field(default_factory=list)
    waiting: list[Task] = field(default_factory=list)
    """Ranks for which no process could be started."""

    def submit(self, number: int, files: RankFiles) -> None:
        """See `Workers`. Where no more processes can be started, the rank waits for one that is there."""
        try:
            process = self._idle_process() or _started(self.threads)
        except EngineError:
            if not self.busy:
                raise
            self.waiting.append(Task(number, files))
            return
        self.busy[number] = process
        try:
            if not process.has_work:
                send(process.tasks, pickle.dumps(Begin(self.work, _working_folder())))
                process.has_work = True
            send(process.tasks, pickle.dumps(Task(number, files)))
        except OSError:
            self._note_end(number)

    def wait(self) -> Sequence[Event]:
        """See `Workers`."""
        while not self.events:
            with selectors.DefaultSelector() as selector:
                for number, process in self.busy.items():
                    selector.register(process.answers, selectors.EVENT_READ, number)
                for key, _ in selector.select():
                    self._receive(key.data)
        events, self.events = self.events, []
        return events

    def close(self) -> None:
        """See `Workers`: what works is asked to end, and killed if it does not."""
        idle, busy = self.idle, list(self.busy.values())
        self.idle, self.busy = [], {}
        for process in busy:
            process.popen.terminate()
        deadline_s = time.monotonic() + _GRACE_S
        while any(process.popen.poll() is None for process in busy) and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
        for process in [*idle, *busy]:
            process.popen.kill()
            process.release()

    def _idle_process(self) -> _Process | None:
        """A worker without work; those that ended meanwhile are dropped."""
        while self.idle:
            process = self.idle.pop()
            if process.popen.poll() is None:
                return process
            process.release()
        return None

    def _receive(self, number: int) -> None:
        """Take a message of the worker that works on a rank."""
        process = self.busy[number]
        data = receive(process.answers)
        if data is None:
            self._note_end(number)
        elif data == READY:
            process.has_started = True
        else:
            event = event_of(data)
            self.events.append(event)
            if not isinstance(event, Advanced):
                self.idle.append(self.busy.pop(number))
                self._submit_waiting()

    def _note_end(self, number: int) -> None:
        """Note that a worker is gone.

        Raises:
            EngineError: it ended by itself before it had started, as the next one would.
        """
        process = self.busy.pop(number)
        code = process.release()
        if code >= 0 and not process.has_started:
            problem = f"a worker process ended with exit code {code} before it had started"
            raise EngineError(f"{problem}; {_INSTEAD}, or see above what it printed")
        why = (
            f"killed by signal {-code} ({_signal_name(-code)})"
            if code < 0
            else f"gone, with exit code {code}"
        )
        self.events.append(Lost(number, f"its worker was {why}"))
        self._submit_waiting()

    def _submit_waiting(self) -> None:
        if self.waiting:
            task = self.waiting.pop(0)
            self.submit(task.number, task.files)


@dataclass
class _Process:
    """A running worker, with its pipes."""

    popen: subprocess.Popen[bytes]
    tasks: IO[bytes]
    answers: IO[bytes]
    has_work: bool = False
    has_started: bool = False

    def release(self) -> int:
        """Close the pipes of a process that ends or has closed its own, and wait for it; its exit code."""
        for pipe in (self.tasks, self.answers):
            with suppress(OSError):
                pipe.close()
        try:
            return self.popen.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            return self.popen.wait()


def _started(threads: int) -> _Process:
    """A new worker.

    Raises:
        EngineError: it cannot be started.
    """
    if not sys.executable:
        raise EngineError(
            f"this Python does not know its own path, so that it cannot start workers; {_INSTEAD}"
        )
    answers, write_end = os.pipe()
    try:
        environment = {"POLARS_MAX_THREADS": str(threads)}
        popen = start_child(
            _SERVE, str(write_end), pass_fds=(write_end,), environment=environment, own_session=True
        )
    except OSError as error:
        os.close(answers)
        raise EngineError(f"no worker process can be started ({error.strerror}); {_INSTEAD}") from error
    finally:
        os.close(write_end)
    assert popen.stdin is not None, "it is started with a pipe"
    # Unbuffered: a message that lies in a buffer would not wake who waits for the pipe.
    return _Process(popen, popen.stdin, os.fdopen(answers, "rb", buffering=0))


def _working_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - as text, as it is sent
    except OSError:
        return ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
