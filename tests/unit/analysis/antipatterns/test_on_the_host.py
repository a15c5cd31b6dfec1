"""Detectors on traces of the CPU alone, and what belongs to which of them."""

from __future__ import annotations

import polars as pl
import pytest

from tests.planted import Copy, Scene, Stream, Thread
from tests.planted.training_loop import training_loop
from tracebraid import api
from tracebraid.model.questions.advice import Advice

_SLOW_NS = 5_000_000
_OP_NS = 10_000_000


def saved(advice: Advice) -> list[tuple[str, int]]:
    return list(advice.items.select("detector", "saving_ns").iter_rows())


def host_steps(slow: str, kind: str, steps: int = 3) -> Scene:
    """Steps on the CPU, each with an op and, if it is named, something slow."""
    scene = Scene(devices=())
    host = scene.thread()
    for number in range(1, steps + 1):
        with host.step(number):
            host.run("aten::mm", _OP_NS, dims=[[8, 8], [8, 8]])
            if slow:
                with getattr(host, kind)(slow, _SLOW_NS):
                    pass
    return scene


@pytest.mark.parametrize(
    ("slow", "kind", "detector"),
    [
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "annotation", "data-loader"),
        ("torch/utils/data/dataloader.py(630): __next__", "frame", "data-loader"),
        ("torch/serialization.py(900): save", "frame", "recording"),
        ("<built-in function print>", "frame", "recording"),
        ("logging/__init__.py(1478): info", "frame", "recording"),
        ("## metrics:add ##", "annotation", "recording"),
        ("save_checkpoint", "annotation", "recording"),
    ],
)
def test_without_a_device_the_hosts_time_counts(slow: str, kind: str, detector: str) -> None:
    advice = api.advise(host_steps(slow, kind).linked())
    assert saved(advice) == [(detector, 3 * _SLOW_NS)]
    assert advice.items.get_column("share").to_list() == [_SLOW_NS / (_SLOW_NS + _OP_NS)]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("", "frame"),
        ("train.py(10): save_nothing", "frame"),
        ("torch/utils/checkpoint.py(200): checkpoint", "frame"),
        ("CheckpointFunction", "annotation"),
        ("dialog", "annotation"),
        ("Optimizer.step#AdamW.step", "annotation"),
    ],
)
def test_what_is_named_alike_is_something_else(name: str, kind: str) -> None:
    assert saved(api.advise(host_steps(name, kind).linked())) == []


def test_compiling_counts_from_the_second_step_on() -> None:
    scene = host_steps("_compile.compile_inner (dynamo_timed)", "annotation")
    assert saved(api.advise(scene.linked())) == [("recompilation", 2 * _SLOW_NS)]


def test_python_between_compiled_regions_counts_outside_of_ops() -> None:
    scene = Scene(devices=())
    host = scene.thread()
    for number in (1, 2):
        with host.step(number):
            host.run("Torch-Compiled Region: 0/0", 1_000_000)
            host.spend(_SLOW_NS)
            host.run("aten::mm", _OP_NS)
            host.run("Torch-Compiled Region: 1/0", 1_000_000)
    assert saved(api.advise(scene.linked())) == [("graph-break", 2 * _SLOW_NS)]


def test_what_needs_a_device_is_named_where_there_is_none() -> None:
    advice = api.advise(host_steps("", "frame").linked())
    assert "item-sync" in advice.not_asked
    assert "data-loader" not in advice.not_asked
    assert not advice.is_unanswerable


def test_a_wait_that_the_device_does_not_feel_saves_nothing() -> None:
    def wait_for_a_copy(host: Thread, stream: Stream, _: int) -> None:
        with host.op("aten::item"), host.op("aten::_local_scalar_dense"):
            host.call("cudaStreamSynchronize", 50_000)

    assert saved(api.advise(training_loop(wait_for_a_copy).linked())) == []


def test_a_pageable_copy_that_work_hides_saves_only_the_hosts_delay() -> None:
    def copy_beside(host: Thread, _: Stream, __: int) -> None:
        other = host.scene.stream(20)
        with host.op("aten::copy_"):
            host.copy(other, Copy.PAGEABLE_TO_DEVICE, 1 << 20, 1_000_000)

    assert saved(api.advise(training_loop(copy_beside).linked())) == []


def test_evidence_names_op_shapes_line_and_step() -> None:
    def read(host: Thread, stream: Stream, _: int) -> None:
        with (
            host.frame("train.py(30): loss_of"),
            host.op("aten::item", dims=[[]]),
            host.op("aten::_local_scalar_dense", dims=[[]]),
        ):
            host.synchronize(stream)
        host.spend(_SLOW_NS)

    advice = api.advise(training_loop(read).linked())
    item = advice.items.row(0, named=True)
    assert (item["detector"], item["op"], item["call_site"]) == (
        "item-sync",
        "aten::item",
        "train.py(30): loss_of",
    )
    assert item["count"] == item["steps"] == 4
    assert advice.evidence.filter(pl.col("event_id").is_null()).is_empty()
    assert set(advice.evidence.get_column("step")) <= {f"ProfilerStep#{n}" for n in range(1, 5)}


def test_what_only_the_warm_up_does_is_no_advice() -> None:
    def load_at_first(host: Thread, _: Stream, number: int) -> None:
        if number == 1:
            host.load_data(20 * _OP_NS)

    advice = api.advise(training_loop(load_at_first).linked())
    assert (saved(advice), advice.steps) == ([], 3)
