"""Launches by op and API."""

from __future__ import annotations

import polars as pl
import pytest

from tests.builders import Json, call, kernel, op
from tests.unit.linking.made import linked_of
from tracebraid.analysis.launches.launches import launches
from tracebraid.model.answers import LAUNCHES


def events(count: int = 4) -> list[Json]:
    """Launches of one op: call i takes i + 1 µs, its kernel starts 2 µs later and takes 3 µs."""
    calls = [call("cudaLaunchKernel", 20 * i, i + 1, i + 1) for i in range(count)]
    kernels = [kernel("k", 20 * i + i + 3, 3, i + 1) for i in range(count)]
    return [op("aten::mm", 0, 20 * count), *calls, *kernels]


def test_launches_of_an_op_are_summed_up() -> None:
    (row,) = launches(linked_of(events())).to_dicts()
    assert (row["op"], row["api"], row["count"], row["kernels"]) == ("aten::mm", "cudaLaunchKernel", 4, 4)
    host = [row[f"host_{part}"] for part in ("ns", "mean_ns", "median_ns", "max_ns")]
    assert host == [10_000, 2_500.0, 2_500.0, 4_000]
    assert row["host_p95_ns"] == pytest.approx(3_850.0)
    assert (row["delay_ns"], row["delay_mean_ns"], row["delay_max_ns"]) == (8_000, 2_000.0, 2_000)
    assert (row["device_ns"], row["device_median_ns"]) == (12_000, 3_000.0)


def test_short_launches_are_those_whose_work_is_shorter_than_their_call() -> None:
    assert launches(linked_of(events())).get_column("short").to_list() == [1]


def test_each_api_and_op_has_a_row_the_most_host_time_first() -> None:
    others = [call("cuLaunchKernel", 90, 40, 9), kernel("triton", 140, 5, 9)]
    table = launches(linked_of([*events(), *others]))
    assert table.select("op", "api", "host_ns").rows() == [
        (None, "cuLaunchKernel", 40_000),
        ("aten::mm", "cudaLaunchKernel", 10_000),
    ]


def test_by_step_a_launch_counts_where_its_call_lies() -> None:
    steps = [op(f"ProfilerStep#{i}", 40 * i, 40, cat="user_annotation", tid=2) for i in (0, 1)]
    table = launches(linked_of([*steps, *events()]), per_step=True)
    assert table.select("step", "count", "host_ns").rows() == [
        ("ProfilerStep#0", 2, 3_000),
        ("ProfilerStep#1", 2, 7_000),
    ]
    assert table.get_column("host_ns").sum() == launches(linked_of(events())).get_column("host_ns").sum()


def test_doubtful_steps_count_in_sums_and_in_no_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tracebraid.analysis.step_rows.doubtful_steps",
        lambda linked, annotation: pl.Series(["ProfilerStep#1"]),
    )
    steps = [op(f"ProfilerStep#{i}", 40 * i, 40, cat="user_annotation", tid=2) for i in (0, 1)]
    linked = linked_of([*steps, *events()])
    (row,) = launches(linked).to_dicts()
    assert (row["count"], row["host_ns"], row["host_mean_ns"], row["host_max_ns"]) == (
        4,
        10_000,
        1_500.0,
        4_000,
    )
    (row,) = launches(linked, with_doubtful=True).to_dicts()
    assert (row["host_mean_ns"], row["host_max_ns"]) == (2_500.0, 4_000)
    assert launches(linked, per_step=True).get_column("host_mean_ns").to_list() == [1_500.0, 3_500.0]


def test_launches_outside_of_steps_are_left_out_of_means_where_that_is_doubtful(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "tracebraid.analysis.step_rows.doubtful_steps",
        lambda linked, annotation: pl.Series([None], dtype=pl.String),
    )
    (row,) = launches(linked_of(events())).to_dicts()
    assert (row["host_ns"], row["host_mean_ns"], row["host_p95_ns"], row["host_max_ns"]) == (
        10_000,
        None,
        None,
        4_000,
    )


def test_a_trace_without_launches_has_an_empty_table_of_the_schema() -> None:
    for per_step in (False, True):
        table = launches(linked_of([op("a", 0, 5)]), per_step=per_step)
        assert table.is_empty()
        assert dict(table.schema) == LAUNCHES.polars_schema()
