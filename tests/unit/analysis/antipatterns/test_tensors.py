"""Detectors of casts, copies, optimizers, recomputation and stored activations: what they leave alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.planted import H100, Copy, Scene, Stream, Thread
from tests.planted.busy import busy, cast
from tests.planted.patterns import PATTERNS
from tracebraid.analysis.antipatterns.tensors.costly_recomputation import costly_recomputation
from tracebraid.analysis.antipatterns.tensors.dtype_bounces import dtype_bounces
from tracebraid.analysis.antipatterns.tensors.layout_copies import layout_copies
from tracebraid.analysis.antipatterns.tensors.stored_activations import stored_activations
from tracebraid.analysis.antipatterns.tensors.unfused_optimizer import LEAST_RUNS, unfused_optimizer
from tracebraid.model.step import PROFILER_STEP

Body = Callable[[Scene, Thread, Stream], None]
HALF = "c10::BFloat16"


def some_ops(host: Thread, stream: Stream, count: int) -> None:
    for _ in range(count):
        with host.op("aten::pow", dims=[[512, 512], []]):
            host.launch(stream, "pow_kernel", 10_000)


@pytest.mark.parametrize(("between", "pairs"), [(0, 3), (1, 3), (2, 0), (5, 0)])
def test_a_norm_in_fp32_is_no_bounce(between: int, pairs: int) -> None:
    def body(scene: Scene, host: Thread, stream: Stream) -> None:
        cast(host, stream, HALF, "float", 20_000)
        some_ops(host, stream, between)
        cast(host, stream, "float", HALF, 20_000)

    assert dtype_bounces(busy(body).linked(), PROFILER_STEP).height == pairs


def test_of_three_casts_two_are_a_pair() -> None:
    def body(scene: Scene, host: Thread, stream: Stream) -> None:
        cast(host, stream, HALF, "float", 20_000)
        cast(host, stream, "float", HALF, 20_000)
        cast(host, stream, HALF, "float", 20_000)

    found = dtype_bounces(busy(body).linked(), PROFILER_STEP)
    assert found.get_column("saving_ns").to_list() == [40_000] * 3


def test_casts_of_the_host_alone_are_found_too() -> None:
    scene = Scene(devices=())
    host = scene.thread()
    for source, target in ((HALF, "float"), ("float", HALF)):
        dims = [[512, 512], [512, 512], []]
        with host.op("aten::_to_copy"):
            host.run("aten::copy_", 30_000, dims=dims, types=[target, source, "Scalar"])
    found = dtype_bounces(scene.linked(), PROFILER_STEP)
    assert found.get_column("saving_ns").to_list() == [60_000]


@pytest.mark.parametrize(
    ("around", "target", "source", "found"),
    [
        ("aten::contiguous", [1024, 1], [1, 512], 3),
        ("aten::clone", [1024, 1], [1, 512], 3),
        ("aten::clone", [1024, 1], [1024, 1], 0),
        ("aten::index_put_", [2048, 1], [1024, 1], 0),
    ],
)
def test_a_layout_copy_changes_strides(around: str, target: list[int], source: list[int], found: int) -> None:
    def body(scene: Scene, host: Thread, stream: Stream) -> None:
        dims = [[512, 1024], [512, 1024], []]
        with host.op(around), host.op("aten::copy_", dims=dims, strides=[target, source, []]):
            host.launch(stream, "copy_kernel", 10_000)

    assert layout_copies(busy(body).linked(), PROFILER_STEP).height == found


@pytest.mark.parametrize(
    ("name", "count", "found"),
    [
        ("aten::mul_", LEAST_RUNS, 3),
        ("aten::mul_", LEAST_RUNS - 1, 0),
        ("aten::_foreach_mul_", LEAST_RUNS, 0),
        ("aten::mm", LEAST_RUNS, 0),
    ],
)
def test_only_many_elementwise_ops_are_an_unfused_optimizer(name: str, count: int, found: int) -> None:
    def body(scene: Scene, host: Thread, stream: Stream) -> None:
        with host.annotation("Optimizer.step#SGD.step"):
            for _ in range(count):
                with host.op(name):
                    host.launch(stream, "kernel", 5_000)

    assert unfused_optimizer(busy(body).linked(), PROFILER_STEP).height == found


def test_ops_of_a_foreach_op_are_not_the_optimizers_own() -> None:
    scene = Scene(devices=())
    host = scene.thread()
    with host.annotation("Optimizer.step#SGD.step"), host.op("aten::_foreach_mul_"):
        for _ in range(2 * LEAST_RUNS):
            host.run("aten::mul_", 5_000)
    assert unfused_optimizer(scene.linked(), PROFILER_STEP).is_empty()


def test_an_optimizer_on_the_host_costs_host_time() -> None:
    scene = Scene(devices=())
    host = scene.thread()
    with host.annotation("Optimizer.step#SGD.step"):
        for _ in range(20):
            host.run("aten::mul_", 5_000)
            host.run("aten::add_", 4_000)
    found = unfused_optimizer(scene.linked(), PROFILER_STEP)
    assert found.get_column("saving_ns").to_list() == [20 * 9_000 - 20 * 3_000]


def test_recomputation_pays_where_memory_is_short() -> None:
    pattern = PATTERNS["costly-recomputation"]
    scene = pattern.scenes[0]
    assert costly_recomputation(scene.linked(), PROFILER_STEP).height == 3
    full = pattern.scenes[0]
    host = full.threads[0]
    host.release(host.allocate(int(H100["totalGlobalMem"] * 0.95)))
    assert costly_recomputation(full.linked(), PROFILER_STEP).is_empty()


def test_an_activation_that_is_not_fetched_again_is_not_stored() -> None:
    def body(scene: Scene, host: Thread, stream: Stream) -> None:
        with host.op("aten::cos", dims=[[1024, 1024]], sequence=scene.count("sequence")) as forward:
            host.launch(stream, "cos_kernel", 100_000)
        host.copy(stream, Copy.DEVICE_TO_PINNED, 4 * 1024 * 1024, 50_000)
        with host.backward("CosBackward0", forward, host), host.op("aten::sin", dims=[[1024, 1024]]):
            host.launch(stream, "sin_kernel", 100_000)

    assert stored_activations(busy(body).linked(), PROFILER_STEP).is_empty()
