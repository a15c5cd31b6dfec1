"""This process and thread, as the system has them.

A program may replace `os.getpid` or `threading.get_ident` while it is recorded. A recorder that takes its own process
for another one leaves its session open, with which the process ends by SIGSEGV. So the modules in C are used.
"""

import threading
from _thread import get_ident
from contextlib import suppress
from pathlib import Path
from posix import getpid, getppid, kill

__all__ = ["LockOfProcess", "get_ident", "getpid", "parent", "started_at"]

_ENDED = ("Z", "X")
"""States of a process that has ended, and that its parent has not heard of."""


def started_at(pid: int) -> str:
    """Return when a process was started, in the system's own terms; "" if it has ended.

    A number that the system has given to another process since is told apart by that, on Linux.
    """
    with suppress(OSError, IndexError):
        # The name of a process may have any character.
        of_process = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return "" if of_process[0] in _ENDED else of_process[19]
    with suppress(OSError):
        if not Path("/proc/self").exists():
            kill(pid, 0)
            return "running"
    return ""


def parent() -> str:
    """Return the id of the process that started this one, and when that was started itself."""
    return f"{getppid()} {started_at(getppid())}"


class LockOfProcess:
    """A lock of the threads of this process, which a forked child does not inherit; its owner may enter it again."""

    def __init__(self) -> None:
        self._pid, self._lock = getpid(), threading.RLock()

    def __enter__(self) -> None:
        """Acquire it."""
        if self._pid != getpid():
            self._pid, self._lock = getpid(), threading.RLock()
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        """Release it."""
        self._lock.release()
