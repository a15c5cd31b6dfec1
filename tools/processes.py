"""Facts about processes from Linux's /proc: memory, descendants, sessions, time spent waiting for a processor."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_FORGET_PEAK = "5"
"""Resets the peak when written to `/proc/PID/clear_refs`: proc(5)."""


def start_session(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], cwd: Path
) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own; its output goes to `stdout` and `stderr` in a folder."""
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=cwd,
            env=environment,
            start_new_session=True,
        )


def stop_ignoring_signals() -> None:
    """Restore the default of signals that this process ignores, as in a shell's background: commands inherit that."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def tree(pid: int) -> list[int]:
    """A process and its descendants; none where it is gone."""
    try:
        found = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [pid, *(below for child in found for below in tree(child))]


def living() -> Iterator[tuple[int, int]]:
    """The process id and the session of each process that is no zombie."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError, IndexError, ValueError):
                # The name of the program is in parentheses, and may hold any character.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if fields[0] not in "ZX":
                    yield int(entry.name), int(fields[3])


def resident_bytes(pid: int) -> int:
    """The resident memory of a process; 0 where it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0


def waited_s(pid: int) -> float:
    """Seconds for which a process was ready to run, and had no processor."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def forget_peak() -> None:
    """Restart the peak of this process's memory at its present size."""
    Path("/proc/self/clear_refs").write_text(_FORGET_PEAK)


def peak_bytes() -> int:
    """The peak of this process's memory since `forget_peak`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
