"""Which activations are held longest."""

from __future__ import annotations

import pytest

from tests.planted import Scene
from tests.unit.analysis.memory.training import Training
from tracebraid.analysis.memory.activations import activations


def two_layers() -> Scene:
    """Two activations of 4096 and 1024 bytes that are held for 1000 and 9000 ns."""
    scene = Scene()
    host = scene.thread()
    with host.step(1, 10):
        with host.op("aten::relu", 0, sequence=scene.count("sequence")) as first:
            small = host.allocate(1024)
            host.spend(8000)
        with host.op("aten::tanh", 0, sequence=scene.count("sequence")) as second:
            large = host.allocate(4096)
            host.spend(900)
        with host.backward("TanhBackward0", second, host, 100):
            host.release(large)
        with host.backward("ReluBackward0", first, host, 0):
            host.release(small)
            host.spend(10)
    return scene


def test_bytes_times_time_decides_the_order() -> None:
    table = activations(two_layers().linked())
    assert table.select("op", "size_bytes", "max_lifetime_ns").rows() == [
        ("aten::relu", 1024, 9000),
        ("aten::tanh", 4096, 1000),
    ]
    assert table.get_column("byte_seconds").to_list() == pytest.approx([1024 * 9e-6, 4096 * 1e-6])
    assert table.get_column("saved_byte_seconds").to_list() == [None, None]


def test_equal_activations_are_a_row_by_step_one_for_each() -> None:
    training, gradient = Training(), None
    for number in (1, 2, 3):
        gradient = training.step(number, gradient)
    linked = training.scene.linked()
    assert activations(linked).select("op", "count", "bytes").rows() == [
        ("aten::addmm", 3, 3 * 2048),
        ("aten::mse_loss", 3, 3 * 512),
    ]
    by_step = activations(linked, per_step=True)
    assert by_step.get_column("step").to_list() == [f"ProfilerStep#{i}" for i in (1, 1, 2, 2, 3, 3)]
    assert by_step.get_column("count").to_list() == [1] * 6


def test_a_trace_without_memory_has_none() -> None:
    assert activations(Scene().linked()).is_empty()
