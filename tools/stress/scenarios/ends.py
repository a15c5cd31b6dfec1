"""Programs that end in unusual ways, inside of a window or after it."""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import threading
import time
from typing import Any

import torch

from tools.stress.model import Scenario
from tools.stress.run import Run

_CODE = 7


def work(run: Run) -> None:
    """End somewhere in step 6."""
    torch.ones(1)
    how = run.random.choice(
        ["os-exit", "exit", "raise", "thread-exit", "daemon", "atexit", "interrupt", "open", "kill"]
    )
    at = run.random.choice([2, 4, 6, 20])
    print(how, at, flush=True)
    if how == "atexit":
        atexit.register(_run_operators)
    if how == "daemon":
        threading.Thread(target=_go_on, daemon=True).start()
    opened: list[Any] = []
    with run.captured() as step:
        for number in range(12):
            if number == at:
                _end(how, opened)
            step()
    if at == 20:
        _end(how, opened)
    if how == "open":
        globals()["kept"] = opened


def _end(how: str, opened: list[Any]) -> None:
    if how == "os-exit":
        os._exit(_CODE)
    if how == "kill":
        os.kill(os.getpid(), 9)
    if how == "exit":
        sys.exit(_CODE)
    if how == "raise":
        raise ValueError("the program's own")
    if how == "interrupt":
        _thread.interrupt_main()
        time.sleep(0.5)
    if how == "thread-exit":
        thread = threading.Thread(target=lambda: (torch.ones(2), sys.exit(3)))
        thread.start()
        thread.join()
    if how == "open":
        opened.append(torch.profiler.record_function("never left"))
        opened[0].__enter__()


def _go_on() -> None:
    while True:
        torch.ones(8).add_(1)


def _run_operators() -> None:
    print("at the end", torch.arange(4).sum().item(), flush=True)


SCENARIO = Scenario(
    "os._exit, sys.exit, exceptions, Ctrl-C, daemon threads, atexit handlers that run operators",
    work,
    may_lose=True,
    may_leave_parts=True,
    expected_codes=(0, 1, _CODE, -2, -9),
)
