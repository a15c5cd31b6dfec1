"""When the most is allocated, how much, and what is alive then."""

from __future__ import annotations

import polars as pl
import pytest

from tests.planted import CPU, Block, Scene
from tests.planted.scenes import clean
from tests.unit.analysis.memory.training import Training
from tracebraid.analysis.memory.memory_at_peak import memory_at_peak
from tracebraid.analysis.memory.memory_peak import memory_peak
from tracebraid.analysis.memory.memory_timeline import memory_timeline
from tracebraid.model.linked_trace import LinkedTrace


def assert_rows_add_up(linked: LinkedTrace, per_step: bool) -> None:
    key = ["step", "device"]
    summed = memory_at_peak(linked, per_step=per_step).group_by(key).agg(pl.col("bytes").sum())
    found = memory_peak(linked, per_step=per_step).join(summed, on=key, how="left", nulls_equal=True)
    assert found.get_column("bytes").fill_null(0).to_list() == found.get_column("peak_bytes").to_list()
    parts = found.get_column("before_trace_bytes") + found.get_column("in_trace_bytes")
    assert parts.to_list() == found.get_column("peak_bytes").to_list()


def test_the_peak_is_the_allocators_and_its_rows_add_up() -> None:
    scene = clean(3)
    linked = scene.linked()
    peak = memory_peak(linked)
    assert peak.get_column("peak_bytes").to_list() == [scene.allocators[0].peak]
    for per_step in (False, True):
        assert_rows_add_up(linked, per_step)


def test_what_was_there_before_the_trace_is_a_row_of_its_own() -> None:
    scene = Scene()
    host = scene.thread()
    host.scene_allocator().allocated = 5000
    with host.op("aten::relu", 10):
        block = host.allocate(300)
        host.spend(10)
    host.release(Block(0x99, 4000, 0, block.event))
    linked = scene.linked()
    assert memory_at_peak(linked).select("category", "op", "bytes", "count").rows() == [
        ("before-trace", None, 5000, None),
        ("unknown", "aten::relu", 300, 1),
    ]
    assert memory_at_peak(linked).get_column("share").sum() == pytest.approx(1.0)
    assert memory_peak(linked).select("before_trace_bytes", "in_trace_bytes", "allocations").rows() == [
        (5000, 300, 1)
    ]


def test_a_step_that_only_releases_has_its_peak_at_its_start() -> None:
    scene = Scene()
    host = scene.thread()
    with host.step(1, 10):
        block = host.allocate(1000)
        host.spend(10)
    with host.step(2, 10) as second:
        host.release(block)
        host.spend(10)
    rows = memory_peak(scene.linked(), per_step=True).select("step", "peak_bytes", "peak_ns").rows()
    start = scene.linked().timeline.events.filter(event_id=second.event_id).get_column("ts_ns").item()
    assert rows[1] == ("ProfilerStep#2", 1000, start)
    assert_rows_add_up(scene.linked(), per_step=True)


def test_devices_have_a_peak_each_the_cpu_last() -> None:
    scene = Scene()
    host = scene.thread()
    for size, device in ((100, CPU), (200, 1), (300, 0), (10, CPU)):
        host.allocate(size, device)
        host.spend(1)
    table = memory_peak(scene.linked())
    assert table.select("device", "peak_bytes").rows() == [("0", 300), ("1", 200), ("cpu", 110)]
    assert table.filter(device="cpu").get_column("reserved_bytes").to_list() == [None]


def test_the_peak_names_the_op_and_module_that_brought_it_there() -> None:
    training = Training()
    training.step(1)
    (row,) = memory_peak(training.scene.linked()).to_dicts()
    assert (row["op"], row["module"], row["source"]) == ("aten::addmm", "Linear_0", "instants")
    assert row["peak_bytes"] == 4096 + 4096 + 8192 + 2048


def test_totals_that_do_not_add_up_are_summed_from_the_sizes() -> None:
    """A total that jumps, as where instants were dropped: what the trace shows alive is what counts."""
    scene = Scene()
    host = scene.thread()
    first = host.allocate(100)
    host.spend(1)
    host.scene_allocator().allocated = -70
    host.allocate(50)
    host.spend(1)
    host.release(first)
    table = memory_timeline(scene.linked())
    assert table.get_column("allocated_bytes").to_list() == [100, 150, 50]
    assert_rows_add_up(scene.linked(), per_step=False)


def test_the_timeline_has_every_change_with_its_step_and_op() -> None:
    scene = Scene()
    host = scene.thread()
    with host.step(4, 10), host.op("aten::relu", 10):
        block = host.allocate(100)
        host.spend(5)
    host.release(block)
    table = memory_timeline(scene.linked())
    assert table.select("step", "size_bytes", "allocated_bytes", "op", "device", "source").rows() == [
        ("ProfilerStep#4", 100, 100, "aten::relu", "0", "instants"),
        (None, -100, 0, None, "0", "instants"),
    ]


def test_a_trace_without_memory_has_no_peak() -> None:
    linked = Scene().linked()
    assert memory_peak(linked).is_empty()
    assert memory_at_peak(linked).is_empty()
    assert memory_timeline(linked).is_empty()
