"""Does every argument of every kind of event reach its column, and what has none `extra_args`?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.builders import Json, complete, kernel, kineto_text, op
from tests.unit.importers.reading import rows, timeline_of, timeline_of_bytes
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.schema import COLLECTIVES, DETAIL_TABLES_BY_CATEGORY
from tracebraid.model.timeline import Timeline

SAMPLES: dict[Kind, tuple[Any, Any]] = {
    Kind.INT: (-(2**53) - 1, -(2**53) - 1),
    Kind.FLOAT: (0.375, 0.375),
    Kind.BOOL: (False, False),
    Kind.NAME: ('say "x" \n', 'say "x" \n'),
    Kind.TEXT: ("0x1f", "0x1f"),
    Kind.JSON: ([[1, 2], [], "}, {"], '[[1, 2], [], "}, {"]'),
    Kind.INT3: ([7, 1, 3], [7, 1, 3]),
    Kind.INTS: ("[0, 3]", [0, 3]),
}
"""A value as it stands in a file, and as it stands in the column."""
AMOUNT = -(2**50)
"""Bytes and elements; a larger number of them is no such."""


def sample_of(column: Column) -> tuple[Any, Any]:
    return (AMOUNT, AMOUNT) if column.name.endswith(("_bytes", "_nelems")) else SAMPLES[column.kind]


def columns_of(category: str) -> list[tuple[Table, Column, str]]:
    return [
        (table, column, key)
        for table in DETAIL_TABLES_BY_CATEGORY[category]
        for column in table.columns
        for key in column.keys
    ]


def extras(timeline: Timeline) -> list[tuple[int, str, object]]:
    table = timeline.tables["extra_args"].with_columns(pl.col("key").cast(pl.String))
    return [(event, key, json.loads(value)) for event, key, value in table.rows()]


def one(folder: Path, args: Json, category: str = "kernel") -> Timeline:
    """One event with these arguments."""
    return timeline_of(folder, [complete("e", category, 1, 2, pid=0, tid=7, args=args)])


def compact(folder: Path, events: list[Json]) -> Timeline:
    """Read from a file without blanks, so that JSON text in columns is easy to tell."""
    text = json.dumps({"traceEvents": events}, indent=None)
    return timeline_of_bytes(folder, text.encode())


@pytest.mark.parametrize("category", DETAIL_TABLES_BY_CATEGORY)
def test_every_argument_of_the_schema_is_read_into_its_column(tmp_path: Path, category: str) -> None:
    wanted = columns_of(category)
    events = []
    for table, column, key in wanted:
        args = {key: sample_of(column)[0]}
        if table is COLLECTIVES:
            args.setdefault("Collective name", "allreduce")
        events.append(complete("e", category, 1, 2, pid=1, tid=1, args=args))
    timeline = compact(tmp_path, events)
    for event, (table, column, key) in enumerate(wanted):
        row = timeline.tables[table.name].filter(pl.col("event_id") == event)
        assert row.get_column(column.name).to_list() == [sample_of(column)[1]], key
    assert extras(timeline) == []


@pytest.mark.parametrize("category", DETAIL_TABLES_BY_CATEGORY)
def test_all_arguments_at_once_are_read_beside_events_without_any(tmp_path: Path, category: str) -> None:
    full = {key: sample_of(column)[0] for _, column, key in columns_of(category)}
    bare = {**complete("e", category, 1, 2, pid=1, tid=1)}
    del bare["args"]
    events = [complete("e", category, 1, 2, pid=1, tid=1), {**bare, "args": full}, bare]
    timeline = compact(tmp_path, events)
    for table, column, key in columns_of(category):
        rows_by_event = dict(timeline.tables[table.name].select("event_id", column.name).rows())
        assert rows_by_event[1] == sample_of(column)[1], key
        assert rows_by_event.get(0) is None
        assert rows_by_event.get(2) is None


def test_only_events_with_collective_arguments_are_collectives(tmp_path: Path) -> None:
    args: Json = {"Collective name": "allreduce", "Process Group Ranks": "[0, 1]", "In msg nelems": 4}
    timeline = timeline_of(tmp_path, [kernel("k", 1, 2, 3), kernel("nccl", 4, 5, 6, **args)])
    assert timeline.device_work.get_column("event_id").to_list() == [0, 1]
    assert rows(timeline.collectives) == [
        {"event_id": 1, "collective_name": "allreduce", "in_msg_nelems": 4, "pg_ranks": [0, 1]}
    ]


def test_collective_arguments_without_a_name_are_not_lost(tmp_path: Path) -> None:
    timeline = one(tmp_path, {"Process Group Name": "2", "Seq": 5})
    kept = {key for row in rows(timeline.collectives) for key in row} | {k for _, k, _ in extras(timeline)}
    assert kept >= {"pg_name", "sequence"} or kept >= {"Process Group Name", "Seq"}


def test_a_communicator_is_read_though_kineto_writes_it_as_a_number(tmp_path: Path) -> None:
    timeline = one(tmp_path, {"Collective name": "allreduce", "Comms Id": 12345678})
    assert timeline.collectives.get_column("comms_id").to_list() == ["12345678"]


def test_the_id_of_an_api_function_is_cid_on_rocm(tmp_path: Path) -> None:
    timeline = one(tmp_path, {"cid": 211, "correlation": 4, "External id": 5}, "cuda_runtime")
    assert rows(timeline.host_calls) == [
        {"event_id": 0, "external_id": 5, "callback_id": 211, "correlation": 4}
    ]


def test_an_argument_without_a_column_is_reached_in_extra_args(tmp_path: Path) -> None:
    args = {"correlation": 3, "new": {"deep": [1, None, "x"]}, "grid": [1, 2, 3], "Ü": True}
    timeline = one(tmp_path, args)
    assert extras(timeline) == [(0, "new", args["new"]), (0, "Ü", True)]
    assert rows(timeline.device_work) == [{"event_id": 0, "correlation": 3, "grid": [1, 2, 3]}]


def test_the_arguments_of_an_unknown_category_are_all_in_extra_args(tmp_path: Path) -> None:
    timeline = one(tmp_path, {"a": 1, "stream": "x"}, "quantum_op")
    assert extras(timeline) == [(0, "a", 1), (0, "stream", "x")]
    assert timeline.events.get_column("category").to_list() == ["quantum_op"]


def test_extra_args_are_in_the_order_of_events_over_all_categories(tmp_path: Path) -> None:
    events = [
        complete("e", category, i, 1, pid=1, tid=1, args={"z": i})
        for i, category in enumerate(["kernel", "new", "cpu_op", "new", "kernel"])
    ]
    assert extras(timeline_of(tmp_path, events)) == [(i, "z", i) for i in range(5)]


@pytest.mark.parametrize(
    ("key", "value", "column", "read"),
    [
        ("stream", "7", "stream", 7),
        ("stream", "0x1f", "stream", 31),
        ("stream", 7.0, "stream", 7),
        ("warps per SM", "1.5", "warps_per_sm", 1.5),
        ("warps per SM", 2, "warps_per_sm", 2.0),
        ("grid", "[1, 2, 3]", "grid", [1, 2, 3]),
    ],
)
def test_a_value_of_another_type_is_converted_where_that_is_plain(
    tmp_path: Path, key: str, value: object, column: str, read: object
) -> None:
    timeline = one(tmp_path, {key: value})
    assert timeline.device_work.get_column(column).to_list() == [read]
    assert extras(timeline) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("stream", "main"),
        ("stream", 1.5),
        ("stream", [7]),
        ("stream", {"id": 7}),
        ("stream", 2**63),
        ("shared memory", 2**50 + 1),
        ("stream", -(2**63)),
        ("stream", 10**30),
        ("warps per SM", "many"),
        ("grid", [1, 2]),
        ("grid", "big"),
        ("grid", 5),
        ("grid", [2**70, 1, 1]),
        ("grid", [1, 2, "x"]),
        ("kind", 5),
        ("kind", ["a"]),
    ],
)
def test_a_value_that_does_not_fit_its_column_is_in_extra_args(
    tmp_path: Path, key: str, value: object
) -> None:
    timeline = timeline_of(tmp_path, [kernel("k", 1, 2, 3), kernel("k", 4, 5, 6, **Json({key: value}))])
    assert extras(timeline) == [(1, key, value)]
    assert timeline.device_work.get_column("correlation").to_list() == [3, 6]


def test_a_list_of_ranks_that_kineto_cut_short_is_not_lost(tmp_path: Path) -> None:
    """Kineto writes at most thirty items of a list, and dots for the rest."""
    cut = "[" + ", ".join(map(str, range(30))) + ", ...]"
    timeline = one(tmp_path, {"Collective name": "allreduce", "Process Group Ranks": cut})
    assert timeline.collectives.get_column("pg_ranks").to_list() == [None]
    assert extras(timeline) == [(0, "Process Group Ranks", cut)]


@pytest.mark.parametrize("wrong", [[1, 2], "text", 5])
def test_arguments_that_are_no_object_touch_no_other_event(tmp_path: Path, wrong: object) -> None:
    events = [op("a", 1, 2, External_id=1), {**op("b", 3, 4), "args": wrong}, op("c", 5, 6, External_id=3)]
    timeline = timeline_of(tmp_path, events)
    assert timeline.host_ops.get_column("external_id").to_list() == [1, None, 3]
    assert extras(timeline) == [(1, "args", wrong)]


def test_arguments_that_are_null_are_none(tmp_path: Path) -> None:
    events = [op("a", 1, 2, External_id=1), {**op("b", 3, 4), "args": None}]
    timeline = timeline_of(tmp_path, events)
    assert timeline.host_ops.get_column("external_id").to_list() == [1, None]
    assert [event for event, _, _ in extras(timeline)] in ([], [1])


def test_text_in_wrong_encoding_touches_only_its_own_event(tmp_path: Path) -> None:
    text = kineto_text([op("a", 1, 2, note="?"), op("b", 3, 4, External_id=2)]).encode()
    timeline = timeline_of_bytes(tmp_path, text.replace(b'"?"', b'"\xff"'))
    assert extras(timeline) == [(0, "note", "\ufffd")]
    assert timeline.host_ops.get_column("external_id").to_list() == [None, 2]


def test_a_name_of_an_argument_in_wrong_encoding_touches_only_its_own_event(tmp_path: Path) -> None:
    text = kineto_text([op("a", 1, 2, note=1), op("b", 3, 4, External_id=2)]).encode()
    timeline = timeline_of_bytes(tmp_path, text.replace(b'"note"', b'"n\xff"'))
    assert {event for event, _, _ in extras(timeline)} == {0}
    assert timeline.host_ops.get_column("external_id").to_list() == [None, 2]


def test_a_null_is_the_same_as_no_value(tmp_path: Path) -> None:
    timeline = timeline_of(tmp_path, [kernel("k", 1, 2, 3, grid=None, queued=None, kind=None)])
    assert rows(timeline.device_work, "grid", "queued", "kind") == [{}]
    assert extras(timeline) == []


@pytest.mark.parametrize("key", ["memory bandwidth (GB\\/s)", "memory bandwidth (GB\\u002fs)"])
def test_the_name_of_an_argument_may_be_escaped(tmp_path: Path, key: str) -> None:
    text = kineto_text([kernel("m", 1, 2, 3, cat="gpu_memcpy", bandwidth=5.5)])
    timeline = timeline_of_bytes(tmp_path, text.replace('"bandwidth"', f'"{key}"').encode())
    assert timeline.device_work.get_column("bandwidth_gb_per_s").to_list() == [5.5]


@pytest.mark.parametrize("category", DETAIL_TABLES_BY_CATEGORY)
@pytest.mark.parametrize("count", [1, 2])
def test_events_without_arguments_have_rows_too(tmp_path: Path, category: str, count: int) -> None:
    bare = complete("e", category, 1, 2, pid=1, tid=1)
    del bare["args"]
    timeline = timeline_of(tmp_path, [bare] * count)
    for table in DETAIL_TABLES_BY_CATEGORY[category][:1]:
        assert timeline.tables[table.name].get_column("event_id").to_list() == list(range(count))
