"""Is a Kineto file read as a whole: header, rank, base time, chunks in order?"""

from __future__ import annotations

import gzip
import io
import json
import sys
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tracebraid.importers.chunk_decoding as chunk_decoding
from tests.builders import (
    Json,
    call,
    complete,
    et_text,
    flow,
    kernel,
    kineto_text,
    node,
    op,
    process_node,
    write,
)
from tests.cases import cases
from tests.unit.importers.reading import codes, plain, rows, timeline_of, timeline_of_bytes
from tracebraid.errors import InputError, NotATraceError, WrongTraceError
from tracebraid.importers.kineto.decode import exact_ns, needs_decimal, to_ns
from tracebraid.importers.kineto.reader import read_timeline
from tracebraid.model.finding import Loss
from tracebraid.model.schema import KINETO_TABLES
from tracebraid.model.timeline import Timeline

EVENTS = [
    event
    for i in range(40)
    for event in (
        op(f"op {i % 7}", i, 1, tid=i % 3, External_id=i, odd=i),
        kernel("k", i, 1, i, stream=i % 5, grid=[i, 1, 1]),
        flow("s", i, i, tid=i % 3),
        {"ph": "C", "name": "n", "ts": i},
    )
]


def at(folder: Path, name: str, **members: Any) -> Path:
    """A file in a folder whose own name tells no rank."""
    (folder / "plain").mkdir(exist_ok=True)
    return write(folder / "plain" / name, kineto_text([op("a", 1, 2)], header=members))


def test_the_members_beside_the_events_are_the_header(tmp_path: Path) -> None:
    timeline = timeline_of(tmp_path, EVENTS, host_name="h", deviceProperties=[{"id": 0, "name": "A100"}])
    assert timeline.header == {
        "schemaVersion": 1,
        "distributedInfo": {"rank": 0},
        "host_name": "h",
        "deviceProperties": [{"id": 0, "name": "A100"}],
        "traceName": "t.json",
    }
    assert timeline.device_names == ["A100"]


@pytest.mark.parametrize(
    ("name", "info", "rank", "world"),
    [
        ("t.json", {"rank": 3, "world_size": 8}, 3, 8),
        ("kineto_trace_3.json", {"rank": 3}, 3, None),
        ("kineto_trace_5.json", {"world_size": 8}, 5, 8),
        ("t.json", {"rank": "3", "world_size": "8"}, 3, 8),
        ("kineto_trace_5.json", {"rank": [3]}, 5, None),
        ("kineto_trace_5.json", None, 5, None),
    ],
)
def test_the_rank_is_what_the_file_tells_else_its_name(
    tmp_path: Path, name: str, info: Json | None, rank: int, world: int | None
) -> None:
    timeline = read_timeline(at(tmp_path, name, distributedInfo=info))
    assert (timeline.rank, timeline.world_size) == (rank, world)
    assert timeline.findings == ()


def test_a_file_that_tells_another_rank_than_its_name_is_said(tmp_path: Path) -> None:
    timeline = read_timeline(at(tmp_path, "kineto_trace_5.json", distributedInfo={"rank": 3}))
    assert timeline.rank == 3
    assert [finding.code for finding in timeline.findings] == ["ranks-differ"]


def test_a_rank_that_nothing_tells_is_zero_and_said(tmp_path: Path) -> None:
    timeline = read_timeline(at(tmp_path, "t.json", distributedInfo={}))
    assert timeline.rank == 0
    assert [finding.code for finding in timeline.findings] == ["rank-unknown"]


def test_the_rank_and_groups_after_the_events_are_read(tmp_path: Path) -> None:
    info = {
        "rank": 2,
        "world_size": 4,
        "pg_config": [{"pg_name": "0", "pg_size": 4, "ranks": "[0, 1, 2, 3]"}],
    }
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": EVENTS, "distributedInfo": info}))
    timeline = read_timeline(path)
    assert (timeline.rank, timeline.world_size) == (2, 4)
    assert timeline.process_groups.select("pg_name", "ranks", "group_size").rows() == [("0", [0, 1, 2, 3], 4)]


@pytest.mark.parametrize("size", [1, 100, 1000])
def test_small_chunks_give_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    expected = plain(timeline_of(tmp_path, EVENTS))
    assert [row["event_id"] for row in expected["events"]] == list(range(80))
    monkeypatch.setattr(chunk_decoding, "CHUNK_BYTES", size)
    assert plain(timeline_of(tmp_path, EVENTS)) == expected


def test_gzip_and_standard_input_give_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = kineto_text(EVENTS)
    expected = plain(timeline_of(tmp_path, EVENTS))
    assert plain(read_timeline(write(tmp_path / "t.json.gz", text))) == expected
    for data in (text.encode(), gzip.compress(text.encode())):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        timeline = read_timeline("-")
        assert plain(timeline) == expected
        assert timeline.path == "standard input"


def test_findings_name_the_file_the_place_and_the_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = kineto_text([op("good", 1, 2), *[{**op("bad", 1, 2), "dur": -1}] * 5, op("good", 1, 2)])
    places = [i for i in range(len(text)) if text.startswith('{\n    "ph"', i)]
    first = ", ".join(f"{place:,}" for place in places[1:4])
    for size in (1, 1 << 20):
        monkeypatch.setattr(chunk_decoding, "CHUNK_BYTES", size)
        path = write(tmp_path / "t.json", text)
        (finding,) = read_timeline(path).findings
        assert (finding.code, finding.path, finding.count) == ("event-duration", str(path), 5)
        assert finding.where == f"bytes {first}, ..."


def test_progress_goes_up_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_decoding, "CHUNK_BYTES", 500)
    done: list[float] = []
    read_timeline(write(tmp_path / "t.json", kineto_text(EVENTS)), progress=done.append)
    assert done == sorted(done)
    assert 0 < done[0] < 0.2
    assert 0.9 < done[-1] <= 1


def test_an_execution_trace_is_refused_as_such(tmp_path: Path) -> None:
    path = write(tmp_path / "et.json", et_text([process_node(), node(2, "a", 1)]))
    with pytest.raises(WrongTraceError, match="this is an Execution Trace") as caught:
        read_timeline(path)
    assert caught.value.path == str(path)


def test_a_trace_without_events_is_empty_and_typed(tmp_path: Path) -> None:
    timeline = timeline_of(tmp_path, [])
    assert all(table.is_empty() for table in timeline.tables.values())
    assert codes(timeline.findings) == []
    assert timeline.span_ns is None


@pytest.mark.parametrize("text", ["[]", "[1, 2]", "[[]]", '[{"a": 1}]', '{"traceEvents": [{"a": 1}]}'])
def test_an_array_that_holds_no_event_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(NotATraceError, match="no readable event"):
        read_timeline(write(tmp_path / "t.json", text))


# --- Which events go to which table, and are they typed as the schema says ---------------------------


def meta(kind: str, pid: Any, tid: Any, **args: Any) -> Json:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "ts": 0, "args": args}


def instant(name: str, ts: float, **args: Any) -> Json:
    common = {"ph": "i", "cat": "cpu_instant_event", "s": "t", "pid": 1, "tid": 1}
    return {**common, "name": name, "ts": ts, "args": {k.replace("_", " "): v for k, v in args.items()}}


def test_every_table_has_the_columns_and_types_of_the_schema(tmp_path: Path) -> None:
    full = [
        op("a", 1, 2, External_id=1),
        kernel("k", 1, 2, 3, **Json({"Collective name": "x"})),
        complete("c", "cuda_runtime", 1, 2, 1, 1, {"correlation": 3}),
        complete("s", "cuda_sync", 1, 2, 0, 7, {"stream": 7}),
        complete("p", "python_function", 1, 2, 1, 1, {"Python id": 1}),
        instant("[memory]", 1, Bytes=4),
        flow("s", 1, 1),
        {"ph": "C", "name": "n", "ts": 1},
        complete("x", "new", 1, 2, 1, 1, {"y": 1}),
        op("negative", 1, -2),
    ]
    for events in (full, []):
        timeline = timeline_of(tmp_path, events)
        assert set(timeline.tables) == {table.name for table in KINETO_TABLES}
        for table in KINETO_TABLES:
            assert dict(timeline.tables[table.name].schema) == table.polars_schema()
            assert timeline.tables[table.name].is_empty() == (not events)


def test_complete_events_keep_the_order_of_the_file(tmp_path: Path) -> None:
    events = [op("b", 5, 1), kernel("k", 1, 2, 3), op("a", 0.5, 0)]
    assert rows(timeline_of(tmp_path, events).events) == [
        {"event_id": 0, "name": "b", "category": "cpu_op", "lane": 0, "ts_ns": 5000, "dur_ns": 1000},
        {"event_id": 1, "name": "k", "category": "kernel", "lane": 1, "ts_ns": 1000, "dur_ns": 2000},
        {"event_id": 2, "name": "a", "category": "cpu_op", "lane": 0, "ts_ns": 500, "dur_ns": 0},
    ]


def test_memory_instants_are_events_of_no_duration(tmp_path: Path) -> None:
    timeline = timeline_of(
        tmp_path,
        [
            instant("[memory]", 1.5, Addr=2**47, Bytes=-512, Total_Allocated=0, Device_Type=1, Device_Id=0),
            instant("[memory]", 2, Bytes=4, Ev_Idx=7),
        ],
    )
    assert timeline.events.select("ts_ns", "dur_ns").rows() == [(1500, 0), (2000, 0)]
    assert rows(timeline.tables["memory"]) == [
        {
            "event_id": 0,
            "total_allocated_bytes": 0,
            "size_bytes": -512,
            "address": 2**47,
            "device_id": 0,
            "device_type": 1,
        },
        {"event_id": 1, "size_bytes": 4, "ev_idx": 7},
    ]
    assert codes(timeline.findings) == []


def test_an_instant_without_a_category_is_among_the_others(tmp_path: Path) -> None:
    record = {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 5}
    timeline = timeline_of(tmp_path, [op("a", 1, 2), record])
    assert timeline.events.height == 1
    assert json.loads(timeline.tables["other_events"].get_column("json").item()) == record


def test_counters_and_unknown_phases_are_kept_whole_among_the_others(tmp_path: Path) -> None:
    others: list[Json] = [
        {"ph": "C", "name": "GPU 0 Memory", "pid": 0, "ts": 1, "args": {"used": 5}},
        {"ph": "B", "name": "begin", "ts": 1},
        {"ph": "Z", "new": [1]},
        {"ph": "O", "id": "0x12", "args": {"snapshot": {}}},
    ]
    table = timeline_of(tmp_path, [op("a", 1, 2), *others]).tables["other_events"]
    assert table.get_column("phase").to_list() == ["C", "B", "Z", "O"]
    assert [json.loads(text) for text in table.get_column("json")] == others


def test_both_ends_and_steps_of_flows_are_read(tmp_path: Path) -> None:
    ends = [flow("s", 4, 1), flow("t", 4, 2), flow("f", 4, 2.5, pid=0, tid=7), flow("s", 4, 1, cat="fwdbwd")]
    timeline = timeline_of(tmp_path, [op("a", 1, 2), *ends])
    assert timeline.flows.rows() == [
        (4, "ac2g", "s", 0, 1000),
        (4, "ac2g", "t", 0, 2000),
        (4, "ac2g", "f", 1, 2500),
        (4, "fwdbwd", "s", 0, 1000),
    ]


@pytest.mark.parametrize(
    "wrong", [{"id": "0x1f"}, {"id": 3.5}, {"id": None}, {"ts": None}, {"ts": 10**30}, {"id": 10**30}]
)
def test_an_unreadable_end_of_a_flow_is_said_and_kept_among_the_others(tmp_path: Path, wrong: Json) -> None:
    odd = {**flow("s", 1, 1), **wrong}
    timeline = timeline_of(tmp_path, [flow("s", 2, 1), odd, flow("f", 2, 2)])
    assert timeline.flows.get_column("flow_id").to_list() == [2, 2]
    assert json.loads(timeline.tables["other_events"].get_column("json").item()) == odd
    assert codes(timeline.findings) == ["flow-unreadable"]


def test_lanes_are_processes_and_threads_with_their_names(tmp_path: Path) -> None:
    events = [
        meta("process_name", 1, 0, name="python"),
        meta("process_labels", 1, 0, labels="CPU"),
        meta("thread_name", 1, 5, name="thread 5 (main)"),
        meta("process_sort_index", 1, 0, sort_index=3),
        op("a", 1, 2, tid=5),
        complete("s", "Trace", 1, 2, pid="Spans", tid="PyTorch Profiler"),
        kernel("k", 1, 2, 3),
        meta("thread_name", 0, 7, name="stream 7"),
        op("b", 1, 2, tid=5),
    ]
    timeline = timeline_of(tmp_path, events)
    assert rows(timeline.lanes) == [
        {
            "lane": 0,
            "pid": 1,
            "tid": 5,
            "process_name": "python",
            "process_labels": "CPU",
            "thread_name": "thread 5 (main)",
        },
        {"lane": 1, "pid_text": "Spans", "tid_text": "PyTorch Profiler"},
        {"lane": 2, "pid": 0, "tid": 7, "thread_name": "stream 7"},
    ]
    assert timeline.events.get_column("lane").to_list() == [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("pid", "read"),
    [
        (7, {"pid": 7}),
        ("7", {"pid": 7}),
        (-7, {"pid": -7}),
        ("-7", {"pid": -7}),
        ("stream 7", {"pid_text": "stream 7"}),
        ("", {"pid_text": ""}),
        ("--7", {"pid_text": "--7"}),
        ("²", {"pid_text": "²"}),
        (None, {}),
        (1.5, {"pid_text": "1.5"}),
        (2**64, {"pid_text": str(2**64)}),
        ("9" * 5000, {"pid_text": "9" * 5000}),
    ],
)
def test_a_process_id_is_a_number_where_it_can_be_and_text_else(
    tmp_path: Path, pid: object, read: Json
) -> None:
    timeline = timeline_of(tmp_path, [complete("a", "cpu_op", 1, 2, pid=pid, tid=1)])
    assert rows(timeline.lanes) == [{"lane": 0, "tid": 1, **read}]


@pytest.mark.parametrize("args", [{"name": ["x"]}, {}, {"name": None}, {"other": 1}])
def test_an_odd_name_of_a_process_costs_nothing(tmp_path: Path, args: Json) -> None:
    timeline = timeline_of(tmp_path, [meta("process_name", 1, 0, **args), op("a", 1, 2)])
    assert timeline.events.height == 1
    assert timeline.lanes.height == 1


@pytest.mark.parametrize("ts", [None, "soon", [1], 10**30, -(10**30)])
def test_an_event_without_a_usable_time_is_said_and_kept_among_the_others(tmp_path: Path, ts: object) -> None:
    odd = {**op("odd", 1, 2, External_id=9), "ts": ts}
    timeline = timeline_of(tmp_path, [op("a", 1, 2, External_id=1), odd, op("b", 1, 2, External_id=2)])
    assert timeline.events.get_column("name").to_list() == ["a", "b"]
    assert timeline.host_ops.get_column("external_id").to_list() == [1, 2]
    assert json.loads(timeline.tables["other_events"].get_column("json").item()) == odd
    assert codes(timeline.findings) == ["event-without-time"]


@pytest.mark.parametrize("dur", [-3, -0.001, None, "long", 10**30])
def test_a_duration_that_cannot_be_counts_as_zero_and_is_said(tmp_path: Path, dur: object) -> None:
    timeline = timeline_of(tmp_path, [op("a", 1, 2), {**op("b", 3, 4), "dur": dur}])
    assert timeline.events.get_column("dur_ns").to_list() == [2000, 0]
    assert [(f.code, f.count) for f in timeline.findings] == [("event-duration", 1)]
    unusable = timeline.tables["unusable_durations"]
    assert unusable.get_column("event_id").to_list() == [1]
    assert (unusable.get_column("duration").item() is None) == (dur in (None, "long"))


def test_an_unknown_category_and_none_are_kept(tmp_path: Path) -> None:
    without = op("b", 3, 4)
    del without["cat"]
    timeline = timeline_of(tmp_path, [complete("a", "new_op", 1, 2, 1, 1), without])
    assert timeline.events.get_column("category").to_list() == ["new_op", None]


def test_rows_of_categories_that_share_a_table_are_in_the_order_of_events(tmp_path: Path) -> None:
    events = [
        kernel("k", 1, 2, 3, grid=[1, 1, 1]),
        kernel("m", 1, 2, 4, cat="gpu_memcpy", bytes=8),
        kernel("z", 1, 2, 5, cat="gpu_memset", bytes=16),
        kernel("k", 1, 2, 6, grid=[2, 1, 1]),
    ]
    work = timeline_of(tmp_path, events).device_work
    assert work.select("event_id", "correlation", "size_bytes").rows() == [
        (0, 3, None),
        (1, 4, 8),
        (2, 5, 16),
        (3, 6, None),
    ]
    assert work.get_column("grid").to_list() == [[1, 1, 1], None, None, [2, 1, 1]]


# --- Do microseconds become exact nanoseconds --------------------------------------------------------


def with_times(folder: Path, ts: str, dur: str = "1") -> Timeline:
    """One op whose times stand in the file as these texts."""
    text = kineto_text([op("a", 7777, 8888)]).replace("7777", ts).replace("8888", dur)
    return timeline_of_bytes(folder, text.encode())


@pytest.mark.parametrize(
    ("us", "ns"),
    [
        (0.0, 0),
        (0.001, 1),
        (1.0005, 1000),
        (-0.001, -1),
        (-1.999, -1999),
        (5537741.623, 5537741623),
        (8000000000000.123, 8000000000000123),
        (8796093022207.999, 8796093022207999),
        (1700000000000000.0, 1700000000000000000),
    ],
)
def test_microseconds_in_floats_round_to_the_right_nanosecond(us: float, ns: int) -> None:
    assert to_ns(np.array([us])).tolist() == [ns]


def test_large_fractions_need_the_decimal_text_and_others_do_not() -> None:
    assert needs_decimal([1.5, 1700000000000000.5])
    assert not needs_decimal([1700000000000000, 8000000000000.123])


def test_decimals_are_read_exactly() -> None:
    texts = ["1700000000000000.001", "-0.001", "3999999999999999.999"]
    assert exact_ns([Decimal(t) for t in texts]).tolist() == [1700000000000000001, -1, 3999999999999999999]


@pytest.mark.parametrize("ts", ["1623143089861035", "1623143089861035.0"])
def test_absolute_whole_microseconds_of_old_traces_are_exact(tmp_path: Path, ts: str) -> None:
    events = with_times(tmp_path, ts, "6").events
    assert events.select("ts_ns", "dur_ns").row(0) == (1623143089861035000, 6000)


def test_nanoseconds_count_from_the_base_time(tmp_path: Path) -> None:
    base = 1735689600000000007
    timeline = timeline_of(tmp_path, [op("a", 5537741.623, 0.961)], baseTimeNanoseconds=base)
    assert timeline.base_time_ns == base
    assert timeline.events.select("ts_ns", "dur_ns").row(0) == (base + 5537741623, 961)


@pytest.mark.parametrize("fraction", ["001", "1", "123", "25", "499", "5", "75", "876", "999"])
def test_an_absolute_fraction_is_exact_whatever_float64_makes_of_it(tmp_path: Path, fraction: str) -> None:
    """Near 1.7e15 float64 knows quarters only, so that .1 alone reads as a whole number."""
    got = with_times(tmp_path, f"1700000000000000.{fraction}").events.get_column("ts_ns").item()
    assert got == 1700000000000000000 + int(fraction.ljust(3, "0"))


def test_a_long_fractional_duration_is_exact(tmp_path: Path) -> None:
    dur = with_times(tmp_path, "1", "9000000000000.001").events.get_column("dur_ns").item()
    assert dur == 9000000000000001


def test_an_absolute_fraction_of_a_flow_is_exact(tmp_path: Path) -> None:
    text = kineto_text([flow("s", 1, 7777)]).replace("7777", "1700000000000000.1")
    assert timeline_of_bytes(tmp_path, text.encode()).flows.get_column("ts_ns").item() == 1700000000000000100


@pytest.mark.parametrize("dur", ["null", '"long"', "NaN", '"4"', "[1]", "-1"])
def test_a_wrong_duration_does_not_cost_the_exact_times(tmp_path: Path, dur: str) -> None:
    timeline = with_times(tmp_path, "1700000000000000.501", dur)
    expected = 4000 if dur == '"4"' else 0
    assert timeline.events.select("ts_ns", "dur_ns").row(0) == (1700000000000000501, expected)


@pytest.mark.parametrize("number", ["inf", "-inf", "nan", "-nan", "NaN", "Infinity", "-Infinity", "INF"])
def test_a_number_that_json_lacks_costs_only_itself(tmp_path: Path, number: str) -> None:
    odd: Json = {"blocks per SM": 7777, "size": 8, "other": 7777}
    kernels = [kernel(f"nan{nth}", 10 * nth, 5, nth, **odd) for nth in range(1, 4)]
    text = kineto_text([op("inf", 1, 2), *kernels, op('an "inf, nan"', 90, 2)]).replace("7777", number)
    timeline = timeline_of_bytes(tmp_path, text.encode())
    assert timeline.events.get_column("name").to_list() == ["inf", "nan1", "nan2", "nan3", 'an "inf, nan"']
    assert timeline.device_work.get_column("blocks_per_sm").to_list() == [None] * 3
    [finding] = timeline.findings
    starts = [text.rindex("{", 0, text.index(f'"nan{nth}"')) for nth in range(1, 4)]
    assert (finding.code, finding.count) == ("event-mended", 3)
    assert finding.where == "bytes " + ", ".join(f"{start:,}" for start in starts)


@pytest.mark.parametrize("ts", ['"12.5"', '" 12.5 "', "1.25e1", '"1.25e1"'])
def test_a_time_in_another_notation_is_read(tmp_path: Path, ts: str) -> None:
    assert with_times(tmp_path, ts).events.get_column("ts_ns").to_list() == [12500]


def test_a_base_time_that_is_none_is_said_and_not_added(tmp_path: Path) -> None:
    for base in (-5, "soon", 10**30, None, [1]):
        timeline = timeline_of(tmp_path, [op("a", 1, 2)], baseTimeNanoseconds=base)
        assert timeline.events.get_column("ts_ns").to_list() == [1000]
        assert codes(timeline.findings) == ["base-time"]


LATE_US = 1_700_000_000_000_000.0


def test_events_at_zero_among_times_of_a_clock_have_no_time(tmp_path: Path) -> None:
    events = [op("step", LATE_US, 100), call("cudaLaunchKernel", LATE_US + 10, 5, 1)]
    lost = [kernel("lost", 0, 8, nth) for nth in (2, 3)]
    timeline = timeline_of(tmp_path, [lost[0], *events, lost[1], kernel("there", LATE_US + 20, 8, 1)])
    assert timeline.events.get_column("name").to_list() == ["step", "cudaLaunchKernel", "there"]
    assert timeline.events.get_column("event_id").to_list() == [0, 1, 2]
    assert timeline.device_work.select("event_id", "correlation").rows() == [(2, 1)]
    assert timeline.host_calls.select("event_id", "correlation").rows() == [(1, 1)]
    [finding] = timeline.findings
    assert (finding.code, finding.count, finding.loss) == ("event-at-zero", 2, Loss(2, 2))


@pytest.mark.parametrize("later", [0.0, 1e6, 3.6e9])
def test_a_trace_may_begin_at_zero(tmp_path: Path, later: float) -> None:
    timeline = timeline_of(tmp_path, [op("first", 0, 5), op("second", later, 5)])
    assert timeline.events.height == 2
    assert timeline.findings == ()


def test_a_trace_of_ascends_profiler_is_refused_by_name(tmp_path: Path) -> None:
    named = {"ph": "M", "name": "process_name", "pid": 3, "tid": 0, "args": {"name": "Ascend Hardware"}}
    work = {"ph": "X", "name": "MatMul", "pid": 3, "tid": 2, "ts": "1747030000123456.500", "dur": 3}
    with pytest.raises(InputError, match=r"trace_view\.json of the profiler of Ascend"):
        timeline_of(tmp_path, [named, op("aten::mm", 1, 2), work])


def products(lengths: dict[int, float], **args: object) -> list[Json]:
    """Twenty kernels of one stream, one each 100 µs, of 50 µs but for some."""
    found = [kernel("gemm", 100 * i, lengths.get(i, 50), i + 1) for i in range(20)]
    return [{**event, "args": {**event["args"], **args}} for event in found]


def renamed(events: list[Json], name: str) -> list[Json]:
    return [{**event, "name": name} for event in events]


IMPOSSIBLE: dict[str, tuple[list[Json], list[tuple[int, str]]]] = {
    "far longer than its like, beyond later kernels": (products({5: 9000.5}), [(5, "9000.5")]),
    "two of them": (products({5: 9000, 15: 9000}), [(5, "9000"), (15, "9000")]),
    "the last, behind which none runs": (products({19: 9000}), []),
    "beyond two kernels": (products({17: 9000}), []),
    "longer, but not by far": (products({5: 900}), []),
    "the nodes of one launch": (products({5: 9000}, correlation=7), []),
    "without correlations": (products({5: 9000}, correlation=None), []),
    "communication, which may wait beside others": (
        renamed(products({5: 9000}), "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
        [],
    ),
    "on a stream of its own": (
        [*products({}), kernel("gemm", 500, 9000, 99, stream=8)],
        [],
    ),
}


@cases("events, expected", IMPOSSIBLE)
def test_a_kernel_that_outlasts_later_ones_of_its_stream_has_no_duration(
    events: list[Json], expected: list[tuple[int, str]], tmp_path: Path
) -> None:
    timeline = read_timeline(write(tmp_path / "trace_rank0.json", kineto_text(events)))
    assert timeline.tables["unusable_durations"].rows() == expected
    lengths = {event for event, _ in expected}
    durations = timeline.events.get_column("dur_ns").to_list()
    assert durations == [0 if i in lengths else 1000 * event["dur"] for i, event in enumerate(events)]
    assert [finding.count for finding in timeline.findings if finding.code == "event-duration"] == (
        [len(expected)] if expected else []
    )
