"""Signals while a capture is active: files first, then what the signal does without us."""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from tests.callbacks import never
from tracebraid.recorders.guard import Guard
from tracebraid.recorders.session.termination import Termination

BOTH = (signal.SIGINT, signal.SIGTERM)
DEFAULTS: list[Callable[[int, FrameType | None], object] | signal.Handlers] = [
    signal.default_int_handler,
    signal.SIG_DFL,
]


def ours(number: int, frame: object) -> None:
    """A handler of the program's own."""


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in BOTH]


@pytest.fixture(autouse=True)
def _as_at_a_start() -> Iterator[None]:
    """Both signals as Python has them at its start, and in the end as pytest has them."""
    before = [signal.signal(number, default) for number, default in zip(BOTH, DEFAULTS, strict=True)]
    yield
    for number, handler in zip(BOTH, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done, in order; no process is killed."""
    done: list[str] = []

    def kill(pid: int, number: int) -> None:
        unhandled = signal.getsignal(number) is signal.SIG_DFL
        done.append(f"killed by {signal.Signals(number).name}" if unhandled and pid == os.getpid() else "?")

    monkeypatch.setattr(os, "kill", kill)
    return done


@pytest.fixture
def termination(log: list[str]) -> Termination:
    watching = Termination(lambda ended_by: log.append(f"finished: {ended_by}"), never)
    watching.watch()
    return watching


# --- which signals ----------------------------------------------------------------------------------


def test_both_signals_are_taken_over_and_given_back(termination: Termination) -> None:
    assert not set(handlers()) & set(DEFAULTS)
    termination.leave()
    assert handlers() == DEFAULTS


def test_a_handler_that_the_program_has_is_left_alone() -> None:
    signal.signal(signal.SIGTERM, ours)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    termination = Termination(never, never)
    termination.watch()
    assert handlers() == [signal.SIG_IGN, ours]
    termination.leave()
    assert handlers() == [signal.SIG_IGN, ours]


def test_a_handler_that_the_program_has_set_since_stays(termination: Termination) -> None:
    signal.signal(signal.SIGTERM, ours)
    termination.leave()
    assert handlers() == [signal.default_int_handler, ours]


def test_a_capture_that_is_not_in_the_main_thread_takes_nothing_over() -> None:
    termination = Termination(never, never)

    def watch_and_leave() -> None:
        termination.watch()
        termination.leave()

    thread = threading.Thread(target=watch_and_leave)
    thread.start()
    thread.join()
    assert handlers() == DEFAULTS


def test_a_signal_during_a_write_on_another_thread_comes_to_the_main_thread_again(
    termination: Termination, log: list[str]
) -> None:
    writes, may_end = threading.Event(), threading.Event()

    def write() -> None:
        with termination.held():
            writes.set()
            may_end.wait()

    thread = threading.Thread(target=write)
    thread.start()
    writes.wait()
    signal.raise_signal(signal.SIGTERM)
    assert log == []
    may_end.set()
    thread.join()
    # It was sent once more, with our handler in place.
    assert log == ["?"]
    signal.raise_signal(signal.SIGTERM)
    assert log == ["?", "finished: SIGTERM", "killed by SIGTERM"]


# --- Ctrl-C -----------------------------------------------------------------------------------------


def test_ctrl_c_is_an_exception_as_ever(termination: Termination, log: list[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert log == []


def test_ctrl_c_is_put_off_while_files_are_half_written(termination: Termination, log: list[str]) -> None:
    def write() -> None:
        with termination.held():
            with termination.held():
                signal.raise_signal(signal.SIGINT)
                log.append("recorders stopped")
            log.append("written")

    with pytest.raises(KeyboardInterrupt):
        write()
    assert log == ["recorders stopped", "written"]


def test_a_second_ctrl_c_is_not_put_off(termination: Termination, log: list[str]) -> None:
    def write() -> None:
        with termination.held():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            log.append("written")

    with pytest.raises(KeyboardInterrupt):
        write()
    assert log == []


def test_what_is_not_interrupted_ends_without_a_word(termination: Termination, log: list[str]) -> None:
    with termination.held():
        log.append("written")
    assert log == ["written"]


def test_an_error_while_writing_goes_on_where_no_signal_came(termination: Termination) -> None:
    with pytest.raises(ValueError, match="boom"), termination.held():
        raise ValueError("boom")


# --- SIGTERM ----------------------------------------------------------------------------------------


def test_a_termination_finishes_the_capture_and_then_ends_the_process(
    termination: Termination, log: list[str]
) -> None:
    signal.raise_signal(signal.SIGTERM)
    assert log == ["finished: SIGTERM", "killed by SIGTERM"]


def test_a_termination_waits_for_files_that_are_half_written(
    termination: Termination, log: list[str]
) -> None:
    with termination.held():
        signal.raise_signal(signal.SIGTERM)
        log.append("written")
    assert log == ["written", "finished: SIGTERM", "killed by SIGTERM"]


def test_a_termination_while_the_capture_finishes_ends_the_process_after_it(log: list[str]) -> None:
    def finish(ended_by: str) -> None:
        if log:
            return  # it is over already
        with watching.held():
            signal.raise_signal(signal.SIGTERM)
            log.append(f"finished: {ended_by}")

    watching = Termination(finish, never)
    watching.watch()
    finish("end")
    assert log == ["finished: end", "killed by SIGTERM"]


def test_a_capture_that_cannot_be_finished_does_not_keep_the_signal_from_the_program(log: list[str]) -> None:
    def fail(ended_by: str) -> None:
        raise RuntimeError(ended_by)

    watching = Termination(fail, lambda error: log.append(repr(error)))
    watching.watch()
    signal.raise_signal(signal.SIGTERM)
    assert log == ["RuntimeError('SIGTERM')", "killed by SIGTERM"]


# --- What fails in a guarded context is kept from the program, but for what the program's own h ------


def handle(error: BaseException, number: int = 0, frame: object = None) -> None:
    raise error


class Handler:
    """An object that handles signals."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __call__(self, number: int, frame: object) -> None:
        raise self.error

    def method(self, number: int, frame: object) -> None:
        raise self.error


@pytest.fixture(autouse=True)
def _handler_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


class OfNoKind(BaseException):
    """As those of extensions in other languages are."""


@pytest.mark.parametrize("error", [RuntimeError("x"), SystemExit(1), OfNoKind(), RecursionError()])
def test_a_failure_is_kept_and_reported(error: BaseException) -> None:
    seen: list[BaseException] = []
    with Guard(seen.append):
        raise error
    assert seen == [error]


def test_no_failure_is_none() -> None:
    with Guard(never):
        pass


def test_a_report_that_fails_stops_nothing() -> None:
    with Guard(handle):
        raise RuntimeError("x")


def test_ctrl_c_is_the_programs() -> None:
    with pytest.raises(KeyboardInterrupt), Guard(never):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "make",
    [
        lambda error: lambda number, frame: handle(error),
        lambda error: functools.partial(handle, error),
        lambda error: Handler(error),
        lambda error: Handler(error).method,
    ],
    ids=["function", "partial", "object", "method"],
)
def test_what_a_handler_raises_is_the_programs(
    make: Callable[[BaseException], Callable[[int, object], None]],
) -> None:
    error = TimeoutError("theirs")
    signal.signal(signal.SIGUSR1, make(error))
    with pytest.raises(TimeoutError) as raised, Guard(never):
        signal.raise_signal(signal.SIGUSR1)
    assert raised.value is error


def test_what_a_handler_raises_while_a_failure_is_reported_is_the_programs() -> None:
    signal.signal(signal.SIGUSR1, lambda number, frame: handle(TimeoutError("theirs")))
    with pytest.raises(TimeoutError), Guard(lambda error: signal.raise_signal(signal.SIGUSR1)):
        raise RuntimeError("ours")
