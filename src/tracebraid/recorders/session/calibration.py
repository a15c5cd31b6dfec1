"""Costs of recording by kind of event: short loops with and without the recorders, once a window is written."""

from __future__ import annotations

import ctypes
import sys
import tempfile
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter_ns, thread_time_ns
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from tracebraid.model.capture_facts import INPUTS_OF_OP, EventCost
from tracebraid.recorders.backends.kineto import new_profiler
from tracebraid.recorders.needs_torch import torch
from tracebraid.recorders.observer import ExecutionTraceObserver
from tracebraid.recorders.session.settings import Settings

_ROUNDS = 11
"""Repetitions of each loop while it is recorded: enough for a 10th and a 90th percentile."""

_EVENTS = 32
"""Events of a loop of equal ones: a repetition takes some 50 µs."""

_LIMIT_NS = 200_000_000
"""Time after which no further repetition begins; some 50 ms are usual."""

_BARE_ROUNDS = 5
"""Repetitions of each loop without the recorders, of which only the median counts."""

_FEWEST_ROUNDS = 3
"""Repetitions below which nothing is said: a busy machine leaves no time for more."""

_LIST = 32
"""Tensors of the operator that takes a list."""

_TORCH_CPU = (
    Path(torch.__file__).parent / "lib" / f"libtorch_cpu.{'dylib' if sys.platform == 'darwin' else 'so'}"
)

_MARK = "tracebraid calibration"
_OP = "aten::add"

_Loop = Callable[[], object]


def measured_costs(settings: Settings) -> dict[str, Any]:
    """Measure the costs of recording with these settings: JSON of `RecordingCosts`; empty where it is not possible.

    Call where no profiler is open. Only this thread is recorded, by a session of the host alone: CUPTI is left as it
    is, as starting it again crashes programs with CUDA graphs. No random number is drawn, nothing runs on a device.
    """
    if settings.nsys or _is_intercepted() or _is_watched():
        return {}
    # Operators of the program's own modes and default device stay out of it.
    with torch._C.DisableTorchFunction(), torch.no_grad():
        found = _costs_of_ops(settings)
        if found and settings.stacks:
            found |= _costs_of_python(settings)
    return {kind: asdict(cost) for kind, cost in found.items()}


def _is_intercepted() -> bool:
    """Return whether the program's own modes see each operator of this thread."""
    return bool(torch._C._len_torch_dispatch_stack()) or torch.compiler.is_compiling()


def _is_watched() -> bool:
    """Return whether an observer of the program, or a profiler of this thread, sees its operators; True if unknown."""
    try:
        callbacks = ctypes.CDLL(
            str(_TORCH_CPU)
        )._ZN2at12hasCallbacksEv  # at::hasCallbacks(), of no Python name.
    except (OSError, AttributeError):
        return True
    callbacks.restype = ctypes.c_bool
    return bool(callbacks())


def _costs_of_ops(settings: Settings) -> dict[str, EventCost]:
    """Costs of operators and annotations.

    An operator costs most where the one before was another: less of the recorders, of it and of its tensors is in the
    caches then. The interval goes from a loop of one operator to a model of many.
    """
    left, right, out, *several = (_zeros(4) for _ in range(3 + _LIST))
    joined = _zeros(4 * _LIST)
    add, cat, annotation = torch.add, torch.cat, torch.profiler.record_function

    def equal() -> None:
        for _ in repeat(None, _EVENTS):
            add(left, right, out=out)

    def lists() -> None:
        for _ in repeat(None, _EVENTS):
            cat(several, out=joined)

    def ranges() -> None:
        for _ in repeat(None, _EVENTS):
            with annotation(_MARK):
                pass

    measured = _measured(replace(settings, stacks=False), (equal, _model(), lists, ranges))
    if measured is None:
        return {}
    low, high, of_list, of_range = measured
    # Inputs of the list's operator are its tensors, a dimension and a result.
    further = _LIST + 2 - INPUTS_OF_OP
    each = [(cost_ns - median(low.costs_ns)) / further for cost_ns in of_list.costs_ns]
    one, many = low.cost(low.inside), high.cost(low.inside)
    op = replace(many, low_ns=min(one.low_ns, many.low_ns))
    return {"op": op, "tensor": _cost(each, low.inside), "annotation": of_range.cost(_HALF)}


def _zeros(*shape: int) -> Any:
    return torch.zeros(shape, dtype=torch.float32, device="cpu")


def _model() -> _Loop:
    """Some 80 operators, as small models have them."""
    functional = torch.nn.functional
    batch, weight, bias = _zeros(8, 16), _zeros(16, 16), _zeros(16)

    def model() -> object:
        hidden = functional.relu(functional.linear(batch, weight, bias)).view(8, 4, 4).transpose(0, 1)
        scores = torch.softmax(torch.matmul(hidden, hidden.transpose(1, 2)), -1)
        summed = scores.reshape(8, -1).sum(1).add(1).mul_(2)
        normal = functional.layer_norm(batch, (16,), bias, bias)
        half = torch.cat([normal, batch], 1).chunk(2, 1)[0].contiguous()
        return summed, half.mean()

    return model


def _costs_of_python(settings: Settings) -> dict[str, EventCost]:
    def function() -> None:
        pass

    def functions() -> None:
        for _ in repeat(None, _EVENTS):
            function()

    def builtins() -> None:
        for _ in repeat(None, _EVENTS):
            callable(None)

    # Kineto's result has functions only as parts of a tree: they are counted here.
    measured = _measured(settings, (functions, builtins), _EVENTS)
    if measured is None:
        return {}
    return {"python": measured[0].cost(_HALF), "builtin": measured[1].cost(_HALF)}


_HALF = 0.5
"""Share of a cost inside the event's own time, where it is not known."""


class _Measured(Struct, frozen=True):
    """Costs of an event in each repetition, and the share of them inside the event's own time."""

    costs_ns: list[float]
    inside: float

    def cost(self, inside: float) -> EventCost:
        """The cost, with its interval."""
        return _cost(self.costs_ns, inside)


def _cost(costs_ns: list[float], inside: float) -> EventCost:
    tenths = quantiles(costs_ns, n=10, method="inclusive")
    low_ns, median_ns, high_ns = (round(max(0.0, ns), 1) for ns in (tenths[0], median(costs_ns), tenths[-1]))
    return EventCost(low_ns, median_ns, high_ns, round(inside, 3))


def _measured(settings: Settings, loops: tuple[_Loop, ...], events: int = 0) -> list[_Measured] | None:
    """Compare the loops with and without the recorders; None: there was no time for it.

    Args:
        settings: what to record.
        loops: the loops.
        events: events of each; 0: those that Kineto has.
    """
    until_ns = perf_counter_ns() + _LIMIT_NS
    bare_ns = [_times_ns(loop, _BARE_ROUNDS, until_ns) for loop in loops]
    with tempfile.TemporaryDirectory(prefix="tracebraid_calibration_") as folder:
        observer = ExecutionTraceObserver(settings.recorder, finish_at_exit=False)
        observer.register_callback(Path(folder) / "calibration.json")
        try:
            profiler = new_profiler(settings, observer, on_device=False, all_threads=False)
            profiler.start_trace()
            try:
                for number, loop in enumerate(loops):
                    with torch.profiler.record_function(f"{_MARK} {number}"):
                        loop()
                recorded_ns = [_times_ns(loop, _ROUNDS, until_ns) for loop in loops]
            finally:
                profiler.stop_trace()
        finally:
            observer.discard()
    if min(map(len, (*bare_ns, *recorded_ns))) < _FEWEST_ROUNDS:
        return None
    own = [] if events else profiler.profiler.kineto_results.events()
    found = []
    for number, (bare, recorded) in enumerate(zip(bare_ns, recorded_ns, strict=True)):
        inside = _inside(own, f"{_MARK} {number}")
        count = events or len(inside)
        base_ns = median(bare)
        costs_ns = [(time_ns - base_ns) / count for time_ns in recorded]
        durations = [event.duration_ns() for event in inside if event.name() == _OP]
        share = (median(durations) - base_ns / count / 2) / median(costs_ns) if durations else _HALF
        found.append(_Measured(costs_ns, min(1.0, max(0.0, share))))
    return found


def _times_ns(loop: _Loop, rounds: int, until_ns: int) -> list[float]:
    """Processor time of a loop in each repetition, after one that warms up."""
    loop()
    found = []
    for _ in repeat(None, rounds):
        if perf_counter_ns() > until_ns:
            break
        begun_ns = thread_time_ns()
        loop()
        found.append(float(thread_time_ns() - begun_ns))
    return found


def _inside(events: list[Any], mark: str) -> list[Any]:
    """The events within a mark; half of the time of an unrecorded one is taken to lie within itself."""
    (around,) = (event for event in events if event.name() == mark) if events else (None,)
    if around is None:
        return []
    begin, end = around.start_ns(), around.start_ns() + around.duration_ns()
    return [event for event in events if begin <= event.start_ns() < end and event is not around]
