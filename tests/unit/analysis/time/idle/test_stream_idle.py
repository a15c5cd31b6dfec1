"""Gaps between consecutive work of a stream, by HTA's rule."""

from __future__ import annotations

from tests.builders import Json, call, kernel, op
from tests.planted import Scene
from tests.unit.analysis.time.idle.planted_idle import KERNEL_NS, begun
from tests.unit.linking.made import linked_of
from tracebraid.analysis.time.idle.idle_causes import idle_causes
from tracebraid.analysis.time.idle.stream_idle import stream_idle
from tracebraid.model.linked_trace import LinkedTrace


def gaps(linked: LinkedTrace) -> list[tuple[str, str, int, int]]:
    return stream_idle(linked).select("stream", "category", "idle_ns", "count").rows()


def test_a_gap_is_by_host_by_kernel_or_other() -> None:
    scene, host, stream = begun()
    host.launch(stream, "queued", KERNEL_NS, at=18_000 + 2_000)
    host.launch(stream, "held", KERNEL_NS, at=30_000 + 40_000)
    host.until(100_000)
    host.launch(stream, "late", KERNEL_NS)
    linked = scene.linked()
    assert gaps(linked) == [
        ("7", "host_wait", 28_000, 1),
        ("7", "kernel_wait", 2_000, 1),
        ("7", "other", 40_000, 1),
    ]
    shares = stream_idle(linked).get_column("share").to_list()
    assert shares == [28 / 70, 2 / 70, 40 / 70]


def test_the_spread_of_gaps() -> None:
    scene, host, stream = begun()
    for gap in (1_000, 2_000, 3_000, 10_000):
        host.launch(stream, "next", KERNEL_NS, at=stream.free + gap, call_ns=1)
    row = stream_idle(scene.linked()).to_dicts()[0]
    assert (row["count"], row["min_ns"], row["max_ns"], row["mean_ns"]) == (4, 1_000, 10_000, 4_000.0)
    assert (row["p25_ns"], row["p50_ns"], row["p75_ns"]) == (1_750.0, 2_500.0, 4_750.0)
    assert round(row["std_ns"]) == 4_082


def test_a_stream_is_idle_while_another_works_and_the_device_is_not() -> None:
    scene, host, stream = begun()
    host.launch(scene.stream(8), "long", 500_000)
    host.until(100_000)
    host.launch(stream, "late", KERNEL_NS)
    linked = scene.linked()
    assert gaps(linked) == [("7", "host_wait", 90_000, 1)]
    assert idle_causes(linked).is_empty()


def test_work_that_overlaps_on_a_stream_waits_for_nothing() -> None:
    scene, host, stream = begun()
    host.launch(stream, "overlapping", KERNEL_NS, at=15_000)
    (row,) = stream_idle(scene.linked()).to_dicts()
    assert (row["category"], row["idle_ns"], row["count"], row["share"]) == ("kernel_wait", 0, 1, None)


def test_synchronizations_are_no_work_of_a_stream() -> None:
    """HTA counts the rows of `cuda_sync` as kernels: to it the gap is one of 1 ns and one of 82 µs."""
    scene, host, stream = begun()
    host.synchronize(stream)
    host.until(100_000)
    host.launch(stream, "late", KERNEL_NS)
    assert gaps(scene.linked()) == [("7", "host_wait", 90_000, 1)]


def test_gaps_by_step_belong_to_the_step_of_the_next_launch() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    for number in (1, 2):
        with host.step(number):
            host.launch(stream, "a", KERNEL_NS)
            host.until(number * 50_000)
    rows = stream_idle(scene.linked(), per_step=True).select("step", "idle_ns").rows()
    assert rows == [("ProfilerStep#2", 40_000)]


def test_streams_are_in_the_order_of_their_numbers() -> None:
    events: list[Json] = [op("aten::mm", 0, 100)]
    for number, stream in enumerate((10, 9)):
        for start in (0, 20):
            correlation = 2 * number + start
            events.append(call("cudaLaunchKernel", start, 1, 1 + correlation))
            events.append(kernel("k", start + 2, 5, 1 + correlation, stream=stream))
    assert [row[0] for row in gaps(linked_of(events))] == ["9", "10"]
    assert stream_idle(linked_of([])).is_empty()
