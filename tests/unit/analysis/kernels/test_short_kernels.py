"""Kernels that are short, and the time around them."""

from __future__ import annotations

from tests.planted import Scene
from tracebraid.analysis.kernels.short_kernels import SHORT_KERNEL_NS, short_kernels
from tracebraid.model.linked_trace import LinkedTrace


def on_two_streams() -> LinkedTrace:
    """On stream 7: long 0-20000, short 20500-21000, a copy 21000-21100, short 24100-34100; on stream 8: tiny."""
    scene = Scene()
    first, second = scene.stream(7), scene.stream(8)
    first.run("long", SHORT_KERNEL_NS * 2, 0)
    first.run("short", 500, at=20_500)
    first.run("Memcpy DtoD (Device -> Device)", 100, at=21_000, category="gpu_memcpy")
    first.run("short", SHORT_KERNEL_NS, at=24_100)
    second.run("tiny", 1, at=20_000)
    return scene.linked()


def test_gaps_are_those_of_the_stream() -> None:
    found = short_kernels(on_two_streams())
    columns = ("name", "count", "count_of_all", "total_ns", "gap_before_ns", "gap_after_ns")
    assert found.select(columns).rows() == [("short", 1, 2, 500, 500, 0), ("tiny", 1, 1, 1, 0, 0)]


def test_a_threshold_is_a_duration_that_is_not_short() -> None:
    found = short_kernels(on_two_streams(), max_ns=SHORT_KERNEL_NS + 1)
    columns = ("name", "count", "total_ns", "gap_before_ns", "gap_after_ns")
    assert found.select(columns).rows() == [("short", 2, 10_500, 3_500, 0), ("tiny", 1, 1, 0, 0)]
    assert short_kernels(on_two_streams(), max_ns=1).is_empty()


def test_communication_is_no_short_work_but_keeps_its_stream_busy() -> None:
    scene = Scene(world_size=2)
    host, stream = scene.thread(), scene.stream(7)
    host.launch(stream, "a", 100)
    collective = host.collective(stream, 500)
    last = host.launch(stream, "a", 100)
    found = short_kernels(scene.linked())
    gap = last.ts - collective.end
    assert found.select("name", "count", "gap_before_ns").rows() == [
        ("a", 2, gap),
    ]


def test_what_overlaps_has_no_gap_before_it() -> None:
    scene = Scene()
    stream = scene.stream(7)
    stream.run("long", 1_000_000, 0)
    stream.run("a", 10, at=500)
    stream.run("a", 10, at=1_000_100)
    found = short_kernels(scene.linked())
    assert found.select("name", "gap_before_ns").rows() == [("a", 100)]
