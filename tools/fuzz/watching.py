"""Watches a worker process from outside, with limits on its time and memory."""

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
from tools.fuzz.model import Asked, Failure, FailureKind, Mutant, Outcome
from tools.fuzz.worker import DUMP_SIGNAL, PACKAGE, PRINTED, SAMPLES, Begun, Done, read_samples, serve
from tools.processes import resident_bytes, tree, waited_s

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
    """Limits of a call, whose time counts without waiting for a processor and whose memory counts above the
    process's before; a worker that has grown since it was warm is renewed."""

    time_s: float = 20.0
    memory_bytes: int = 2 << 30
    growth_bytes: int = 512 << 20


@dataclass(frozen=True)
class _Running:
    """A call that runs; "" before the first."""

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
        self.samples = read_samples(folder.parent)
        self._process: SpawnProcess | None = None
        self._connection: Connection
        self._running: _Running
        self._mutants, self._warm_bytes = 0, 0
        self.most_grown_bytes = 0

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def ask(self, mutant: Mutant) -> list[Asked]:
        """Make the calls of a mutant; one that ended the worker, or for which it was ended, is the last."""
        process = self._process or self._start()
        self._begin("")
        found: list[Asked] = []
        try:
            self._connection.send(mutant)
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
        if self._mutants > _WARM_AFTER:
            grown_bytes = done.resident_bytes - self._warm_bytes
            self.most_grown_bytes = max(self.most_grown_bytes, grown_bytes)
            if grown_bytes > self._limits.growth_bytes:
                self._end()

    def _above_limits(self) -> Failure | None:
        """The limit that the running call exceeds; a worker that starts may take longer."""
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
        """The position of a worker now."""
        printed, until = self._folder / PRINTED, time.monotonic() + _DUMP_WITHIN_S
        before = printed.stat().st_size if printed.exists() else 0
        with suppress(ProcessLookupError):
            os.kill(self._pid(), DUMP_SIGNAL)
        while time.monotonic() < until and not (place := _place(self._printed()[before:])):
            time.sleep(_LOOK_EVERY_S)
        return place

    def _died(self) -> Asked:
        """The failure of a worker that ended, with its last words."""
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
