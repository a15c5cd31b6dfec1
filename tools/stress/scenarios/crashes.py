"""Real crashes, with and without a faulthandler: a read of address 0, an abort, on the main thread and on others."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import threading
import time

from tools.stress.model import Scenario
from tools.stress.run import Run


def work(run: Run) -> None:
    """Crash in some step."""
    at, is_elsewhere = run.random.randrange(1, 10), run.random.random() < 0.5
    crash = run.random.choice([lambda: ctypes.string_at(0), os.abort])
    if run.random.random() < 0.7:
        faulthandler.enable()
    with run.captured() as step:
        for number in range(12):
            if number == at and is_elsewhere:
                threading.Thread(target=crash).start()
                time.sleep(30)
            if number == at:
                crash()
            step()


SCENARIO = Scenario(
    "SIGSEGV and abort, with faulthandler, on any thread",
    work,
    may_lose=True,
    may_leave_parts=True,
    expected_codes=(-11, -6),
)
