"""Scenarios that end in unusual ways: exceptions, exits, signals and crashes."""

from __future__ import annotations

import _thread
import atexit
import ctypes
import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import torch

from tools.stress.model import SCENARIOS, Scenario
from tools.stress.run import Run


def crashes(run: Run) -> None:
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


SCENARIOS["crashes"] = Scenario(
    "SIGSEGV and abort, with faulthandler, on any thread",
    crashes,
    may_lose=True,
    may_leave_parts=True,
    expected_codes=(-11, -6),
)


_CODE = 7


def ends(run: Run) -> None:
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


SCENARIOS["ends"] = Scenario(
    "os._exit, sys.exit, exceptions, Ctrl-C, daemon threads, atexit handlers that run operators",
    ends,
    may_lose=True,
    may_leave_parts=True,
    expected_codes=(0, 1, _CODE, -2, -9),
)


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


def ending_signals(run: Run) -> None:
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


SCENARIOS["ending_signals"] = Scenario(
    "nine signals that end the program, at random moments",
    ending_signals,
    may_lose=True,
    may_leave_parts=True,
    expected_codes=tuple(-number for number in _NUMBERS),
)


_NUMBERS_HANDLED_SIGNALS = (
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTERM,
    signal.SIGCONT,
    signal.SIGWINCH,
)
_EVERY_S = 0.001


def handled_signals(run: Run) -> None:
    """A timer of 1 kHz, and a thread that sends all others."""
    came = dict.fromkeys((*_NUMBERS_HANDLED_SIGNALS, signal.SIGALRM, signal.SIGPROF, signal.SIGCHLD), 0)

    def handle(number: int, frame: FrameType | None) -> None:
        came[signal.Signals(number)] += 1
        torch.ones(2).add(1)

    for number in came:
        signal.signal(number, handle)
    signal.setitimer(signal.ITIMER_REAL, _EVERY_S, _EVERY_S)
    if run.random.random() < 0.5:
        signal.setitimer(signal.ITIMER_PROF, _EVERY_S, _EVERY_S)
    over = threading.Event()
    sender = threading.Thread(target=_send_handled_signals, args=(run.random.random() * 0.01, over))
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


def _send_handled_signals(every_s: float, over: threading.Event) -> None:
    count = 0
    while not over.wait(every_s):
        os.kill(os.getpid(), _NUMBERS_HANDLED_SIGNALS[count % len(_NUMBERS_HANDLED_SIGNALS)])
        count += 1


SCENARIOS["handled_signals"] = Scenario(
    "the program's own handlers of nine signals, a timer of 1 kHz", handled_signals
)


class _Mistaken(torch.autograd.Function):
    """Raises in its backward pass."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        """The same again."""
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        """Raise."""
        gradients[0].add(1)
        raise KeyError("backward")


def raises(run: Run) -> None:
    """Several exceptions in each step, on this thread and on others."""
    causes: list[Callable[[], object]] = [
        _of_operator,
        _of_annotation,
        _of_hook,
        _of_backward,
        _of_module,
        _of_checks,
    ]
    with run.captured() as step:
        for _ in range(12):
            for cause in run.random.sample(causes, 3):
                run.note(_raised_by(cause))
            thread = threading.Thread(target=_raised_by, args=(run.random.choice(causes),))
            thread.start()
            step()
            thread.join()


def _raised_by(cause: Callable[[], object]) -> str:
    try:
        cause()
    except (RuntimeError, KeyError, ValueError, IndexError, TypeError) as error:
        return f"{type(error).__name__} {str(error)[:80]}"
    return "nothing"


def _of_operator() -> None:
    torch.mm(torch.ones(2, 3), torch.ones(2, 3))


def _of_annotation() -> None:
    with torch.profiler.record_function("outer"), torch.profiler.record_function("inner"):
        torch.ones(3)
        raise ValueError("in an annotation")


def _of_hook() -> None:
    value = torch.ones(3, requires_grad=True)

    def fail(gradient: torch.Tensor) -> None:
        gradient.add(1)
        raise ValueError("in a hook")

    value.register_hook(fail)
    (value * 2).sum().backward()


def _of_backward() -> None:
    _Mistaken.apply(torch.ones(3, requires_grad=True)).sum().backward()


def _of_module() -> None:
    # No random numbers: it may run beside a step of training, which draws some.
    layer = torch.nn.utils.skip_init(torch.nn.Linear, 2, 2, bias=False)
    with suppress(ValueError):
        layer.register_forward_hook(lambda *_: (_ for _ in ()).throw(ValueError("forward hook")))
        layer(torch.ones(1, 2))
    layer(torch.ones(1, 3))


def _of_checks() -> None:
    torch.ones(3)[torch.tensor([7])]


SCENARIOS["raises"] = Scenario("exceptions through operators, hooks, annotations and autograd", raises)
