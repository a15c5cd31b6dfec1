"""Which events go to which table, and are they typed as the schema says?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders import Json, complete, flow, kernel, op
from tests.unit.importers.reading import codes, rows, timeline_of
from tracebraid.model.schema import KINETO_TABLES


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
