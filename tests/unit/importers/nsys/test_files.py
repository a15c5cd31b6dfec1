"""Exports of Nsight Systems as files: odd, damaged, or none."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.builders import kineto_text, write
from tests.unit.importers.nsys.nsys_file import EPOCH_NS, fill, graph, kernel, nvtx, sync, whole, write_export
from tests.unit.importers.nsys.nsys_reading import STEP, names, read
from tests.unit.importers.reading import codes, rows
from tracebraid.errors import InputError, NotATraceError
from tracebraid.importers.json_stream.source import open_source
from tracebraid.importers.kineto.reader import read_timeline
from tracebraid.importers.nsys.reader import read_nsys
from tracebraid.importers.trace import read_trace
from tracebraid.linking.link_traces import link_traces


def test_empty_tables_are_an_empty_timeline(tmp_path: Path) -> None:
    path = write_export(tmp_path / "nsys_0.sqlite", whole(*STEP))
    with closing(sqlite3.connect(path)) as database:
        for table in {table for table, _ in STEP}:
            database.execute(f"DELETE FROM {table}")
        database.commit()
    timeline = read_nsys(path)
    assert (timeline.events.height, timeline.lanes.height, timeline.span_ns) == (0, 0, None)
    assert link_traces(timeline).coverage.gpu_events.total == 0


def test_unknown_tables_and_columns_are_ignored(tmp_path: Path) -> None:
    path = write_export(tmp_path / "nsys_0.sqlite", whole(*STEP))
    with closing(sqlite3.connect(path)) as database:
        database.execute('CREATE TABLE "odd "" name" ("a "" column")')
        database.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN news INTEGER")
        database.commit()
    assert read_nsys(path).events.height == len(STEP)


@pytest.mark.parametrize(
    "name", ["a b.sqlite", "50%.sqlite", "what?.sqlite", "#1.sqlite", "größe;'\".sqlite"]
)
def test_a_path_may_have_any_character(tmp_path: Path, name: str) -> None:
    path = write_export(tmp_path / "new.sqlite", whole(*STEP)).rename(tmp_path / name)
    assert read_nsys(path).events.height == len(STEP)
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_the_file_is_not_written_to(tmp_path: Path) -> None:
    path = write_export(tmp_path / "nsys_0.sqlite", whole(*STEP))
    path.chmod(0o400)
    before = path.read_bytes()
    read_nsys(path)
    assert path.read_bytes() == before


def test_a_relative_path_is_kept_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_export(tmp_path / "nsys_0.sqlite", whole(*STEP))
    monkeypatch.chdir(tmp_path)
    assert read_nsys("nsys_0.sqlite").path == "nsys_0.sqlite"


def database_of(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()
    return path


def test_another_database_is_no_trace(tmp_path: Path) -> None:
    path = database_of(tmp_path / "x.sqlite", "CREATE TABLE users (name TEXT)")
    with pytest.raises(NotATraceError, match="not an export of Nsight Systems"):
        read_timeline(path)


def test_an_empty_database_is_no_trace(tmp_path: Path) -> None:
    path = database_of(tmp_path / "x.sqlite", "CREATE TABLE a (b)", "DROP TABLE a")
    with pytest.raises(NotATraceError, match="database is empty"):
        read_timeline(path)


def test_an_export_without_events_says_how_to_record_them(tmp_path: Path) -> None:
    path = write_export(tmp_path / "nsys_0.sqlite", whole())
    with pytest.raises(InputError, match="neither CUDA nor NVTX events") as caught:
        read_timeline(path)
    assert "--trace cuda,nvtx" in caught.value.advice


@pytest.mark.parametrize("content", [b"", b"SQLite", b"{}", b"SQLite format 2\x00" + b"x" * 99])
def test_what_is_no_sqlite_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "nsys_0.sqlite"
    path.write_bytes(content)
    for reader in (read_timeline, read_trace):
        with pytest.raises(NotATraceError):
            reader(path)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.99, 0.9999])
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, share: float) -> None:
    """SQLite knows its size in pages, and reads nothing of a file that is shorter; of half a page it reads zeros."""
    many = [kernel(f"kernel {n}", 10 * n + 1, 10 * n + 5, n) for n in range(2000)]
    path = write_export(tmp_path / "nsys_0.sqlite", whole(*STEP, *many))
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(InputError, match=r"malformed|not a database|truncated") as caught:
        read_timeline(path)
    assert caught.value.path == str(path)
    assert caught.value.advice.startswith("Export it again")


@pytest.mark.full
@pytest.mark.slow
def test_of_a_damaged_table_the_rows_before_are_read_and_of_the_others_all(tmp_path: Path) -> None:
    many = [kernel("k", 10 * n + 1, 10 * n + 5, n) for n in range(100_000)]
    path = write_export(tmp_path / "nsys_0.sqlite", whole(*STEP, *many))
    data = bytearray(path.read_bytes())
    middle = len(data) // 4096 * 3 // 4 * 4096
    data[middle : middle + 4096] = b"\xee" * 4096
    path.write_bytes(data)
    timeline = read_timeline(path)
    assert [(one.code, one.where) for one in timeline.findings] == [
        ("event-unreadable", "CUPTI_ACTIVITY_KIND_KERNEL")
    ]
    assert 0 < len(names(timeline, "kernel")) < 100_000
    assert names(timeline, "cpu_op") == ["aten::add"]


@pytest.mark.full
@pytest.mark.slow
def test_damage_anywhere_is_a_finding_or_a_refusal(tmp_path: Path) -> None:
    many = [kernel(f"kernel {n}", 10 * n + 1, 10 * n + 5, n) for n in range(200)]
    whole_bytes = write_export(tmp_path / "whole.sqlite", whole(*STEP, *many)).read_bytes()
    path = tmp_path / "nsys_0.sqlite"
    for place in range(0, len(whole_bytes), 1531):
        damaged = bytearray(whole_bytes)
        damaged[place : place + 40] = bytes((place * 7 + n * 31) % 256 for n in range(40))
        path.write_bytes(damaged)
        try:
            link_traces(read_timeline(path))
        except InputError as error:
            assert error.path == str(path)  # noqa: PT017


def test_where_no_event_is_left_the_file_is_refused(tmp_path: Path) -> None:
    path = write_export(tmp_path / "nsys_0.sqlite", whole(kernel("k", 1, 2, 3)))
    with closing(sqlite3.connect(path)) as database:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_KERNEL'"
        (page,) = database.execute(query).fetchone()
    data = bytearray(path.read_bytes())
    data[(page - 1) * 4096 : page * 4096] = b"\xee" * 4096
    path.write_bytes(data)
    with pytest.raises(InputError, match="no event can be read"):
        read_timeline(path)


@pytest.mark.parametrize("name", ["nsys_0.nsys-rep", "report1.qdrep"])
@pytest.mark.parametrize("reader", [read_timeline, read_trace])
def test_a_report_has_to_be_exported_first(tmp_path: Path, name: str, reader: Any) -> None:
    path = tmp_path / name
    path.write_bytes(b"\x1f\x8bwhatever nsys writes")
    with pytest.raises(InputError) as caught:
        reader(path)
    assert f"nsys export --type sqlite {name}" in caught.value.advice


@pytest.mark.parametrize("reader", [read_timeline, read_trace])
@pytest.mark.parametrize("name", ["none.sqlite", "none.nsys-rep", "", "a\0b"])
def test_a_path_without_a_file_is_said_as_for_any_trace(tmp_path: Path, reader: Any, name: str) -> None:
    with pytest.raises(InputError):
        reader(str(tmp_path / name))


def test_only_sqlite_databases_are_exports(tmp_path: Path) -> None:
    assert open_source(write_export(tmp_path / "a", whole(*STEP)), database=True).is_database
    trace = write(tmp_path / "b", kineto_text([]))
    assert not open_source(trace, database=True).is_database


# --- Times, ranks, missing tables and columns in exports of Nsight Systems ---------------------------


def test_times_are_exact_to_the_nanosecond(tmp_path: Path) -> None:
    start = 2**53 + 1
    timeline = read(tmp_path, kernel("k", start, start + 2**40 + 1, 1))
    assert rows(timeline.events, "ts_ns", "dur_ns") == [{"ts_ns": EPOCH_NS + start, "dur_ns": 2**40 + 1}]


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
