"""Signals that end the program, at random moments."""

from __future__ import annotations

import os
import signal
import threading
import time

from tools.stress.model import Scenario
from tools.stress.run import Run

_NUMBERS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGQUIT,
    signal.SIGABRT,
    signal.SIGKILL,
    signal.SIGALRM,
)
_LONGEST_S = 0.6


def work(run: Run) -> None:
    """Train until the signal comes."""
    number = run.random.choice(_NUMBERS)
    delay_s = run.random.random() * _LONGEST_S
    print(number.name, flush=True)
    threading.Thread(target=_send, args=(number, delay_s), daemon=True).start()
    with run.captured() as step:
        while True:
            step()
            time.sleep(0.002)


def _send(number: signal.Signals, delay_s: float) -> None:
    time.sleep(delay_s)
    os.kill(os.getpid(), number)


SCENARIO = Scenario(
    "nine signals that end the program, at random moments",
    work,
    may_lose=True,
    may_leave_parts=True,
    expected_codes=tuple(-number for number in _NUMBERS),
)
