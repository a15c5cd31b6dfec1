"""One operator that takes a second and more, during which threads end, signals come and windows should close."""

from __future__ import annotations

import signal
import threading
import time

import torch

from tools.stress.model import Scenario
from tools.stress.run import Run


def work(run: Run) -> None:
    """Sort on a thread while steps go by, and on this one."""
    came: list[int] = []
    signal.signal(signal.SIGALRM, lambda number, frame: came.append(number))
    size = 20_000_000 if run.is_full else 3_000_000
    data = torch.rand(size)
    long = threading.Thread(target=lambda: data.sort())
    with run.captured() as step:
        for number in range(12):
            if number == run.seed % 5:
                long.start()
            if number == 5:
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                run.note(data.sort().values[::100_000])
            step()
            time.sleep(0.005)
    long.join()
    run.note(came)


SCENARIO = Scenario("an operator of a second, across windows, with a signal inside", work)
