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

from tests.planted import Copy, Scene, Stream, Thread
from tracebraid import api

_SHORT_NS, _LONG_NS = 50_000, 3_000_000
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
        Act, st.sampled_from(["launch", "launch", "launch", "join", "spend", "wait", "delay"]), stream, stream, ns
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


@pytest.mark.parametrize("name", DELAYS)
@settings(deadline=None, derandomize=True, max_examples=60)
@given(program=acts())
def test_no_delay_costs_more_than_is_said(name: str, program: list[Act]) -> None:
    slow, mended = run(program, DELAYS[name]), run(program, None)
    saved = end_of(slow) - end_of(mended)
    items = api.advise(slow.linked(), 0.0, annotation="no step" if name not in ("recompilation", "allocator-retry") else "ProfilerStep").items
    bound = items.filter(pl.col("detector") == name).get_column("saving_ns").sum()
    assert saved <= bound + 20_000 * len(program)
