"""What fails in a guarded context is kept from the program, but for what the program's own handlers raise."""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.callbacks import never
from tracebraid.recorders.guard import Guard


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
