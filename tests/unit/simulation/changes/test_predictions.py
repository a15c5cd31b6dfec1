"""Each change predicts the trace of a program in which it was made: planted without it and with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl
import pytest

import tracebraid
from tests.planted import Scene, Stream, Thread

STEPS = 3


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
        host.launch(stream, "sgemm", 100_000)
    if not made:
        host.synchronize(stream)
    host.run("aten::mul", 50_000)
    with host.op("aten::mm", 2_000):
        host.launch(stream, "sgemm", 100_000)


CASES = {
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
