"""Watches a worker from outside: limits on time and memory, and what is left of one that died."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path

import msgspec

from tools.fuzz.formats import format_of
from tools.fuzz.model import Asked, Failure, FailureKind, Outcome
from tools.fuzz.processes import resident_bytes, tree, waited_s
from tools.fuzz.trial import PACKAGE
from tools.fuzz.worker import DUMP_SIGNAL, PRINTED, SAMPLES, Begun, Done, Task, serve

__all__ = ["Growth", "Limits", "Watched", "write_samples"]

_LOOK_EVERY_S = 0.05
_DUMP_WITHIN_S = 1.0
_END_WITHIN_S = 5.0
_START_WITHIN_S = 120.0
"""A worker imports the package before its first call, and that on a machine that does other work."""
_FRAME = re.compile(rf'File "{re.escape(PACKAGE)}/(.+?)", line (\d+)')
_WARM_AFTER = 200
"""Mutants after which a worker has imported and compiled what it needs: what it takes beyond is growth."""


@dataclass(frozen=True)
class Limits:
    """What a call may take, and a worker.

    Args:
        time_s: of a call, without the time that it waited for a processor.
        memory_bytes: of a call, above what the process held before.
        growth_bytes: a worker that holds so much more than when it was warm is renewed.
    """

    time_s: float = 20.0
    memory_bytes: int = 2 << 30
    growth_bytes: int = 512 << 20


@dataclass(frozen=True)
class Growth:
    """What a worker held after so many mutants, above what it held when it was warm."""

    mutants: int
    grown_bytes: int


@dataclass(frozen=True)
class _Running:
    """A call that runs; "" is what comes before the first."""

    call: str
    began_s: float
    waited_s: float
    before_bytes: int


def write_samples(folder: Path, formats: Sequence[str]) -> None:
    """Make the samples of formats, and write them where the workers of a run find them."""
    made = {}
    for name in formats:
        (folder / "samples" / name).mkdir(parents=True)
        made[name] = list(format_of(name).samples(folder / "samples" / name))
    (folder / SAMPLES).write_bytes(msgspec.msgpack.encode(made))


class Watched:
    """A worker process that is started again where it ended or has grown; a context, for one thread."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder, self._limits = folder, limits
        self._process: SpawnProcess | None = None
        self._connection: Connection
        self._running: _Running
        self._mutants, self._warm_bytes, self._held_bytes = 0, 0, 0
        self.growths: list[Growth] = []

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def ask(self, task: Task) -> list[Asked]:
        """What became of each call of a task; one that ended the worker, or for which it was ended, is the last."""
        process = self._process or self._start()
        self._begin("")
        found: list[Asked] = []
        try:
            self._connection.send(task)
            while True:
                if self._connection.poll(_LOOK_EVERY_S):
                    message = self._connection.recv()
                    if isinstance(message, Done):
                        self._count(message)
                        return found
                    if isinstance(message, Begun):
                        self._begin(message.call)
                    else:
                        found.append(message)
                elif not process.is_alive():
                    return [*found, self._died()]
                elif (failure := self._above_limits()) is not None:
                    self._end()
                    return [*found, self._failed(failure)]
        except (EOFError, OSError):
            return [*found, self._died()]

    def _start(self) -> SpawnProcess:
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        arguments = (theirs, self._folder, self._limits.memory_bytes)
        process = context.Process(target=serve, args=arguments, name=f"fuzz {self._folder.name}")
        process.start()
        theirs.close()
        self._process, self._mutants = process, 0
        return process

    def _begin(self, call: str) -> None:
        pid = self._pid()
        self._running = _Running(call, time.monotonic(), waited_s(pid), resident_bytes(pid))

    def _count(self, done: Done) -> None:
        """End a worker that has grown: the next task starts another."""
        self._mutants += 1
        if self._mutants == _WARM_AFTER:
            self._warm_bytes = done.resident_bytes
        self._held_bytes = done.resident_bytes
        if self._mutants > _WARM_AFTER and self._grown_bytes() > self._limits.growth_bytes:
            self._end()

    def _grown_bytes(self) -> int:
        return self._held_bytes - self._warm_bytes

    def _above_limits(self) -> Failure | None:
        """What the call that runs takes too much of; a worker that starts may take longer."""
        running, pids = self._running, tree(self._pid())
        taken_s = time.monotonic() - running.began_s
        limit_s = self._limits.time_s if running.call else _START_WITHIN_S
        if taken_s > limit_s:
            taken_s -= max([waited_s(pid) for pid in pids], default=0.0) - running.waited_s
            if taken_s > limit_s:
                return Failure(
                    FailureKind.HANG, running.call, f"no answer after {limit_s:g} s", self._dumped()
                )
        above = sum(map(resident_bytes, pids)) - running.before_bytes
        if above > self._limits.memory_bytes:
            message = f"{above >> 20} MB more than before"
            return Failure(FailureKind.MEMORY, running.call, message, self._dumped())
        return None

    def _dumped(self) -> str:
        """The place where a worker is now."""
        printed, until = self._folder / PRINTED, time.monotonic() + _DUMP_WITHIN_S
        before = printed.stat().st_size if printed.exists() else 0
        with suppress(ProcessLookupError):
            os.kill(self._pid(), DUMP_SIGNAL)
        while time.monotonic() < until and not (place := _place(self._printed()[before:])):
            time.sleep(_LOOK_EVERY_S)
        return place

    def _died(self) -> Asked:
        """What the last words of a worker say."""
        assert self._process is not None
        process, call = self._process, self._running.call
        process.join(_END_WITHIN_S)
        code = process.exitcode
        said = self._printed()
        self._end()
        how = f"exit code {code}" if code is None or code >= 0 else signal.Signals(-code).name
        return self._failed(Failure(FailureKind.DIED, call, f"{how}: {said[:400].strip()!r}", _place(said)))

    def _failed(self, failure: Failure) -> Asked:
        took_s = time.monotonic() - self._running.began_s
        return Asked(failure.call, took_s, Outcome.FAILED, failure=failure)

    def _printed(self) -> str:
        printed = self._folder / PRINTED
        return printed.read_bytes().decode("utf-8", "replace") if printed.exists() else ""

    def _pid(self) -> int:
        return (self._process.pid or 0) if self._process is not None else 0

    def _end(self) -> None:
        """Kill the worker, and the processes that it started."""
        if self._process is None:
            return
        if self._mutants > _WARM_AFTER:
            self.growths.append(Growth(self._mutants - _WARM_AFTER, self._grown_bytes()))
        with suppress(ProcessLookupError):
            os.killpg(self._pid(), signal.SIGKILL)
        self._process.kill()
        self._process.join()
        self._connection.close()
        self._process = None


def _place(text: str) -> str:
    """The innermost line of the package in a traceback of faulthandler, which begins with the innermost."""
    found = _FRAME.search(text)
    return f"{found[1]}:{found[2]}" if found else ""
