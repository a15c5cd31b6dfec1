"""No process of a session is left, whichever group it is in, neither of a child that is stopped nor of a parent's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import LONG_S, wait_for
from tracebraid.child_process.session import kill_session

# As ninja does: each job is in a group of its own.
LEADER = f"""
import os, subprocess, sys
from tracebraid.child_process.session import end_with
if sys.argv[1:]:
    end_with(int(sys.argv[1]))
jobs = [subprocess.Popen(["sleep", "{LONG_S}"], preexec_fn=os.setpgrp, stdout=subprocess.DEVNULL) for _ in range(2)]
print(*(job.pid for job in jobs), os.getpid(), flush=True)
jobs[0].wait()
"""
PARENT = """
import os, subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1], str(os.getpid())], start_new_session=True)
"""


def is_alive(pid: int) -> bool:
    """Whether a process runs, and is no entry that nobody has asked for yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def started(process: subprocess.Popen[str]) -> list[int]:
    assert process.stdout is not None
    pids = [int(word) for word in process.stdout.readline().split()]
    assert len(pids) == 3
    assert all(is_alive(pid) for pid in pids)
    return pids


@pytest.mark.full
def test_all_groups_of_a_session_are_killed() -> None:
    command = [sys.executable, "-c", LEADER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        pids = started(process)
        kill_session(process.pid)
    assert not any(is_alive(pid) for pid in pids)


@pytest.mark.full
def test_a_session_ends_with_the_process_that_started_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, LEADER], stdout=subprocess.PIPE, text=True
    ) as process:
        pids = started(process)
        os.kill(process.pid, signal.SIGKILL)
        try:
            wait_for(lambda: not any(map(is_alive, pids)))
        finally:
            for pid in filter(is_alive, pids):
                os.kill(pid, signal.SIGKILL)
