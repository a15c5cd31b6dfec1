"""When each backward pass ran."""

from __future__ import annotations

from tests.planted import Scene, Thread
from tracebraid.analysis.memory.allocations import allocations
from tracebraid.analysis.memory.host.passes import passes
from tracebraid.model.step import PROFILER_STEP


def forward_and_backward(host: Thread, autograd: Thread, ops: int = 2) -> tuple[int, int, int]:
    """Starts of forward and backward, and the end of backward, in ns of the scene."""
    host.until(autograd.now)
    host.spend(5)
    begin, forward = host.now, []
    for _ in range(ops):
        with host.op("aten::relu", 10, sequence=host.scene.count("sequence")) as op:
            forward.append(op)
    autograd.until(host.now + 7)
    start = autograd.now
    for op in reversed(forward):
        with autograd.backward("ReluBackward0", op, host, 10):
            pass
        autograd.spend(3)
    host.until(autograd.now)
    return begin, start, autograd.now - 3


def test_a_step_that_accumulates_has_two_passes() -> None:
    scene = Scene()
    host, autograd = scene.thread(), scene.thread("autograd")
    planted = []
    with host.step(1, 10) as step:
        host.run("aten::randn", 10)
        planted += [forward_and_backward(host, autograd) for _ in range(2)]
    linked = scene.linked()
    found = passes(linked, PROFILER_STEP)
    first = linked.timeline.events.filter(event_id=step.event_id).get_column("ts_ns").item() - step.ts
    times = (found.forward_ns - first, found.begin_ns - first, found.end_ns - first)
    assert [tuple(map(int, of_pass)) for of_pass in zip(*times, strict=True)] == planted


def test_what_forward_runs_again_in_backward_ends_no_pass() -> None:
    """A checkpoint: forward ops inside of backward, with a backward of their own."""
    scene = Scene()
    host = scene.thread()
    with host.step(1, 10):
        with host.op("aten::mm", 10, sequence=scene.count("sequence")) as outer:
            pass
        with host.backward("CheckpointFunctionBackward", outer, host, 10):
            with host.op("aten::relu", 10, sequence=scene.count("sequence")) as inner:
                again = host.allocate(64)
                host.spend(10)
            with host.backward("ReluBackward0", inner, host, 10):
                host.release(again)
                host.spend(10)
    linked = scene.linked()
    assert len(passes(linked, PROFILER_STEP).begin_ns) == 1
    assert allocations(linked).get_column("category").to_list() == ["temporaries"]


def test_without_sequence_numbers_a_step_has_one_pass() -> None:
    scene = Scene()
    host = scene.thread()
    for number in (1, 2):
        with host.step(number, 10):
            for _ in range(3):
                host.run("autograd::engine::evaluate_function: MmBackward0", 10)
    assert len(passes(scene.linked(), PROFILER_STEP).begin_ns) == 2


def test_a_trace_without_backward_has_none() -> None:
    scene = Scene()
    scene.thread().run("aten::mm", 10)
    assert len(passes(scene.linked(), PROFILER_STEP).begin_ns) == 0
