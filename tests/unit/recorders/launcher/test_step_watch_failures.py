"""What fails in the watch's hooks is kept from the program, and what the program raises there is not."""

from __future__ import annotations

import signal
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.optim import Optimizer  # noqa: E402

from tests.callbacks import never  # noqa: E402
from tests.unit.recorders.launcher.watched import call, of_torch  # noqa: E402
from tracebraid.recorders.launcher.step_watch import StepWatch  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def failures() -> list[BaseException]:
    return []


@pytest.mark.parametrize("error", [RuntimeError("x"), SystemExit(3), TypeError("x"), GeneratorExit()])
def test_what_fails_in_our_hooks_stops_the_watch_and_not_the_program(
    module: Any, failures: list[BaseException], error: BaseException
) -> None:
    def fail(counted_by: object) -> None:
        raise error

    class Plain(Optimizer):
        def step(self) -> str:
            return "stepped"

    before = of_torch()
    for act in (lambda: call(module, 2), lambda: Plain([torch.nn.Parameter(torch.ones(1))], {}).step()):
        watch = StepWatch(fail, failures.append)
        watch.start()
        act()
        assert failures == [error]
        assert of_torch() == before
        failures.clear()


@pytest.mark.parametrize("error", [TimeoutError("theirs"), SystemExit(3), KeyboardInterrupt()])
def test_what_a_handler_of_the_program_raises_in_our_hooks_is_the_programs(
    module: Any, error: BaseException
) -> None:
    """As a limit on time by SIGALRM does, at any moment."""

    def handle(number: int, frame: object) -> None:
        raise error

    watch = StepWatch(lambda counted_by: signal.raise_signal(signal.SIGUSR1), never)
    before = signal.signal(signal.SIGUSR1, handle)
    watch.start()
    try:
        with pytest.raises(type(error)) as raised:
            call(module)
        assert raised.value is error
    finally:
        watch.stop()
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("lacks", ["compiler", "optim", "nn"])
def test_a_torch_that_lacks_something_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch, lacks: str) -> None:
    before = of_torch()
    with monkeypatch.context() as patch:
        patch.delattr(torch, lacks)
        with pytest.raises(AttributeError):
            StepWatch(never, never).start()
    assert of_torch() == before
