"""Copies and fills: directions, memories, sizes, bandwidths, and what their calls wait for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Json, call, complete, kernel, op
from tests.unit.linking.made import linked_of
from tracebraid.analysis.launches.copies.copies import copies
from tracebraid.analysis.launches.copies.copy_bandwidth import copy_bandwidth
from tracebraid.analysis.launches.copies.copy_bandwidth_series import copy_bandwidth_series
from tracebraid.model.answers import COPIES, COPY_BANDWIDTH, COPY_BANDWIDTH_SERIES


def copy(
    name: str, ts: float, dur: float, correlation: int, size: int | None = 1000, gb_per_s: float | None = None
) -> Json:
    cat = "gpu_memset" if name.startswith("Memset") else "gpu_memcpy"
    args: Json = {"bytes": size} if size is not None else {}
    if gb_per_s is not None:
        args["memory bandwidth (GB/s)"] = gb_per_s
    return kernel(name, ts, dur, correlation, cat=cat, **args)


def row_of(api: str, name: str, host_us: int = 2, **options: Any) -> Json:
    linked = linked_of([call(api, 0, host_us, 1), copy(name, 10, 5, 1, **options)])
    (row,) = copies(linked).to_dicts()
    return row


@pytest.mark.parametrize(
    ("name", "direction", "source", "target", "pinned"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "HtoD", "Pageable", "Device", False),
        ("Memcpy HtoD (Pinned -> Device)", "HtoD", "Pinned", "Device", True),
        ("Memcpy DtoH (Device -> Pinned)", "DtoH", "Device", "Pinned", True),
        ("Memcpy DtoD (Device -> Device)", "DtoD", "Device", "Device", None),
        ("Memcpy PtoP (Device -> Device)", "PtoP", "Device", "Device", None),
        ("Memcpy HtoD (Host -> Device)", "HtoD", "Host", "Device", None),
        ("CopyHostToDevice", "HtoD", None, None, None),
        ("Memcpy M2D (Memory -> Device)", "HtoD", "Memory", "Device", None),
        ("some copy", None, None, None, None),
    ],
)
def test_the_name_says_the_direction_and_the_memories(
    name: str, direction: str | None, source: str | None, target: str | None, pinned: bool | None
) -> None:
    row = row_of("cudaMemcpyAsync", name)
    found = [row[column] for column in ("kind", "direction", "source", "target", "pinned")]
    assert found == ["copy", direction, source, target, pinned]


def test_a_fill_has_a_target_and_no_direction() -> None:
    row = row_of("cudaMemsetAsync", "Memset (Device)")
    found = [row[column] for column in ("kind", "direction", "source", "target", "host_wait")]
    assert found == ["fill", None, None, "Device", None]


@pytest.mark.parametrize(
    ("api", "name", "host_wait"),
    [
        ("cudaMemcpyAsync", "Memcpy HtoD (Pinned -> Device)", "none"),
        ("cudaMemcpy", "Memcpy HtoD (Pinned -> Device)", "complete"),
        ("cudaMemcpyAsync", "Memcpy HtoD (Pageable -> Device)", "staged"),
        ("cudaMemcpy", "Memcpy HtoD (Pageable -> Device)", "staged"),
        ("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pinned)", "none"),
        ("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pageable)", "complete"),
        ("cudaMemcpy", "Memcpy DtoH (Device -> Pinned)", "complete"),
        ("cudaMemcpy", "Memcpy DtoD (Device -> Device)", "none"),
        ("cudaMemcpyAsync", "Memcpy HtoH (Pinned -> Pinned)", "complete"),
        ("hipMemcpyWithStream", "Memcpy DtoD (Device -> Device)", "complete"),
        ("cudaMemcpyAsync", "some copy", None),
        ("cudaGraphLaunch", "Memcpy DtoH (Device -> Pageable)", None),
    ],
)
def test_the_api_and_the_memories_say_what_the_call_waits_for(
    api: str, name: str, host_wait: str | None
) -> None:
    assert row_of(api, name)["host_wait"] == host_wait


@pytest.mark.parametrize(("host_us", "awaited"), [(15, 1), (14, 0)])
def test_a_copy_is_awaited_if_its_call_returns_after_it(host_us: int, awaited: int) -> None:
    assert row_of("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pageable)", host_us)["awaited"] == awaited


def test_bandwidth_is_bytes_by_time_and_stands_beside_kinetos() -> None:
    name = "Memcpy DtoD (Device -> Device)"
    linked = linked_of([copy(name, 0, 1, 1, 1000, 0.9), copy(name, 5, 3, 2, 9000, 3.1)])
    (row,) = copies(linked).to_dicts()
    assert (row["bytes"], row["mean_bytes"], row["total_ns"]) == (10_000, 5_000.0, 4_000)
    assert row["bandwidth_bytes_per_s"] == pytest.approx(2.5e9)
    assert row["max_bandwidth_bytes_per_s"] == pytest.approx(3e9)
    assert row["kineto_bandwidth_bytes_per_s"] == pytest.approx(2e9)
    assert row["kineto_max_bandwidth_bytes_per_s"] == pytest.approx(3.1e9)


def test_copies_without_size_or_duration_have_no_bandwidth() -> None:
    name = "Memcpy DtoD (Device -> Device)"
    events = [copy(name, 0, 1, 1, None), copy(name, 5, 0, 2, 50), copy(name, 9, 1, 3, -7)]
    (row,) = copies(linked_of(events)).to_dicts()
    assert (row["count"], row["sized"], row["bytes"]) == (3, 1, 50)
    assert (row["bandwidth_bytes_per_s"], row["kineto_bandwidth_bytes_per_s"]) == (None, None)


def test_the_size_may_stand_on_the_call() -> None:
    hip = call("hipMemcpyWithStream", 0, 20, 1)
    hip["args"]["size"] = "2560"
    linked = linked_of([hip, copy("Memcpy HtoD (Host -> Device)", 10, 5, 1, None)])
    (row,) = copies(linked).to_dicts()
    assert (row["bytes"], row["bandwidth_bytes_per_s"]) == (2560, 512e6)


def test_the_direction_of_mtia_stands_in_an_argument() -> None:
    args = {"size": 1024, "direction": "DEVICE_TO_HOST", "stream": 3}
    linked = linked_of([complete("dma_request", "mtia_ccp_events", 0, 5, 17, 99, args)])
    assert copies(linked).select("direction", "bytes").rows() == [("DtoH", 1024)]
    assert copy_bandwidth(linked).get_column("name").to_list() == ["Memcpy DtoH"]


def test_the_op_that_asked_and_the_most_time_first() -> None:
    name = "Memcpy HtoD (Pinned -> Device)"
    events = [op("aten::copy_", 0, 5), call("cudaMemcpyAsync", 1, 2, 1), copy(name, 10, 5, 1)]
    others = [call("cudaMemcpyAsync", 6, 2, 2), copy(name, 20, 50, 2)]
    assert copies(linked_of([*events, *others])).select("op", "total_ns").rows() == [
        (None, 50_000),
        ("aten::copy_", 5_000),
    ]


def test_by_step_the_rows_add_up() -> None:
    steps = [op(f"ProfilerStep#{i}", 40 * i, 40, cat="user_annotation", tid=2) for i in (0, 1)]
    name = "Memcpy HtoD (Pinned -> Device)"
    work = [e for i in range(4) for e in (call("c", 20 * i, 2, i + 1), copy(name, 20 * i + 5, i + 1, i + 1))]
    linked = linked_of([*steps, *work])
    assert copies(linked, per_step=True).select("step", "count", "total_ns").rows() == [
        ("ProfilerStep#0", 2, 3_000),
        ("ProfilerStep#1", 2, 7_000),
    ]


def test_overlapping_copies_of_a_sort_add_their_bandwidths() -> None:
    first, second = "Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pageable -> Device)"
    linked = linked_of([copy(first, 0, 10, 1, gb_per_s=1.0), copy(second, 5, 10, 2, gb_per_s=2.0)])
    table = copy_bandwidth_series(linked)
    start = table.get_column("ts_ns")[0]
    assert [ts - start for ts in table.get_column("ts_ns")] == [0, 5_000, 10_000, 15_000]
    assert table.get_column("running").to_list() == [1, 2, 1, 0]
    assert table.get_column("bytes_per_s").to_list() == [1e9, 3e9, 2e9, 0.0]
    (row,) = copy_bandwidth(linked).to_dicts()
    assert (row["name"], row["count"], row["p50_bytes_per_s"]) == ("Memcpy HtoD", 3, 2e9)
    assert (row["min_bytes_per_s"], row["max_bytes_per_s"], row["mean_bytes_per_s"]) == (1e9, 3e9, 2e9)


def test_copies_back_to_back_do_not_add_up() -> None:
    name = "Memset (Device)"
    linked = linked_of([copy(name, 0, 10, 1, gb_per_s=1.0), copy(name, 10, 10, 2, gb_per_s=2.0)])
    assert copy_bandwidth_series(linked).get_column("bytes_per_s").to_list() == [1e9, 0.0, 2e9, 0.0]


def test_a_copy_without_length_lasts_a_microsecond() -> None:
    table = copy_bandwidth_series(linked_of([copy("Memset (Device)", 0, 0, 1, gb_per_s=1.5)]))
    times = table.get_column("ts_ns").to_list()
    assert (times[1] - times[0], table.get_column("bytes_per_s").to_list()) == (1_000, [1.5e9, 0.0])


def test_nothing_is_left_of_a_bandwidth_when_nothing_runs() -> None:
    overlapping = [copy("Memset (Device)", i, 10, i + 1, gb_per_s=0.1 * (i + 1) / 3) for i in range(7)]
    assert copy_bandwidth_series(linked_of(overlapping)).get_column("bytes_per_s")[-1] == 0.0


def test_a_trace_without_copies_has_empty_tables_of_the_schema() -> None:
    linked = linked_of([op("a", 0, 5), kernel("gemm", 5, 5, 1)])
    for table, declared in (
        (copies(linked), COPIES),
        (copy_bandwidth(linked), COPY_BANDWIDTH),
        (copy_bandwidth_series(linked), COPY_BANDWIDTH_SERIES),
    ):
        assert table.is_empty()
        assert dict(table.schema) == declared.polars_schema()
