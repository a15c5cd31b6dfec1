"""What a step is in a program that does not tell."""

from __future__ import annotations

import copy
import inspect
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.optim import Optimizer

from tests.callbacks import never
from tests.unit.recorders.launcher.watched import call, of_torch
from tracebraid.recorders.launcher.loops import LoopKind, Loops
from tracebraid.recorders.launcher.step_watch import StepWatch

torch = pytest.importorskip("torch")

from torch.optim import SGD  # noqa: E402

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


@pytest.mark.full
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


def on_a_thread(*actions: Callable[[], object]) -> None:
    """One after the other, all on one further thread."""
    thread = threading.Thread(target=lambda: [action() for action in actions])
    thread.start()
    thread.join()


def test_steps_of_all_threads_count_together(
    optimizer_class: type[Any], module: Any, steps: list[str]
) -> None:
    """As of a server that calls its model on a thread for each request; with an optimizer calls are none."""
    for _ in range(20):
        on_a_thread(lambda: call(module))
    assert steps == ["module"] * 20
    optimizer = optimizer_class()
    optimizer.step()
    on_a_thread(optimizer.step, lambda: call(module, 70))
    optimizer.step()
    assert steps == ["module"] * 20 + ["optimizer"] * 3


def test_where_one_thread_is_recorded_only_the_thread_of_the_first_step_counts(module: Any) -> None:
    steps: list[str] = []
    watch = StepWatch(lambda loop: steps.append(loop.name), never, of_one_thread=True)
    watch.start()
    call(module)
    for _ in range(5):
        on_a_thread(lambda: call(module))
    call(module)
    watch.stop()
    assert steps == ["Sequential"] * 2
    (loop,) = watch.loops.summary()
    assert (loop["steps"], loop["steps_elsewhere"]) == (2, 5)
    assert loop["threads"] > 1


def test_steps_of_several_threads_are_reported_one_at_a_time(module: Any) -> None:
    inside: list[int] = []
    most: list[int] = []
    begun = threading.Barrier(4)

    def on_step(loop: object) -> None:
        inside.append(1)
        most.append(len(inside))
        call(torch.nn.ReLU())  # Python may go on with another thread here.
        inside.pop()

    watch = StepWatch(on_step, never, "module")
    watch.start()

    def call_often() -> None:
        begun.wait()
        call(module, 20)

    threads = [threading.Thread(target=call_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    watch.stop()
    assert set(most) == {1}


# --- backward passes --------------------------------------------------------------------------------


IN_NO_BACKWARD = -1


@pytest.fixture
def passes() -> Iterator[list[int]]:
    """PyTorch's number of the backward pass in which each step was reported."""
    found: list[int] = []
    watch = StepWatch(lambda loop: found.append(torch._C._current_graph_task_id()), never)
    watch.start()
    yield found
    watch.stop()


def stepping_in_hooks(layers: int, optimizers: int) -> Any:
    """A model whose optimizers step as soon as a gradient is there: one for each parameter, or one for all."""

    class Fresh(SGD):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    model = torch.nn.Sequential(*(torch.nn.Linear(3, 3) for _ in range(layers)))
    parameters = list(model.parameters())
    own = [Fresh([one], lr=0.1) for one in parameters][:optimizers]
    for number, parameter in enumerate(parameters):
        parameter.register_post_accumulate_grad_hook(lambda _, n=number: own[n % optimizers].step())
    return model


@pytest.mark.parametrize("optimizers", [1, 4], ids=["one for all", "one each"])
def test_steps_inside_a_backward_pass_are_one_that_ends_with_it(passes: list[int], optimizers: int) -> None:
    model = stepping_in_hooks(2, optimizers)
    for number in range(5):
        model(torch.ones(2, 3)).sum().backward()
        assert passes == [IN_NO_BACKWARD] * (number + 1)


def test_a_step_waits_for_the_outer_of_two_backward_passes(passes: list[int]) -> None:
    model = stepping_in_hooks(1, 1)
    outer = torch.ones(1, requires_grad=True)

    def train(_: object) -> None:
        with torch.enable_grad():
            model(torch.ones(2, 3)).sum().backward()

    outer.register_hook(train)
    (2 * outer).backward()
    torch.autograd.grad(model(torch.ones(2, 3)).sum(), list(model.parameters()))
    assert passes == [IN_NO_BACKWARD]


def test_a_backward_pass_that_raises_ends_its_step_too(passes: list[int]) -> None:
    model = stepping_in_hooks(1, 1)
    raising = torch.ones(3, requires_grad=True)
    raising.register_hook(lambda _: boom())
    with pytest.raises(ValueError, match="boom"):
        model(raising[None]).sum().backward()
    model(torch.ones(2, 3)).sum().backward()
    assert set(passes) == {IN_NO_BACKWARD}


def test_an_edge_waits_for_backward_passes_of_other_threads(watch: StepWatch) -> None:
    """Until the pass is over, and no longer than a second where it waits for this thread."""
    is_in, may_end = threading.Event(), threading.Event()
    tensor = torch.ones(1, requires_grad=True)

    def wait(_: object) -> None:
        is_in.set()
        may_end.wait()

    tensor.register_hook(wait)
    thread = threading.Thread(target=(2 * tensor).backward)
    thread.start()
    is_in.wait()
    waiting = threading.Thread(target=watch.wait_for_backward)
    waiting.start()
    may_end.set()
    thread.join()
    waiting.join()
    watch.wait_for_backward()


# --- modules that are traced ------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_calls_that_record_a_module_are_none(module: Any, watch: StepWatch, steps: list[str]) -> None:
    """`torch.jit.trace` calls it once to record it, and twice to compare; the calls of either count as ever."""
    traced = torch.jit.trace(module, torch.ones(2, 3))
    assert steps == []
    call(traced, 3)
    assert steps == ["module"] * 3
    assert [(loop["name"], loop["steps"]) for loop in watch.loops.summary()] == [("TopLevelTracedModule", 3)]
    call(module)
    assert {loop["name"]: loop["steps"] for loop in watch.loops.summary()}["Sequential"] == 1


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


def our_calls(action: Callable[[], object]) -> int:
    """How many functions of ours an action calls."""
    ours: list[str] = []

    def note(frame: Any, event: str, _: object) -> None:
        if event == "call" and "tracebraid/recorders" in frame.f_code.co_filename:
            ours.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return len(ours)


def of_modules(number: int = 32) -> Any:
    return torch.nn.Sequential(torch.nn.Linear(3, 3), *(torch.nn.Identity() for _ in range(number - 2)))


def test_once_it_settles_a_step_of_an_optimizer_is_counted_and_costs_two_calls(
    watch: StepWatch, optimizer_class: type[Any], steps: list[str]
) -> None:
    optimizer, ours = optimizer_class(), of_torch()
    optimizer.step()
    assert watch.settle()
    assert not set(ours) & set(of_torch())
    assert our_calls(optimizer.step) == 2
    assert steps == ["optimizer"]
    assert [loop["steps"] for loop in watch.loops.summary()] == [2]


def test_once_it_settles_calls_of_the_followed_module_alone_are_counted_until_an_optimizer_steps(
    watch: StepWatch, optimizer_class: type[Any], steps: list[str]
) -> None:
    module, other = of_modules(), torch.nn.Linear(3, 3)
    call(module)
    assert watch.settle()
    assert our_calls(lambda: call(module, 3)) == 2 * 3
    assert our_calls(lambda: call(other, 3)) == 0
    assert [(loop["steps"], loop["counted_to_end"]) for loop in watch.loops.summary()] == [(4, True)]
    assert our_calls(lambda: call(copy.deepcopy(module), 3)) == 3
    call(module.eval())
    assert [loop["steps"] for loop in watch.loops.summary()] == [4]
    assert our_calls(lambda: torch.ones(1, requires_grad=True).backward()) == 0
    optimizer_class().step()
    assert our_calls(lambda: torch.ones(1, requires_grad=True).backward()) > 0
    assert steps == ["module", "optimizer"]


def test_once_it_settles_calls_of_a_small_module_cost_nothing(watch: StepWatch) -> None:
    """Of three layers, a count would be 3 % of the instructions."""
    small = of_modules(31)
    call(small)
    assert not watch.settle()
    assert our_calls(lambda: call(small, 3)) == 0
    assert [(loop["steps"], loop["counted_to_end"]) for loop in watch.loops.summary()] == [(1, False)]


def test_a_step_of_the_class_below_is_part_of_a_step_after_it_settles_too(
    watch: StepWatch, optimizer_class: type[Any], steps: list[str]
) -> None:
    class Above(optimizer_class):
        def step(self) -> object:
            return super().step()

    below, above = optimizer_class(), Above()
    above.step()
    assert watch.settle()
    for optimizer in (above, above, below):
        optimizer.step()
    assert steps == ["optimizer"]
    assert [loop["steps"] for loop in watch.loops.summary()] == [3]


def test_a_module_is_left_as_it_was(watch: StepWatch) -> None:
    module = of_modules()
    members = dict(vars(module))
    call(module)
    assert watch.settle()
    assert vars(module) == members
    # As torch.nn.DataParallel makes replicas.
    replica = module._replicate_for_data_parallel()
    replica.forward = lambda given: "the replica's"
    assert replica(torch.ones(3)) == "the replica's"
    assert watch.loops.summary()[0]["steps"] == 1
    watch.stop()
    assert "_compiled_call_impl" not in vars(torch.nn.Sequential)


def test_calls_of_a_compiled_module_are_counted_no_further(watch: StepWatch) -> None:
    module = of_modules()
    compiled = vars(module)["_compiled_call_impl"] = module._call_impl
    call(module)
    assert not watch.settle()
    call(module)
    assert vars(module)["_compiled_call_impl"] is compiled
    assert watch.loops.summary()[0]["steps"] == 1


def test_calls_of_a_class_with_a_call_of_its_own_are_counted_no_further(watch: StepWatch) -> None:
    class Own(torch.nn.Sequential):  # type: ignore[name-defined]
        def __call__(self, *given: Any) -> Any:
            return super().__call__(*given)

    module = Own(*of_modules())
    call(module)
    assert not watch.settle()
    assert our_calls(lambda: call(module, 3)) == 0


def test_it_does_not_settle_on_modules_without_parameters(watch: StepWatch, steps: list[str]) -> None:
    """A transform of the data may be called often before the model is."""
    call(torch.nn.ReLU())
    assert watch.settle()
    call(torch.nn.Linear(3, 3))
    assert steps == ["module", "module"]


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


@pytest.mark.full
def test_a_profiler_of_stacks_sees_the_module_that_is_called(tmp_path: Path) -> None:
    """In a process of its own: the profiler keeps what it first takes for the call of a module."""
    code = """
import sys
import torch
from tracebraid.recorders.launcher.step_watch import StepWatch
StepWatch(lambda loop: None, lambda error: None).start()
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_stack=True) as profile:
    torch.nn.Linear(2, 2)(torch.ones(1, 2))
profile.export_chrome_trace(sys.argv[1])
"""
    trace = tmp_path / "trace.json"
    done = subprocess.run([sys.executable, "-c", code, trace], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"nn.Module: Linear" in trace.read_bytes()


# --- Which loop of a program is followed -------------------------------------------------------------


class Owner:
    """Stands for an optimizer or a module."""


class Other(Owner):
    """Another class of them."""


def followed(loops: Loops, *steps: tuple[Owner, LoopKind]) -> list[Owner]:
    """The owners of the loop that is followed, of the steps that were steps of it."""
    return [owner for owner, kind in steps if loops.stepped(owner, kind, thread=1) is not None]


def test_a_better_kind_of_loop_takes_over_with_its_first_step() -> None:
    loops, one = Loops(), Owner()
    for kind in LoopKind:
        assert loops.stepped(one, kind, thread=1) is not None
    assert loops.stepped(one, LoopKind.MODULE, thread=1) is None
    assert loops.followed is not None
    assert loops.followed.kind is LoopKind.OPTIMIZER


def test_a_loop_takes_over_where_the_one_before_takes_no_steps_for_long() -> None:
    loops, first, second = Loops(), Owner(), Owner()
    kind = LoopKind.OPTIMIZER
    assert followed(loops, (first, kind), *[(second, kind)] * 40) == [first, *[second] * 24]


def test_loops_that_take_turns_leave_the_first_one_followed() -> None:
    loops, generator, critic = Loops(), Owner(), Other()
    turns = [(generator, LoopKind.OPTIMIZER), *[(critic, LoopKind.OPTIMIZER)] * 5]
    assert followed(loops, *turns * 10) == [generator] * 10


def test_once_all_windows_are_recorded_only_a_better_kind_takes_over() -> None:
    loops, first, second = Loops(), Owner(), Owner()
    loops.stepped(first, LoopKind.MODULE, thread=1)
    loops.has_all_windows = True
    assert followed(loops, *[(second, LoopKind.MODULE)] * 40) == []
    assert followed(loops, (second, LoopKind.TRAINING_MODULE)) == [second]
    assert not loops.has_all_windows


def test_a_loop_whose_owner_is_gone_is_over() -> None:
    loops, first, second = Loops(), Owner(), Owner()
    loops.stepped(first, LoopKind.OPTIMIZER, thread=1)
    del first
    assert followed(loops, (second, LoopKind.OPTIMIZER)) == [second]


@pytest.mark.parametrize(
    ("of_one_thread", "counts"),
    [(False, (60, 60, 0)), (True, (1, 60, 59))],
    ids=["all threads", "one thread"],
)
def test_steps_are_counted_with_their_threads(of_one_thread: bool, counts: tuple[int, int, int]) -> None:
    loops, one = Loops(of_one_thread), Owner()
    for thread in range(60):
        assert (loops.stepped(one, LoopKind.MODULE, thread) is None) == (of_one_thread and thread > 0)
    (loop,) = loops.summary()
    assert (loop["steps"], loop["threads"], loop["steps_elsewhere"]) == counts


def test_the_summary_says_how_long_the_loops_of_a_class_were() -> None:
    loops, kept = Loops(), [Owner() for _ in range(3)]
    for owner in (*kept, Owner(), Owner(), *kept[:1]):
        loops.stepped(owner, LoopKind.MODULE, thread=1)
    assert {loop["objects"] for loop in loops.summary()} == {5}
    assert sorted(loop["longest"] for loop in loops.summary()) == [1, 1, 1, 2]


def test_the_summary_counts_loops_of_objects_that_are_gone() -> None:
    loops, kept = Loops(), Other()
    for _ in range(600):
        loops.stepped(Owner(), LoopKind.MODULE, thread=1, may_follow=False)
    loops.stepped(kept, LoopKind.OPTIMIZER, thread=1)
    assert [(loop["name"], loop["steps"], loop["followed"]) for loop in loops.summary()] == [
        ("Owner", 600, False),
        ("Other", 1, True),
    ]


# --- What fails in the watch's hooks is kept from the program, and what the program raises ther ------


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
