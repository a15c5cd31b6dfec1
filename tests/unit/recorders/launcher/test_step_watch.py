"""What a step is in a program that does not tell."""

from __future__ import annotations

import copy
import inspect
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.optim import SGD, Optimizer  # noqa: E402

from tests.callbacks import never  # noqa: E402
from tests.unit.recorders.launcher.watched import call, of_torch  # noqa: E402
from tracebraid.recorders.launcher.step_watch import StepWatch  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def steps() -> list[str]:
    """What ended each step."""
    return []


@pytest.fixture
def watch(steps: list[str]) -> Iterator[StepWatch]:
    watch = StepWatch(lambda loop: steps.append(loop.kind.counted_by), never)
    watch.start()
    yield watch
    watch.stop()


@pytest.fixture
def optimizer_class(watch: StepWatch) -> type[Any]:
    """A class of optimizers that was not in use before the watch began."""

    class Plain(Optimizer):
        def __init__(self, inside: Callable[[], object] = lambda: None) -> None:
            super().__init__([torch.nn.Parameter(torch.ones(1))], {})
            self.inside = inside

        def step(self) -> object:
            return self.inside()

    return Plain


def boom() -> None:
    raise ValueError("boom")


# --- optimizers -------------------------------------------------------------------------------------


def test_each_step_of_the_optimizer_is_one(optimizer_class: type[Any], steps: list[str]) -> None:
    optimizer = optimizer_class(lambda: "result")
    assert [optimizer.step() for _ in range(3)] == ["result"] * 3
    assert steps == ["optimizer"] * 3


def test_with_an_optimizer_calls_of_modules_are_none(
    optimizer_class: type[Any], module: Any, steps: list[str]
) -> None:
    optimizer = optimizer_class()
    for _ in range(3):
        call(module, 2)
        optimizer.step()
        call(module)
    assert steps == ["optimizer"] * 3


def test_arguments_of_a_module_may_have_any_name(watch: StepWatch) -> None:
    class Named(torch.nn.Module):  # type: ignore[name-defined]
        def forward(self, **inputs: int) -> dict[str, int]:
            return inputs

    inputs = {"one": 1, "called": 2, "new": 3}
    assert Named()(**inputs) == inputs


def test_a_second_optimizer_counts_nothing(optimizer_class: type[Any], steps: list[str]) -> None:
    first, second = optimizer_class(), optimizer_class()
    for _ in range(3):
        second.step()
        first.step()
    assert steps == ["optimizer"] * 3


def test_an_optimizer_that_takes_the_place_of_the_first_one_counts(
    optimizer_class: type[Any], steps: list[str]
) -> None:
    """As in a program that trains one model after the other; else a window that is open would never end."""
    first, second = optimizer_class(), optimizer_class()
    first.step()
    del first
    second.step()
    assert steps == ["optimizer"] * 2


def test_an_optimizer_that_others_have_come_after_counts_no_more(
    optimizer_class: type[Any], steps: list[str]
) -> None:
    """As where the first model is kept."""
    first, second = optimizer_class(), optimizer_class()
    first.step()
    for _ in range(40):
        second.step()
    assert len(steps) > 20


def test_many_optimizers_that_take_turns_count_once_in_each_round(
    optimizer_class: type[Any], steps: list[str]
) -> None:
    """As where each parameter has one of its own, which steps in the backward pass."""
    optimizers = [optimizer_class() for _ in range(40)]
    for _ in range(5):
        for optimizer in optimizers:
            optimizer.step()
    assert steps == ["optimizer"] * 5


def test_a_step_inside_of_a_step_is_part_of_it(optimizer_class: type[Any], steps: list[str]) -> None:
    inner = optimizer_class()
    outer = optimizer_class(inner.step)
    outer.step()
    outer.step()
    assert steps == ["optimizer"] * 2


def test_a_step_of_a_class_that_calls_the_one_above_is_one(
    optimizer_class: type[Any], steps: list[str]
) -> None:
    class Below(optimizer_class):
        def step(self) -> object:
            super().step()
            return super().step()

    Below().step()
    assert steps == ["optimizer"]


def test_a_module_that_is_called_inside_of_a_step_counts_nothing(
    optimizer_class: type[Any], module: Any, steps: list[str]
) -> None:
    """As closures do."""
    optimizer_class(lambda: call(module, 70)).step()
    assert steps == ["optimizer"]


def test_a_step_that_raises_is_none_and_the_next_one_counts(
    optimizer_class: type[Any], steps: list[str]
) -> None:
    optimizer = optimizer_class(boom)
    with pytest.raises(ValueError, match="boom"):
        optimizer.step()
    optimizer.inside = lambda: None
    optimizer.step()
    assert steps == ["optimizer"]


def test_a_step_counts_when_it_is_over(optimizer_class: type[Any], steps: list[str]) -> None:
    seen: list[int] = []
    optimizer_class(lambda: seen.append(len(steps))).step()
    assert (seen, steps) == ([0], ["optimizer"])


def test_only_the_thread_of_the_first_step_counts(
    optimizer_class: type[Any], module: Any, steps: list[str]
) -> None:
    optimizer = optimizer_class()
    optimizer.step()

    def step_and_call() -> None:
        optimizer.step()
        call(module, 70)

    thread = threading.Thread(target=step_and_call)
    thread.start()
    thread.join()
    optimizer.step()
    assert steps == ["optimizer"] * 2


def test_optimizers_and_schedulers_of_torch_work_as_ever(watch: StepWatch, steps: list[str]) -> None:
    class Fresh(SGD):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    parameter = torch.nn.Parameter(torch.ones(1))
    optimizer = Fresh([parameter], lr=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    for _ in range(2):
        parameter.grad = torch.ones(1)
        optimizer.step()
        scheduler.step()
    assert (parameter.item(), scheduler.get_last_lr()) == (0.25, [0.125])
    assert copy.deepcopy(optimizer).state_dict() == optimizer.state_dict()
    assert steps == ["optimizer"] * 2


# --- modules ----------------------------------------------------------------------------------------


def test_without_an_optimizer_each_call_of_an_outermost_module_is_one(
    watch: StepWatch, module: Any, steps: list[str]
) -> None:
    call(module, 3)
    assert steps == ["module"] * 3


def test_a_call_that_raises_is_none_and_the_next_one_counts(
    watch: StepWatch, module: Any, steps: list[str]
) -> None:
    with pytest.raises(RuntimeError):
        module(torch.ones(2, 5))
    call(module)
    assert steps == ["module"]


def test_calls_count_nothing_while_there_is_an_optimizer_that_has_taken_no_step(
    optimizer_class: type[Any], module: Any, watch: StepWatch, steps: list[str]
) -> None:
    """As in a program that evaluates before it trains, however long."""
    optimizer = optimizer_class()
    call(module, 100)
    assert steps == []
    assert [(loop["name"], loop["steps"]) for loop in watch.loops.summary()] == [("Sequential", 100)]
    del optimizer
    call(module, 2)
    assert steps == ["module"] * 2


@pytest.mark.parametrize(("steps_by", "counted"), [("module", "module"), ("optimizer", "optimizer")])
def test_steps_can_be_forced_to_be_those_of_optimizers_or_of_modules(
    module: Any, steps_by: str, counted: str
) -> None:
    steps: list[str] = []
    watch = StepWatch(lambda loop: steps.append(loop.kind.counted_by), never, steps_by)
    watch.start()

    class Plain(Optimizer):
        def step(self) -> None:
            pass

    optimizer = Plain([torch.nn.Parameter(torch.ones(1))], {})
    for _ in range(3):
        call(module)
        optimizer.step()
    watch.stop()
    assert steps == [counted] * 3


def test_a_module_without_parameters_gives_way_to_one_that_has_some(
    watch: StepWatch, module: Any, steps: list[str]
) -> None:
    """As transforms of the data do, that are called before the model is."""
    call(torch.nn.ReLU(), 3)
    call(module, 2)
    call(torch.nn.ReLU(), 3)
    assert steps == ["module"] * 5


def test_calls_before_the_first_optimizer_count_until_its_first_step(
    optimizer_class: type[Any], module: Any, steps: list[str]
) -> None:
    call(module, 2)
    optimizer = optimizer_class()
    call(module)
    optimizer.step()
    call(module)
    assert steps == ["module"] * 3 + ["optimizer"]


# --- the watch itself -------------------------------------------------------------------------------


def test_a_watch_that_stops_leaves_the_classes_of_torch_as_they_were(module: Any, steps: list[str]) -> None:
    optimizer = torch.optim.Optimizer
    before = of_torch()
    watch = StepWatch(never, never)
    watch.start()
    assert not set(before) & set(of_torch())
    assert inspect.signature(optimizer.__init__) == inspect.signature(before[1])
    watch.stop()
    assert of_torch() == before
    call(module)
    assert steps == []


def test_optimizers_that_were_in_use_count_no_more_once_it_stops(
    watch: StepWatch, optimizer_class: type[Any], steps: list[str]
) -> None:
    optimizer = optimizer_class()
    optimizer.step()
    watch.stop()
    optimizer.step()
    optimizer_class().step()
    assert steps == ["optimizer"]


@pytest.mark.parametrize("stops", [True, False], ids=["stopped", "optimizer"])
def test_what_the_program_wraps_around_the_watch_stays(
    monkeypatch: pytest.MonkeyPatch,
    optimizer_class: type[Any],
    watch: StepWatch,
    module: Any,
    steps: list[str],
    stops: bool,
) -> None:
    calls: list[object] = []
    watched = torch.nn.Module.__call__

    def wrapper(one: Any, *args: Any) -> Any:
        calls.append(one)
        return watched(one, *args)

    with monkeypatch.context() as patch:
        patch.setattr(torch.nn.Module, "__call__", wrapper)
        watch.stop() if stops else optimizer_class().step()
        assert torch.nn.Module.__call__ is wrapper
        steps.clear()
        call(module, 70)
    assert calls.count(module) == 70
    assert steps == []


def test_a_profiler_of_stacks_sees_the_module_that_is_called() -> None:
    """In a process of its own: the profiler keeps what it first takes for the call of a module."""
    code = """
import torch
from tracebraid.recorders.launcher.step_watch import StepWatch
StepWatch(lambda loop: None, lambda error: None).start()
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_stack=True) as profile:
    torch.nn.Linear(2, 2)(torch.ones(1, 2))
print(any("Linear" in event.name for event in profile.events()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr
