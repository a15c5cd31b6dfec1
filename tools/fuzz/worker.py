"""The process that asks mutants: started afresh, never forked, as polars and its threads do not survive a fork."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from tools.fuzz.model import Asked, Failure, FailureKind, Outcome, Sample, Seed

__all__ = ["DUMP_SIGNAL", "PRINTED", "SAMPLES", "Begun", "Done", "Task", "serve"]

DUMP_SIGNAL = signal.SIGUSR1
"""Makes the worker write down where it is, even from within C code."""

PRINTED = "printed.txt"
"""Of a worker's folder: what it writes on its standard output and error."""

SAMPLES = "samples.msgpack"
"""Of the folder of a run: the samples of all formats, made once."""


@dataclass(frozen=True)
class Task:
    """What a worker is to ask.

    Args:
        seed: of the mutant.
        files: in place of those of the mutant; None: they are made of the seed.
        calls: the names of those of the mutant's calls that are asked; None: all.
    """

    seed: Seed
    files: Mapping[str, bytes] | None = None
    calls: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Begun:
    """A worker begins a call of this name."""

    call: str


@dataclass(frozen=True)
class Done:
    """A worker has asked all, and holds so much memory now."""

    resident_bytes: int


def serve(connection: Connection, folder: Path, memory_bytes: int) -> None:
    """Ask until the parent closes the connection.

    Args:
        connection: takes a `Task`, gives a `Begun` and an `Asked` for each call and a `Done` at the end.
        folder: this worker's, in the folder of the run.
        memory_bytes: how much more memory than before it a call may take.
    """
    _prepare(folder)
    from tools.fuzz.mutants import mutant_of
    from tools.fuzz.processes import forget_peak, peak_bytes, resident_bytes
    from tools.fuzz.trial import calls_of, try_call

    samples = msgspec.msgpack.decode((folder.parent / SAMPLES).read_bytes(), type=dict[str, list[Sample]])
    while True:
        try:
            task: Task = connection.recv()
        except EOFError:
            return
        mutant = mutant_of(task.seed, samples)
        mutant = mutant if task.files is None else replace(mutant, files=task.files)
        # What polars prints when a mutation panics in it is no answer of a call.
        os.ftruncate(1, 0)
        for call in calls_of(mutant):
            if task.calls is None or call.name in task.calls:
                connection.send(Begun(call.name))
                forget_peak()
                before = resident_bytes(os.getpid())
                asked = try_call(mutant, call, folder / "mutant")
                above = peak_bytes() - before
                connection.send(_printed(_memory(asked, above, memory_bytes), folder))
        connection.send(Done(resident_bytes(os.getpid())))


def _prepare(folder: Path) -> None:
    """A session of its own, output into a file, one thread for polars, warnings as in the tests."""
    os.setsid()
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    folder.mkdir(exist_ok=True)
    (folder / "cwd").mkdir(exist_ok=True)
    (folder / "tmp").mkdir(exist_ok=True)
    printed = os.open(folder / PRINTED, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(printed, stream)
    faulthandler.enable(all_threads=False)
    faulthandler.register(DUMP_SIGNAL, all_threads=False)
    os.chdir(folder / "cwd")
    os.environ |= {"POLARS_MAX_THREADS": "1", "TMPDIR": str(folder / "tmp")}
    warnings.simplefilter("error")


def _end_with(parent: int) -> None:
    """End this process and its children where its parent was killed."""
    while os.getppid() == parent:
        time.sleep(1)
    os.killpg(0, signal.SIGKILL)


def _memory(asked: Asked, above_bytes: int, most_bytes: int) -> Asked:
    """The call, as a failure where its peak of memory was above the limit."""
    if above_bytes <= most_bytes or asked.failure is not None:
        return asked
    message = f"{above_bytes >> 20} MB more than before"
    failure = Failure(FailureKind.MEMORY, asked.call, message, "")
    return replace(asked, outcome=Outcome.FAILED, failure=failure)


def _printed(asked: Asked, folder: Path) -> Asked:
    """The call, as a failure where it wrote past Python's streams or where nobody had asked for output."""
    if not os.fstat(1).st_size:
        return asked
    text = (folder / PRINTED).read_bytes().decode("utf-8", "replace")
    os.ftruncate(1, 0)
    failure = asked.failure or Failure(FailureKind.INVALID_OUTPUT, asked.call, f"printed {text[:400]!r}", "")
    return replace(asked, outcome=Outcome.FAILED, failure=failure)
