"""Times, ranks, missing tables and columns in exports of Nsight Systems."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.unit.importers.nsys.nsys_file import (
    EPOCH_NS,
    fill,
    graph,
    kernel,
    nvtx,
    sync,
    whole,
    write_export,
)
from tests.unit.importers.nsys.nsys_reading import STEP, names, read
from tests.unit.importers.reading import codes, rows
from tracebraid.importers.nsys.reader import read_nsys
from tracebraid.linking.link_traces import link_traces


def test_times_are_exact_to_the_nanosecond(tmp_path: Path) -> None:
    start = 2**53 + 1
    timeline = read(tmp_path, kernel("k", start, start + 2**40 + 1, 1))
    assert rows(timeline.events, "ts_ns", "dur_ns") == [{"ts_ns": EPOCH_NS + start, "dur_ns": 2**40 + 1}]


@pytest.mark.parametrize("epoch", [None, 0, -5, 5 * 10**18, "noon"])
def test_without_a_session_start_times_are_relative_and_a_finding_says_so(tmp_path: Path, epoch: Any) -> None:
    more = [] if epoch is None else [("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": epoch})]
    timeline = read_nsys(write_export(tmp_path / "nsys_0.sqlite", [kernel("k", 5, 6, 1), *more]))
    assert (timeline.events["ts_ns"].to_list(), timeline.base_time_ns) == ([5], 0)
    assert codes(timeline.findings) == ["base-time"]


@pytest.mark.parametrize("name", ["nsys_3.sqlite", "report_rank3.sqlite", "rank-3.sqlite"])
def test_the_name_tells_the_rank(tmp_path: Path, name: str) -> None:
    timeline = read_nsys(write_export(tmp_path / name, whole(*STEP)))
    assert (timeline.rank, timeline.findings) == (3, ())


def test_without_a_rank_in_its_name_it_is_rank_0_with_a_finding(tmp_path: Path) -> None:
    timeline = read_nsys(write_export(tmp_path / "report1.sqlite", whole(*STEP)))
    assert (timeline.rank, [one.code for one in timeline.findings]) == (0, ["rank-unknown"])


@pytest.mark.parametrize("table", sorted({table for table, _ in whole(*STEP)} | {"StringIds"}))
def test_a_missing_table_gives_no_rows_and_the_others_stay(tmp_path: Path, table: str) -> None:
    kept = [row for row in whole(*STEP) if row[0] != table]
    without = {"StringIds": "id value"} if table == "StringIds" else None
    timeline = read_nsys(write_export(tmp_path / "nsys_0.sqlite", kept, without))
    lost = sum(row[0] == table for row in STEP)
    assert timeline.events.height == len(STEP) - lost
    assert timeline.events["name"].null_count() == 0
    assert link_traces(timeline).coverage.gpu_events.total == timeline.device_work.height


def test_names_without_their_strings_are_numbers(tmp_path: Path) -> None:
    timeline = read_nsys(write_export(tmp_path / "nsys_0.sqlite", whole(*STEP), {"StringIds": "id value"}))
    assert all(name.startswith("call ") for name in names(timeline, "cuda_runtime"))
    assert all(name.startswith("kernel ") for name in names(timeline, "kernel"))


COLUMNS = [
    (table, column)
    for table, row in (*STEP, fill(1, 2, 3), graph(1, 1, 2, 3), sync(1, 1, 2, 3))
    for column in row
    if column != "start"
]


@pytest.mark.parametrize(("table", "column"), sorted(set(COLUMNS)))
def test_a_missing_column_gives_nulls(tmp_path: Path, table: str, column: str) -> None:
    some = (*STEP, fill(1, 2, 3), graph(1, 1, 2, 3), sync(1, 1, 2, 3))
    timeline = read(tmp_path, *some, without={table: column})
    assert timeline.events.height == len(some)
    assert timeline.events["name"].null_count() == 0
    link_traces(timeline)


def test_without_start_no_row_of_the_table_is_an_event(tmp_path: Path) -> None:
    timeline = read(tmp_path, *STEP, without={"CUPTI_ACTIVITY_KIND_KERNEL": "start"})
    assert names(timeline, "kernel") == []
    assert [(one.code, one.where, one.count) for one in timeline.findings] == [
        ("event-without-time", "CUPTI_ACTIVITY_KIND_KERNEL", 1)
    ]


@pytest.mark.parametrize(
    ("start", "end", "code", "duration"),
    [
        (0, 0, "event-without-time", None),
        (None, 5, "event-without-time", None),
        ("soon", 5, "event-without-time", None),
        (1.5, 5, "event-without-time", None),
        (2**62, 2**62 + 1, "event-without-time", None),
        (-(2**63), 5, "event-without-time", None),
        (5, 4, "event-duration", 0),
        (5, None, "event-duration", 0),
        (5, "late", "event-duration", 0),
        (5, 2**63 - 1, "event-duration", 0),
        (5, 5, None, 0),
        (0, 3, None, 3),
        (-4, 3, None, 7),
    ],
)
def test_a_time_that_is_none_is_said(
    tmp_path: Path, start: Any, end: Any, code: str | None, duration: int | None
) -> None:
    timeline = read(tmp_path, kernel("bad", start, end, 1), kernel("good", 7, 9, 2))
    assert codes(timeline.findings) == ([code] if code else [])
    expected = [2] if duration is None else [duration, 2]
    assert sorted(timeline.events["dur_ns"].to_list()) == sorted(expected)


def test_values_of_another_type_count_as_missing(tmp_path: Path) -> None:
    odd = kernel("k", 5, 6, 1, streamId="seven", gridX=None, registersPerThread=1.5, globalPid="me")
    timeline = read(tmp_path, odd, ("NVTX_EVENTS", {**nvtx(None, 1, 2)[1], "text": b"\xff"}))
    (work,) = rows(timeline.device_work)
    assert not {"stream", "grid", "registers_per_thread"} & set(work)
    assert timeline.lanes.height == 2


def test_text_that_is_no_utf_8_is_mended(tmp_path: Path) -> None:
    path = write_export(tmp_path / "nsys_0.sqlite", whole(kernel("k", 5, 6, 1)))
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE StringIds SET value = CAST(x'6bff' AS TEXT) WHERE value = 'k'")
        database.commit()
    assert names(read_nsys(path), "kernel") == ["k\ufffd"]
