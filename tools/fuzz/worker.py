"""Makes the calls upon mutants, in a process that is started afresh: polars and its threads do not survive a fork."""

from __future__ import annotations

import dataclasses
import faulthandler
import os
import random
import shutil
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

import tracebraid
from tools.fuzz.model import Asked, Call, Failure, FailureError, FailureKind, Mutant, Outcome, Sample
from tools.processes import forget_peak, peak_bytes, resident_bytes
from tracebraid.errors import InputError, TracebraidError

PACKAGE = str(Path(tracebraid.__file__).parent)
"""Lines of files in this folder are the places of failures."""
DUMP_SIGNAL = signal.SIGUSR1
"""Makes the worker write its position, even from within C code."""
PRINTED = "printed.txt"
"""The file in a worker's folder with its standard output and error."""
SAMPLES = "samples.msgpack"
"""The file in the folder of a run with the samples of all formats, made once."""


@dataclass(frozen=True)
class Begun:
    """A worker begins a call of this name."""

    call: str


@dataclass(frozen=True)
class Done:
    """A worker has made all calls, and holds so much memory now."""

    resident_bytes: int


def read_samples(folder: Path) -> dict[str, list[Sample]]:
    """The samples of a run, by format."""
    return msgspec.msgpack.decode((folder / SAMPLES).read_bytes(), type=dict[str, list[Sample]])


def serve(connection: Connection, folder: Path, memory_bytes: int) -> None:
    """Take mutants until the parent closes the connection; send a `Begun` and an `Asked` for each call, then `Done`."""
    _prepare(folder)
    from tools.fuzz.formats import format_of
    from tools.fuzz.mutants import files_of

    samples = read_samples(folder.parent)
    while True:
        try:
            mutant: Mutant = connection.recv()
        except EOFError:
            return
        files = files_of(mutant, samples[mutant.format])
        # What polars prints when a mutation panics in it is no answer of a call.
        os.ftruncate(1, 0)
        calls = format_of(mutant.format).all_calls
        for number in mutant.calls:
            connection.send(Begun(calls[number].name))
            forget_peak()
            before = resident_bytes(os.getpid())
            asked = try_call(calls[number], files, folder / "mutant", mutant.seed)
            above = peak_bytes() - before
            connection.send(_printed(_memory(asked, above, memory_bytes), folder))
        connection.send(Done(resident_bytes(os.getpid())))


def lay_out(files: Mapping[str, bytes], folder: Path) -> None:
    """Write files into a folder, which is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def try_call(call: Call, files: Mapping[str, bytes], folder: Path, seed: int) -> Asked:
    """Lay files out and make a call; errors of ours that name a file of the folder are answers."""
    lay_out(files, folder)
    began, failure, message = time.monotonic(), None, ""
    outcome = Outcome.ANSWERED
    try:
        call.ask(folder, random.Random(f"{call.name} {seed}"))
    except TracebraidError as error:
        outcome, message = Outcome.REFUSED, str(error)
        if not (call.names_others or _is_located(error, folder)):
            failure = _failure(FailureKind.UNLOCATED_ERROR, call, error)
    except FailureError as error:
        failure = Failure(error.kind, call.name, str(error), "", traceback.format_exc())
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it is, also a panic of polars, it is what is looked for
        failure = _failure(FailureKind.FOREIGN_EXCEPTION, call, error)
    took_s = time.monotonic() - began
    return Asked(call.name, took_s, Outcome.FAILED if failure else outcome, message, failure)


def _is_located(error: TracebraidError, folder: Path) -> bool:
    return not isinstance(error, InputError) or Path(error.path).is_relative_to(folder)


def _failure(kind: FailureKind, call: Call, error: BaseException) -> Failure:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(PACKAGE)]
    place = f"{ours[-1].filename[len(PACKAGE) + 1 :]}:{ours[-1].lineno}" if ours else ""
    lines = "".join(traceback.format_exception(error))
    return Failure(kind, call.name, f"{type(error).__name__}: {error}", place, lines)


def _prepare(folder: Path) -> None:
    """A session of its own, output into a file, one thread for polars, warnings as in the tests."""
    os.setsid()
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    for path in (folder, folder / "cwd", folder / "tmp"):
        path.mkdir(exist_ok=True)
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
    return dataclasses.replace(asked, outcome=Outcome.FAILED, failure=failure)


def _printed(asked: Asked, folder: Path) -> Asked:
    """The call, as a failure where it wrote past Python's streams or printed unasked."""
    if not os.fstat(1).st_size:
        return asked
    text = (folder / PRINTED).read_bytes().decode("utf-8", "replace")
    os.ftruncate(1, 0)
    failure = asked.failure or Failure(FailureKind.INVALID_OUTPUT, asked.call, f"printed {text[:400]!r}", "")
    return dataclasses.replace(asked, outcome=Outcome.FAILED, failure=failure)
