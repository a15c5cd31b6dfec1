"""Each change predicts the trace of a program in which it was made: planted without it and with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl
import pytest

import tracebraid
from tests.planted import CALL_NS, Scene, Stream, Thread

STEPS = 3
AT_ONCE = -CALL_NS
"""The latency of a launch whose kernel starts with the call."""


@dataclass(frozen=True)
class Case:
    """A program's step, without the change and with it."""

    change: str
    step: Callable[[Thread, Stream, Stream, bool], None]
    waits: bool = True
    """Whether each step waits for the device at its end."""


def kernels(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    for _ in range(3):
        with host.op("aten::mm", 2_000):
            host.launch(stream, "sgemm", 20_000 if made else 40_000)
    with host.op("aten::add", 2_000):
        host.launch(stream, "elementwise", 10_000)


def set_duration(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    host.run("aten::item", 7_000 if made else 30_000)
    host.run("aten::mul", 9_000)


def removed_op(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    with host.op("aten::mm", 2_000):
        host.launch(stream, "sgemm", 40_000)
    if not made:
        with host.op("aten::nonzero", 3_000), host.op("aten::sum", 1_000):
            host.launch(stream, "reduce", 25_000)
    with host.op("aten::mm", 2_000):
        host.launch(stream, "sgemm", 40_000)


def host_waits(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    with host.op("aten::mm", 2_000):
        host.launch(stream, "sgemm", 100_000, latency=AT_ONCE)
    recorded = host.record(stream)
    if not made:
        host.synchronize_event(recorded)
    host.run("aten::mul", 50_000)
    with host.op("aten::mm", 2_000):
        host.launch(stream, "sgemm", 100_000, latency=AT_ONCE)


def wait_for_loss(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    for _ in range(3):
        with host.op("aten::mm", 2_000):
            host.launch(stream, "sgemm", 40_000, latency=AT_ONCE)
    recorded = host.record(stream)
    if not made:
        host.synchronize_event(recorded)
    host.run("aten::mul", 50_000)
    if made:
        host.synchronize_event(recorded)


def launches(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    with host.op("aten::mm", 2_000):
        first = host.launch(stream, "sgemm", 4_000, latency=AT_ONCE)
    for duration in (4_000, 4_000, 4_000, 30_000):
        if made:
            stream.run("sgemm", duration, call=first.call)
        else:
            with host.op("aten::mm", 2_000):
                host.launch(stream, "sgemm", duration, latency=AT_ONCE)
    host.run("aten::mul", 1_000)


def late_communication(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    with host.op("aten::mm", 2_000):
        product = host.launch(stream, "sgemm", 40_000)
    recorded = host.record(stream)
    host.wait_event(other, recorded)
    if not made:
        host.run("aten::mul", 90_000)
    host.collective(other, 200_000, at=max(host.now, product.end))
    if made:
        host.run("aten::mul", 90_000)
    host.synchronize()


def fusable(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    with host.op("aten::mm", 2_000):
        host.launch(stream, "sgemm", 80_000)
    with host.op("aten::add", 2_000):
        host.launch(stream, "add_0", 18_000 if made else 10_000)
    for number in (1, 2):
        with host.op("aten::add", 2_000):
            if not made:
                host.launch(stream, f"add_{number}", 10_000)
    with host.op("aten::mm", 2_000):
        host.launch(stream, "sgemm", 30_000)


def loader(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    """Loads take 30 us, the rest of a step 40 us: with a worker ahead, only the first load is waited for."""
    if not made or len(host.scene.of("enumerate(DataLoader)")) == 0:
        host.run("enumerate(DataLoader)", 30_000)
    else:
        host.run("enumerate(DataLoader)", 0)
    host.run("aten::mul", 40_000)


def two_queues(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    """Copies between kernels, each queued behind the one before; on another stream they run beside the kernels."""
    for number in range(3):
        with host.op("aten::mm", 2_000):
            host.launch(stream, "sgemm", 60_000)
        with host.op("aten::copy_", 2_000):
            host.launch(other if made else stream, f"copy_{number}", 25_000 * (number + 1))
    if made:
        host.synchronize(other)


CASES = {
    "move": Case("move 20 name=copy_*", two_queues),
    "no-sync": Case("no-sync name=cudaEventSynchronize", host_waits),
    "defer": Case("defer name=cudaEventSynchronize", wait_for_loss, waits=False),
    "graph-launch": Case("graph-launch name=sgemm", launches),
    "early": Case("early kind=communication", late_communication, waits=False),
    "fuse": Case("fuse 3 factor=0.6 name=add_*", fusable),
    "offload": Case("offload name=*DataLoader*", loader),
    "scale": Case("scale 0.5 name=sgemm", kernels),
    "split": Case("split 2 name=sgemm", kernels),
    "set": Case("set 7us name=aten::item", set_duration),
    "remove": Case("remove op=aten::nonzero", removed_op),
}


def planted(case: Case, made: bool) -> Scene:
    scene = Scene()
    host, stream, other = scene.thread(), scene.stream(7), scene.stream(20)
    for number in range(1, STEPS + 1):
        with host.step(number, 1_000):
            case.step(host, stream, other, made)
            if case.waits:
                host.synchronize(stream)
    return scene


def job_steps(found: tracebraid.WhatIf, column: str) -> list[int]:
    return found.steps.filter(pl.col("rank").is_null()).get_column(column).to_list()


@pytest.mark.parametrize("name", CASES)
def test_prediction_is_the_other_trace(name: str) -> None:
    case = CASES[name]
    found = tracebraid.what_if(planted(case, False).linked(), case.change)
    truth = tracebraid.what_if(planted(case, True).linked(), "scale 1")
    assert job_steps(found, "after_ns") == job_steps(truth, "before_ns")
    assert job_steps(found, "before_ns") != job_steps(found, "after_ns")
