"""Sound traces that look unusual: nothing is doubted about them; and their damaged twins, about which it is."""

from __future__ import annotations

import pytest

from tests.planted import Scene, Stream, Thread
from tracebraid.analysis.validity.validity import validity

MS = 1_000_000


def doubts(scene: Scene) -> list[tuple[str | None, str]]:
    return [(step, doubt) for step, doubt in validity(scene.linked()).select("step", "doubt").rows()]


def many_small(host: Thread, stream: Stream, count: int = 12) -> None:
    for _ in range(count):
        with host.op("aten::add"):
            host.launch(stream, "small", 2_000)


# --- a long event whose end something waited for --------------------------------------------------------


def waits_for_checkpoint(synchronizes: bool) -> Scene:
    """In step 3 another rank comes 10 s late to the collective; work queued behind it starts at its end."""
    scene = Scene(0, 2)
    host, compute, communication = scene.thread(), scene.stream(7), scene.stream(20)
    for number in range(1, 5):
        with host.step(number):
            many_small(host, compute)
            host.wait_event(communication, host.record(compute))
            host.collective(communication, 10_000 * MS if number == 3 else 200_000)
            host.wait_event(compute, host.record(communication))
            many_small(host, compute, 1)
            if synchronizes:
                host.synchronize()
    host.synchronize()
    return scene


@pytest.mark.parametrize("synchronizes", [True, False])
def test_a_collective_may_wait_for_as_long_as_a_checkpoint_takes(synchronizes: bool) -> None:
    assert doubts(waits_for_checkpoint(synchronizes)) == []


def one_large(synchronizes: bool, early_ns: int = 0) -> Scene:
    """A trace of one step, with a single large kernel; the host returns from its wait for it `early_ns` too early."""
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    with host.step(1):
        many_small(host, stream)
        with host.op("aten::mm"):
            large = host.launch(stream, "gemm", 100 * MS)
        if synchronizes:
            host.synchronize(stream)
        host.until(large.end - early_ns)
        if early_ns:
            scene.of("cudaStreamSynchronize")[-1].dur -= early_ns
    with host.op("aten::add"):
        host.spend(large.end + MS - host.now)
    return scene


def test_a_single_large_kernel_that_the_host_waits_for_is_sound() -> None:
    assert doubts(one_large(synchronizes=True)) == []


def test_an_event_whose_end_nothing_confirms_is_doubted() -> None:
    dominates = [("ProfilerStep#1", "event-dominates")]
    assert doubts(one_large(synchronizes=False)) == dominates
    assert doubts(one_large(synchronizes=True, early_ns=50 * MS)) == dominates


@pytest.mark.parametrize(
    ("lag_ns", "expected"), [(1_000, []), (40_000, [("ProfilerStep#1", "event-dominates")])]
)
def test_work_that_lay_in_the_queue_and_starts_at_its_end_confirms_it(
    lag_ns: int, expected: list[tuple[str, str]]
) -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    with host.step(1):
        many_small(host, stream)
        large = host.launch(stream, "gemm", 100 * MS)
        host.launch(stream, "small", 2_000, at=large.end + lag_ns)
    with host.op("aten::add"):
        host.spend(large.end + MS - host.now)
    assert doubts(scene) == expected


# --- calls that were lost, and streams of two contexts -------------------------------------------------------


def test_a_step_whose_calls_were_lost_still_has_its_device_events() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    for number in range(1, 6):
        with host.step(number):
            for _ in range(30):
                with host.op("aten::mm"):
                    if number == 3:
                        host.spend(5_000)
                        stream.run("gemm", 10_000, ready=host.now)
                    else:
                        host.launch(stream, "gemm", 10_000)
            host.synchronize()
    assert doubts(scene) == []


@pytest.mark.parametrize(("context", "expected"), [(2, []), (1, ["stream-overlaps"])])
def test_streams_of_two_contexts_may_have_the_same_number(context: int, expected: list[str]) -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    with host.step(1), host.op("aten::mm"):
        first = host.launch(stream, "gemm", 100_000)
        call = host.call("cudaLaunchKernel")
        stream.run("other", 100_000, call=call, at=first.ts + 50_000, args={"context": context})
    assert [doubt for _, doubt in doubts(scene)] == expected


# --- launches whose work had not started when the profiler stopped ------------------------------------------


@pytest.mark.parametrize(("kernel_ns", "expected"), [(10_000, []), (1_000, ["launch-without-work"])])
def test_the_last_launches_may_still_be_queued_when_the_profiler_stops(
    kernel_ns: int, expected: list[str]
) -> None:
    """Without steps. With short kernels the queue was empty when the last calls were made: their work was lost."""
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    for _ in range(200):
        with host.op("aten::mm"):
            host.launch(stream, "gemm", kernel_ns)
    for _ in range(20):
        with host.op("aten::mm"):
            host.call("cudaLaunchKernel")
    assert [doubt for _, doubt in doubts(scene)] == expected


def test_launches_of_a_step_count_even_if_they_were_queued() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    with host.step(1):
        for _ in range(30):
            host.launch(stream, "gemm", 10_000)
        host.call("cudaLaunchKernel")
    assert doubts(scene) == [("ProfilerStep#1", "launch-without-work")]


# --- steps of which a part was not recorded -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("span_ns", "expected"), [(10 * MS, []), (1 * MS, [("ProfilerStep#1", "outlasts-trace")])]
)
def test_a_step_that_goes_on_when_the_profiler_has_stopped_is_doubted(
    span_ns: int, expected: list[tuple[str, str]]
) -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    with host.step(1):
        many_small(host, stream)
        host.spend(10 * MS)
    span = {"ph": "X", "name": "PyTorch Profiler (0)", "cat": "Trace", "ts": 0, "dur": span_ns / 1000}
    scene.raw({**span, "pid": "Spans", "tid": "PyTorch Profiler"})
    assert doubts(scene) == expected
