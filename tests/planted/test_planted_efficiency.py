"""Efficiency of planted traces: figures that follow from how they were made."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.planted import A100, H100, Scene
from tests.planted.random_scenes import scenes
from tests.planted.scenes import KERNEL_NS, LAYERS, clean
from tests.unit.linking.made import row_of
from tracebraid.analysis.catalog import all_analyses
from tracebraid.analysis.device import device_events
from tracebraid.analysis.efficiency.calls import has_shapes
from tracebraid.analysis.efficiency.counted_ops import counted_ops, recomputation
from tracebraid.analysis.efficiency.roofline import mfu, op_costs, roofline
from tracebraid.model.analysis import Family

ANALYSES = [found for found in all_analyses() if found.family is Family.EFFICIENCY]

steady = settings(deadline=None, derandomize=True, max_examples=20)

STEPS = 3
PRODUCT = 2 * 64 * 1024 * 1024
MATRICES = 4 * (64 * 1024 + 1024 * 1024 + 64 * 1024)


def test_each_step_of_a_clean_training_has_the_flops_of_its_layers_twice() -> None:
    rows = mfu(clean(STEPS).linked()).to_dicts()
    assert [row["model_flops"] for row in rows[1:]] == [2 * LAYERS * PRODUCT] * STEPS
    for row in rows[1:]:
        assert (
            row["mfu"]
            == row["hfu"]
            == pytest.approx(2 * LAYERS * PRODUCT / (row["span_ns"] * 1e-9 * 19.5e12))
        )
    assert recomputation(clean(STEPS).linked()).is_empty()


def test_the_time_of_a_clean_training_is_lost_to_its_products_as_planted() -> None:
    linked = clean(STEPS, world_size=2).linked()
    lost = row_of(roofline(linked), name="aten::mm")
    runs = STEPS * LAYERS
    least = max(PRODUCT / 19.5e12, MATRICES / 2039e9) * runs * 1e9
    assert (lost["count"], lost["device_ns"]) == (runs, runs * KERNEL_NS)
    assert lost["roofline_ns"] == round(least)
    assert lost["lost_ns"] == runs * KERNEL_NS - round(least)
    forward = row_of(op_costs(linked), name="aten::addmm")
    assert (forward["flops"], forward["bytes"]) == (runs * PRODUCT, runs * (MATRICES + 4 * 1024))
    reduced = row_of(op_costs(linked), family="collective")
    elements = LAYERS * 1024 * 1024
    assert reduced["flops"] == STEPS * elements // 2
    assert reduced["bound"] == "interconnect"


def checkpointed() -> Scene:
    """A forward op, and its checkpoint: the op runs again in the backward op of another, then that op's own."""
    scene = Scene(devices=(H100,))
    host, stream = scene.thread(), scene.stream()
    shapes = [[256, 512], [512, 128]]

    def product(sequence: int | None = None) -> None:
        with host.op("aten::mm", ns=1000, dims=shapes, types=["c10::BFloat16"] * 2, sequence=sequence):
            host.launch(stream, "gemm", 40_000)

    with host.step(1):
        product(scene.count("sequence"))
        with host.op("aten::cos", dims=[[256, 128]], sequence=scene.count("sequence")) as forward:
            host.launch(stream, "cos", 2_000)
        with host.backward("CosBackward0", forward, host):
            product(scene.count("sequence"))
            with host.op("aten::sin", dims=[[256, 128]]):
                host.launch(stream, "sin", 3_000)
    return scene


def test_a_planted_recomputation_is_found_with_its_cost() -> None:
    linked = checkpointed().linked()
    flops = 2 * 256 * 512 * 128
    row = row_of(recomputation(linked, per_step=True), step="ProfilerStep#1")
    assert (row["name"], row["count"], row["device_ns"], row["flops"]) == ("aten::mm", 1, 40_000, flops)
    assert row["host_ns"] == 1000 + 5000
    step = row_of(mfu(linked), step="ProfilerStep#1")
    assert (step["model_flops"], step["hardware_flops"], step["precision"]) == (flops, 2 * flops, "bf16")
    assert step["hfu"] == pytest.approx(2 * step["mfu"])


def test_a_device_of_two_kinds_has_no_peak() -> None:
    scene = Scene(devices=(A100, H100))
    host = scene.thread()
    for device in (0, 1):
        with host.op("aten::mm", dims=[[64, 64], [64, 64]]):
            host.launch(scene.stream(7, device), "gemm", 10_000)
    assert roofline(scene.linked()).is_empty()
    assert roofline(scene.linked(), peak_bandwidth=1e12, peak_flops=1e12).height == 1


@pytest.mark.full
@steady
@given(scenes())
def test_all_that_ops_launch_belongs_to_a_row_whatever_happens(scene: Scene) -> None:
    linked = scene.linked()
    work = device_events(linked)
    launched = work.drop_nulls("op_event")
    costs = counted_ops(linked)
    if linked.timeline.has_device:
        assert costs.get_column("device_ns").sum() == launched.get_column("dur_ns").sum()
    rows = op_costs(linked)
    assert rows.get_column("count").sum() == (costs.height if has_shapes(linked) else 0)
    by_step = op_costs(linked, per_step=True)
    assert by_step.get_column("count").sum() == rows.get_column("count").sum()
    for analysis in ANALYSES:
        assert dict(analysis.answer(linked).schema) == analysis.table.polars_schema()
