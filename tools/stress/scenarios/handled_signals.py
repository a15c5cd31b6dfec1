"""Signals of every kind at random moments, which the program's own handlers take."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType

import torch

from tools.stress.model import Scenario
from tools.stress.run import Run

_NUMBERS = (
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTERM,
    signal.SIGCONT,
    signal.SIGWINCH,
)
_EVERY_S = 0.001


def work(run: Run) -> None:
    """A timer of 1 kHz, and a thread that sends all others."""
    came = dict.fromkeys((*_NUMBERS, signal.SIGALRM, signal.SIGPROF, signal.SIGCHLD), 0)

    def handle(number: int, frame: FrameType | None) -> None:
        came[signal.Signals(number)] += 1
        torch.ones(2).add(1)

    for number in came:
        signal.signal(number, handle)
    signal.setitimer(signal.ITIMER_REAL, _EVERY_S, _EVERY_S)
    if run.random.random() < 0.5:
        signal.setitimer(signal.ITIMER_PROF, _EVERY_S, _EVERY_S)
    over = threading.Event()
    sender = threading.Thread(target=_send, args=(run.random.random() * 0.01, over))
    sender.start()
    with run.captured() as step:
        for _ in range(14):
            step()
            time.sleep(0.01)
    over.set()
    sender.join()
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.setitimer(signal.ITIMER_PROF, 0)
    assert came[signal.SIGALRM], "the timer was never seen"
    for number in came:
        assert signal.getsignal(number) is handle, f"the handler of {number.name} was replaced"


def _send(every_s: float, over: threading.Event) -> None:
    count = 0
    while not over.wait(every_s):
        os.kill(os.getpid(), _NUMBERS[count % len(_NUMBERS)])
        count += 1


SCENARIO = Scenario("the program's own handlers of nine signals, a timer of 1 kHz", work)
