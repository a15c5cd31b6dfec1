"""The processes of a session: all that a child started, whichever groups they made, as ninja makes one for each job."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path

from tracebraid import clock

_ROUNDS, _PAUSE_S = 20, 0.01
"""Number of times that processes are listed: a killed one may have started another since."""
_POLL_S = 0.5
_PROCESSES = Path("/proc")


def kill_session(leader: int) -> None:
    """Kill the processes of a session, but not this one."""
    with suppress(ProcessLookupError, PermissionError):
        if leader != os.getpid():
            os.killpg(leader, signal.SIGKILL)
    for _ in range(_ROUNDS):
        members = _members(leader) - {os.getpid()}
        for pid in members:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not members:
            return
        clock.pause(_PAUSE_S)


def end_with(parent: int) -> None:
    """Kill this process, a session leader, and its session once its parent has ended."""

    def watch() -> None:
        while os.getppid() == parent:
            clock.pause(_POLL_S)
        kill_session(os.getpid())
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _members(session: int) -> set[int]:
    """The living processes of a session; none if the system does not list them."""
    found = set()
    with suppress(OSError):
        for entry in _PROCESSES.iterdir():
            if entry.name.isdecimal():
                with suppress(OSError, ValueError):  # It has ended.
                    state, _, _, of_session, *_ = (
                        (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                    )
                    if int(of_session) == session and state != "Z":
                        found.add(int(entry.name))
    return found
