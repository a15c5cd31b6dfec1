"""Queues between host and device: their length over time, their statistics, and what a full queue costs."""

from __future__ import annotations

from statistics import mean, stdev

import pytest

from tests.builders import Json, call, kernel, op
from tests.planted import scenes
from tests.unit.linking.made import linked_of
from tracebraid.analysis.launches.queues.full_queue import full_queue
from tracebraid.analysis.launches.queues.queue_lengths import queue_lengths
from tracebraid.analysis.launches.queues.queue_series import queue_series
from tracebraid.model.answers import FULL_QUEUE, QUEUE_LENGTHS, QUEUE_SERIES


def ahead(count: int, stream: int = 7, first: int = 1, at: int = 0) -> list[Json]:
    """Calls 1 µs apart whose kernels start 10 µs apart from 100 µs on: the queue grows to `count`, then shrinks."""
    calls = [call("cudaLaunchKernel", at + i, 1, first + i) for i in range(count)]
    return [*calls, *(kernel("k", at + 100 + 10 * i, 10, first + i, stream) for i in range(count))]


def test_the_length_changes_when_a_call_starts_and_when_its_work_does() -> None:
    table = queue_series(linked_of(ahead(3)))
    start = table.get_column("ts_ns")[0]
    assert [ts - start for ts in table.get_column("ts_ns")] == [0, 1_000, 2_000, 100_000, 110_000, 120_000]
    assert table.get_column("length").to_list() == [1, 2, 3, 2, 1, 0]
    assert table.get_column("launches").to_list() == [1, 2, 3, 2, 1, 0]


def test_a_graph_joins_at_once_and_is_one_launch_until_its_last_kernel_starts() -> None:
    graph = [kernel(f"k{i}", 30 + 10 * i, 4, 1) for i in range(3)]
    table = queue_series(linked_of([call("cudaGraphLaunch", 20, 5, 1), *graph]))
    assert table.get_column("length").to_list() == [1, 2, 3, 2, 1, 0]
    assert table.get_column("launches").to_list() == [1, 1, 1, 1, 1, 0]


def test_every_stream_has_its_own_queue_in_the_order_of_their_numbers() -> None:
    table = queue_lengths(linked_of([*ahead(2, stream=20), *ahead(5, stream=7, first=10)]))
    assert table.select("stream", "count", "max").rows() == [("7", 10, 5), ("20", 4, 2)]


def test_the_statistics_are_those_of_the_lengths_after_each_change() -> None:
    (row,) = queue_lengths(linked_of(ahead(3))).to_dicts()
    lengths = [1, 2, 3, 2, 1, 0]
    assert (row["count"], row["min"], row["p50"], row["max"]) == (6, 0, 1.5, 3)
    assert row["mean"] == pytest.approx(mean(lengths))
    assert row["std"] == pytest.approx(stdev(lengths))
    assert row["mean_over_time"] == pytest.approx((1 + 2 + 3 * 98 + 2 * 10 + 1 * 10) / 120)


def test_work_that_starts_before_its_call_makes_no_negative_queue() -> None:
    table = queue_series(linked_of([call("launch", 20, 5, 1), kernel("early", 15, 5, 1)]))
    assert table.get_column("length").to_list() == [1, 0]


def test_changes_at_one_moment_have_no_mean_over_time() -> None:
    (row,) = queue_lengths(linked_of([call("launch", 20, 5, 1), kernel("k", 20, 5, 1)])).to_dicts()
    assert (row["count"], row["mean_over_time"]) == (2, None)


def test_by_step_each_change_counts_in_the_step_of_its_launch() -> None:
    steps = [op(f"ProfilerStep#{i}", 1_000 * i, 500, cat="user_annotation", tid=2) for i in (0, 1)]
    linked = linked_of([*steps, *ahead(2), *ahead(3, first=10, at=1_000)])
    assert queue_lengths(linked, per_step=True).select("step", "count", "max").rows() == [
        ("ProfilerStep#0", 4, 2),
        ("ProfilerStep#1", 6, 3),
    ]


def test_the_time_at_full_length_is_counted() -> None:
    (row,) = full_queue(linked_of(ahead(4)), max_queue_length=3).to_dicts()
    assert row["longest"] == 4
    assert row["full_ns"] == 1_000 + 97_000 + 10_000
    assert row["share"] == pytest.approx(108 / 140)


def test_launches_may_wait_on_behind_the_end_of_their_step() -> None:
    linked = linked_of([op("ProfilerStep#0", 0, 54, cat="user_annotation", tid=2), *ahead(4)])
    (row,) = full_queue(linked, per_step=True, max_queue_length=3).to_dicts()
    assert (row["full_ns"], row["share"]) == (108_000, pytest.approx(2))


def test_every_stream_has_a_row_and_not_only_the_last() -> None:
    linked = linked_of([*ahead(4, stream=7), *ahead(4, stream=20, first=10)])
    table = full_queue(linked, max_queue_length=3)
    assert table.get_column("stream").to_list() == ["7", "20"]
    assert (table.get_column("full_ns") == 108_000).all()


def blocked(host_us: int, start_us: int) -> list[Json]:
    """Ten launches in a row, then one of `host_us`; the first kernel starts at `start_us`."""
    calls = [call("cudaLaunchKernel", i, 1, i + 1) for i in range(10)]
    late = call("cudaLaunchKernel", 20, host_us, 11)
    return [*calls, late, *(kernel("k", start_us + 10 * i, 10, i + 1) for i in range(11))]


def test_a_slow_launch_that_returns_after_work_has_started_was_blocked() -> None:
    (row,) = full_queue(linked_of(blocked(31, 50)), max_queue_length=10).to_dicts()
    assert (row["launches"], row["blocked"], row["blocked_ns"]) == (1, 1, 30_000)


@pytest.mark.parametrize(("host_us", "start_us"), [(31, 60), (3, 21)])
def test_a_launch_is_not_blocked_without_work_that_starts_or_without_being_slow(
    host_us: int, start_us: int
) -> None:
    (row,) = full_queue(linked_of(blocked(host_us, start_us)), max_queue_length=10).to_dicts()
    assert (row["launches"], row["blocked"], row["blocked_ns"]) == (1, 0, 0)


def test_a_queue_that_is_never_full_blocks_nothing() -> None:
    (row,) = full_queue(linked_of(blocked(31, 50))).to_dicts()
    assert (row["longest"], row["full_ns"], row["launches"], row["blocked"], row["blocked_ns"]) == (
        11,
        0,
        0,
        0,
        0,
    )


def test_a_trace_without_launches_has_empty_tables_of_the_schema() -> None:
    linked = linked_of([op("a", 0, 5), kernel("no call", 5, 5, 1)])
    for table, declared in (
        (queue_series(linked), QUEUE_SERIES),
        (queue_lengths(linked), QUEUE_LENGTHS),
        (full_queue(linked), FULL_QUEUE),
    ):
        assert table.is_empty()
        assert dict(table.schema) == declared.polars_schema()


def test_nothing_blocks_in_a_clean_run() -> None:
    table = full_queue(scenes.clean().linked(), max_queue_length=16)
    assert table.select("full_ns", "blocked", "blocked_ns").rows() == [(table.item(0, "full_ns"), 0, 0)]
    assert table.item(0, "longest") > 16, "the host runs ahead"


def test_a_clean_run_keeps_its_queue_filled() -> None:
    (row,) = queue_lengths(scenes.clean().linked()).to_dicts()
    assert row["mean_over_time"] > 5
