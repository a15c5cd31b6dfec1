"""What a detector says of a delay of the host is no less than what the run is shorter by without it.

Programs of random launches, waits and delays are run twice by the scene's own clocks: as they are, and without what
the detector finds. Only the ends of both runs are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracebraid
from tests.planted import Copy, Scene, Stream, Thread
from tracebraid.analysis.antipatterns.catalog import rank_detectors
from tracebraid.analysis.time.idle.idle_parts import MACRO_NS

_SHORT_NS, _LONG_NS = 50_000, 3_000_000
_CALLS_NS = 20_000
"""What the calls of a delay and of the launches around it take beside it."""
STREAMS = ((0, 7), (0, 20), (1, 7))
"""Two streams of a device, and one of another."""


@dataclass(frozen=True)
class Act:
    """What the program does next.

    Args:
        what: `launch`, `join` (a stream waits for another), `spend`, `wait`, or `delay`.
        stream: the number of a stream in `STREAMS`.
        other: of another one.
        ns: how long it takes.
    """

    what: str
    stream: int = 0
    other: int = 0
    ns: int = 0


Delay = Callable[[Thread, Stream, int], None]


def item(host: Thread, stream: Stream, ns: int) -> None:
    with host.op("aten::item"), host.op("aten::_local_scalar_dense"):
        host.synchronize(stream)


def read(host: Thread, stream: Stream, ns: int) -> None:
    with host.op("aten::to"), host.op("aten::copy_", dims=[[1024]]):
        host.copy(stream, Copy.DEVICE_TO_PAGEABLE, 4096, 1_000, blocking=True)


def size(host: Thread, stream: Stream, ns: int) -> None:
    with host.op("aten::nonzero"):
        host.synchronize(stream)


def explicit(host: Thread, stream: Stream, ns: int) -> None:
    host.synchronize()


def load(host: Thread, stream: Stream, ns: int) -> None:
    host.load_data(ns)


def record(host: Thread, stream: Stream, ns: int) -> None:
    with host.annotation("save_checkpoint", ns):
        pass


def recompile(host: Thread, stream: Stream, ns: int) -> None:
    with host.annotation("_compile.compile_inner (dynamo_timed)", ns):
        pass


def allocate(host: Thread, stream: Stream, ns: int) -> None:
    host.call("cudaMalloc", ns)


DELAYS: dict[str, Delay] = {
    "item-sync": item,
    "read-sync": read,
    "size-sync": size,
    "explicit-sync": explicit,
    "data-loader": load,
    "recording": record,
    "recompilation": recompile,
    "allocator-retry": allocate,
}


def acts() -> st.SearchStrategy[list[Act]]:
    stream = st.integers(0, len(STREAMS) - 1)
    ns = st.integers(_SHORT_NS, _LONG_NS)
    act = st.builds(
        Act,
        st.sampled_from(["launch", "launch", "launch", "join", "spend", "wait", "delay"]),
        stream,
        stream,
        ns,
    )
    return st.lists(act, min_size=4, max_size=30)


def run(program: list[Act], delay: Delay | None) -> Scene:
    """The program in the second of two steps: the first has no delays, and some detectors do not count it."""
    scene = Scene()
    host = scene.thread()
    streams = [scene.stream(number, device) for device, number in STREAMS]
    with host.step(1):
        for stream in streams:
            host.launch(stream, "gemm", _SHORT_NS)
    with host.step(2):
        for act in program:
            _do(act, host, streams, delay)
        for stream in streams:
            with host.op("aten::mm"):
                host.launch(stream, "gemm", _SHORT_NS)
    host.synchronize()
    return scene


def _do(act: Act, host: Thread, streams: list[Stream], delay: Delay | None) -> None:
    stream = streams[act.stream]
    if act.what == "launch":
        with host.op("aten::mm"):
            host.launch(stream, "gemm", act.ns)
    elif act.what == "join":
        host.wait_event(stream, host.record(streams[act.other]))
    elif act.what == "spend":
        host.spend(act.ns)
    elif act.what == "wait":
        with host.op("a_library::wait"):
            host.synchronize(stream)
    elif delay is not None:
        delay(host, stream, act.ns)


def end_of(scene: Scene) -> int:
    return max(stream.free for stream in scene.streams)


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("name", sorted(set(DELAYS) & {detector.name for detector in rank_detectors()}))
@settings(deadline=None, derandomize=True, max_examples=8)
@given(program=acts())
def test_no_delay_costs_more_than_is_said(name: str, program: list[Act]) -> None:
    slow, mended = run(program, DELAYS[name]), run(program, None)
    detector = next(detector for detector in rank_detectors() if detector.name == name)
    bound = detector.detect(slow.linked()).get_column("saving_ns").sum()
    assert end_of(slow) - end_of(mended) <= bound + _CALLS_NS * len(program)


def two_steps(programs: tuple[list[Act], list[Act]], ns: int) -> Scene:
    """A program in each of two steps; at the end of the first the host is busy for a time."""
    scene = Scene()
    host = scene.thread()
    streams = [scene.stream(number, device) for device, number in STREAMS]
    for number, program in enumerate(programs, 1):
        with host.step(number):
            for stream in streams:
                host.launch(stream, "gemm", _SHORT_NS)
            for act in program:
                _do(act, host, streams, None)
            for stream in streams:
                host.launch(stream, "gemm", _SHORT_NS)
            host.spend(ns if number == 1 else 0)
    host.synchronize()
    return scene


@pytest.mark.full
@settings(deadline=None, derandomize=True, max_examples=20)
@given(acts(), acts(), st.integers(2 * MACRO_NS, 4 * _LONG_NS))
def test_what_the_host_does_between_steps_costs_no_more_than_is_said(
    before: list[Act], behind: list[Act], ns: int
) -> None:
    programs = tuple([act for act in acts if act.what != "wait"] for acts in (before, behind))
    slow, mended = two_steps((programs[0], programs[1]), ns), two_steps((programs[0], programs[1]), 0)
    bound = _bound_of(slow)
    # What costs less than the least that counts is not found.
    assert end_of(slow) - end_of(mended) <= max(bound, MACRO_NS) + _CALLS_NS * (len(before) + len(behind))


def _bound_of(scene: Scene) -> float:
    """The time that host work covers, over all steps."""
    advice = tracebraid.advise(scene.linked(), 0.0)
    items = advice.items.filter(pl.col("detector") == "host-work")
    return float(items.get_column("bound_per_step_ns").sum()) * max(advice.steps, 1)


def test_work_of_another_stream_does_not_hide_what_is_between_steps() -> None:
    programs = ([Act("launch", 1, ns=_LONG_NS)], [Act("launch", 0, ns=2 * _LONG_NS)])
    slow, mended = two_steps(programs, _LONG_NS // 2), two_steps(programs, 0)
    saved = end_of(slow) - end_of(mended)
    bound = _bound_of(slow)
    assert saved > _LONG_NS // 3
    assert saved <= bound <= _LONG_NS // 2 + _CALLS_NS


def test_work_of_another_stream_does_not_hide_a_delay() -> None:
    program = [Act("launch", 1, ns=_LONG_NS), Act("launch", 0, ns=_SHORT_NS), Act("delay", ns=_LONG_NS // 2)]
    program += [Act("launch", 0, ns=_LONG_NS)]
    slow, mended = run(program, record), run(program, None)
    saved = end_of(slow) - end_of(mended)
    bound = tracebraid.advise(slow.linked(), 0.0).by_step.get_column("saving_ns").sum()
    assert saved > _LONG_NS // 3
    assert saved <= bound <= _LONG_NS // 2 + _CALLS_NS


def test_layers_that_are_compiled_apart_are_no_graph_breaks() -> None:
    def layers(frames: list[str]) -> set[str]:
        scene = Scene()
        host, stream = scene.thread(), scene.stream(7)
        with host.step(1):
            for frame in frames:
                with host.op(f"Torch-Compiled Region: {frame}"):
                    host.launch(stream, "triton_poi_fused_0", _SHORT_NS)
                host.spend(_LONG_NS)
            host.launch(stream, "gemm", _SHORT_NS)
        return set(tracebraid.advise(scene.linked(), 0.0).items.get_column("detector"))

    assert "graph-break" not in layers(["0/0", "0/0", "0/1"])
    assert "graph-break" in layers(["0/0", "1/0", "2/0"])


def test_kernels_of_an_op_are_mended_together() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    with host.step(1):
        for kernel in ("ampere_sgemm_128x64_nn", "ampere_sgemm_32x128_tn"):
            with host.op("aten::mm", dims=[[1024, 1024], [1024, 1024]]):
                host.launch(stream, kernel, _LONG_NS)
        host.synchronize()
    items = tracebraid.advise(scene.linked()).items.filter(pl.col("detector") == "full-precision-products")
    assert items.get_column("count").to_list() == [2]
