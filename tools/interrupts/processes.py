"""Starts a command in a session of its own, and finds the processes that belong to it."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Running", "alive_of", "fork", "start"]

_TOKEN = "INTERRUPTS_TRIAL"
_POLL_S = 0.002
_PACKAGE = "src/tracebraid"
_INTERRUPTED, _RAISED = 130, 70


@dataclass
class Running:
    """A process that was started; its session has its number."""

    pid: int
    token: str
    began_s: float
    returncode: int | None = None

    def wait(self, at_most_s: float) -> bool:
        """Whether it ended within a time."""
        until_s = time.monotonic() + at_most_s
        while self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > until_s:
                return False
            else:
                time.sleep(_POLL_S)
        return True

    def send(self, number: signal.Signals, to_group: bool) -> None:
        """Send a signal; it must not have been waited for."""
        if to_group:
            os.killpg(self.pid, number)
        else:
            os.kill(self.pid, number)


def start(words: tuple[str, ...], folder: Path, token: str) -> Running:
    """`tracebraid WORDS`, which keeps its words and its temporary files in a folder."""
    command = [sys.executable, "-m", "tracebraid", *words]
    environment = _environment(folder, token)
    began_s = time.monotonic()
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
    running = Running(process.pid, token, began_s)
    # It is waited for by its number.
    process.returncode = 0
    return running


def fork(work: Callable[[], None], folder: Path, token: str) -> Running:
    """A forked process that calls a function."""
    for name in ("stdout", "stderr"):
        (folder / name).touch()
    environment = _environment(folder, token)
    began_s = time.monotonic()
    # Otherwise Ctrl-C could lead the child up the stack of this process.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    pid = os.fork()
    if pid == 0:
        status = _INTERRUPTED
        try:
            status = _in_child(work, folder, environment)
        finally:
            os._exit(status)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    # A signal can only be sent to a group that is there.
    _until_session(pid)
    return Running(pid, token, began_s)


def _in_child(work: Callable[[], None], folder: Path, environment: dict[str, str]) -> int:
    os.setsid()
    os.chdir(folder)
    os.environ.update(environment)
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        os.dup2(os.open(folder / name, os.O_WRONLY), descriptor)
    sys.stdout, sys.stderr = (os.fdopen(descriptor, "w", closefd=False) for descriptor in (1, 2))
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        work()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        # It may come before the work has begun.
        said = traceback.format_exc()
        sys.stderr.write(said if _PACKAGE in said else "")
        return _INTERRUPTED
    except BaseException:  # noqa: BLE001 - As at the end of any Python.
        traceback.print_exc()
        return _RAISED
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # As the end of Python does, which closes generators that an exception holds.
        gc.collect()
    return 0


def alive_of(running: Running) -> list[int]:
    """The processes of its session, and those that have its environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            session, state = int(fields[3]), fields[0]
            marked = f"{_TOKEN}={running.token}\0".encode() in (entry / "environ").read_bytes()
        except (OSError, IndexError, ValueError):
            continue
        if (session == running.pid or marked) and state not in "ZX":
            found.append(int(entry.name))
    return found


def _environment(folder: Path, token: str) -> dict[str, str]:
    (folder / "tmp").mkdir(exist_ok=True)
    return {
        **os.environ,
        _TOKEN: token,
        "TMPDIR": str(folder / "tmp"),
        "OMP_NUM_THREADS": "1",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        "PYTHONWARNINGS": "ignore",
    }


def _until_session(pid: int) -> None:
    while True:
        try:
            if os.getsid(pid) == pid:
                return
        except ProcessLookupError:
            return
        time.sleep(0)
