"""Does every argument of every kind of event reach its column, and what has none `extra_args`?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.builders import Json, call, complete, flow, kernel, kineto_text, op, write
from tests.unit.importers.reading import rows, timeline_of, timeline_of_bytes
from tracebraid import link
from tracebraid.analyses import breakdown, copies, kernels, ops
from tracebraid.importers.kineto.decode import phases_of, read_events
from tracebraid.model.category import CATEGORY_BY_OLD_NAME, Category, Work, categories_of
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.schema import COLLECTIVES, DETAIL_TABLES_BY_CATEGORY, DEVICE_WORK
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


ON_STREAMS = categories_of(Work.KERNEL, Work.COPY)


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
        # Kineto writes the stream of work as its thread as well.
        bare_value = 1 if table is DEVICE_WORK and key == "stream" and category in ON_STREAMS else None
        assert rows_by_event.get(0) == rows_by_event.get(2) == bare_value


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
    assert rows(timeline.device_work) == [{"event_id": 0, "stream": 7, "correlation": 3, "grid": [1, 2, 3]}]


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


# --- Are the events of a chunk read as typed objects, and is the place of each known -----------------


COUNTER: Json = {"ph": "C", "name": "n", "pid": 1, "ts": 1, "args": {"v": 1}}
META: Json = {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "p"}}
INSTANT: Json = {"ph": "i", "name": "[memory]", "cat": "cpu_instant_event", "ts": 1, "pid": 1, "tid": 1}
USUAL = [op("a", 1, 2), flow("s", 1, 1), flow("f", 1, 2), META, INSTANT]


def read(values: list[Any]) -> tuple[list[Any], list[str], list[str]]:
    """(events, phases, codes of issues)."""
    data = json.dumps(values)[1:-1].encode()
    events, _, issues = read_events(data, 0, b"")
    phases = phases_of(events)
    return events, [str(phases.values[code]) for code in phases.codes], [issue.code for issue in issues]


def test_the_phases_that_kineto_writes_are_read() -> None:
    events, phases, issues = read(USUAL)
    assert phases == ["X", "s", "f", "M", "i"]
    assert (events[0].name, events[0].ts, events[0].dur, events[1].id) == ("a", 1.0, 2.0, 1)
    assert issues == []


def test_other_phases_are_read_beside_them() -> None:
    events, phases, issues = read([*USUAL, COUNTER, {"ph": "B", "ts": 1}])
    assert phases == ["X", "s", "f", "M", "i", "C", "B"]
    assert [event.name for event in events[:2]] == ["a", "ac2g"]
    assert issues == []


def test_wrong_types_of_members_do_not_cost_an_event() -> None:
    odd = {**op("b", 1, 2), "pid": [1], "tid": 1.5, "name": 7, "cat": 8, "ts": "3", "args": [1]}
    events, phases, issues = read([op("a", 1, 2), odd])
    assert phases == ["X", "X"]
    assert (events[1].name, events[1].cat, events[1].ts, events[1].pid) == ("7", "8", 3.0, "[1]")
    assert issues == []


def test_what_is_no_event_is_an_issue() -> None:
    events, _, issues = read([op("a", 1, 2), {"no": "phase"}, {"ph": 5}, op("b", 1, 2)])
    assert [event.name for event in events] == ["a", "b"]
    assert issues == ["event-unreadable", "event-unreadable"]


def test_places_and_texts_are_those_of_the_file() -> None:
    start = 1000
    for values in (USUAL, [*USUAL, COUNTER], [*USUAL, complete("b", "c", 1, 2, pid=[1], tid=1)]):
        data = (" " + ",\n ".join(map(json.dumps, values)) + "\n").encode()
        events, place, _ = read_events(data, start, b"")
        every = list(range(len(events)))
        assert [json.loads(text) for text in place.texts()] == values
        found = [data[byte - start :] for byte in place.bytes_of(every)]
        assert all(
            rest.lstrip().startswith(json.dumps(value).encode())
            for rest, value in zip(found, values, strict=True)
        )


# --- Categories of before 2022, unknown ones, and device work that no host op explains ---------------


def codes(timeline: Timeline) -> list[str]:
    return [finding.code for finding in timeline.findings]


def of_2022() -> list[Json]:
    """A step as PyTorch 1.9 wrote it."""
    events = [
        op("ProfilerStep#1", 0, 200, cat="User Annotation"),
        op("aten::mm", 10, 50, cat="Operator", Input_dims=[[2, 3], [3, 4]]),
        call("cudaLaunchKernel", 20, 5, 1, cat="Runtime"),
        call("cudaMemcpyAsync", 30, 5, 2, cat="Runtime"),
        call("cudaMemsetAsync", 40, 5, 3, cat="Runtime"),
        kernel("gemm", 100, 20, 1, cat="Kernel"),
        kernel("Memcpy HtoD", 130, 10, 2, cat="Memcpy"),
        kernel("Memset (Device)", 150, 5, 3, cat="Memset"),
    ]
    for event in events:
        if event["cat"] in ("Runtime", "Kernel", "Memcpy", "Memset"):
            event["args"]["external id"] = 7
    return events


def test_old_categories_answer_as_todays_do(tmp_path: Path) -> None:
    linked = link(None, timeline_of(tmp_path, of_2022()))
    over_all = breakdown(linked).to_dicts()[0]
    assert (over_all["compute_ns"], over_all["memory_ns"]) == (20_000, 15_000)
    assert breakdown(linked).get_column("step").to_list() == [None, "ProfilerStep#1"]
    assert set(kernels(linked).get_column("kind")) == {"compute", "memory"}
    mm = ops(linked).filter(name="aten::mm").to_dicts()[0]
    assert (mm["category"], mm["device_self_ns"], mm["kernels"]) == ("cpu_op", 35_000, 3)


def test_old_categories_fill_the_tables_of_todays(tmp_path: Path) -> None:
    timeline = timeline_of(tmp_path, of_2022())
    assert timeline.device_work.get_column("external_id").to_list() == [7, 7, 7]
    assert timeline.host_calls.get_column("correlation").to_list() == [1, 2, 3]
    assert timeline.host_ops.get_column("input_dims").drop_nulls().len() == 1


def test_the_old_names_are_said_once(tmp_path: Path) -> None:
    timeline = timeline_of(tmp_path, of_2022())
    assert codes(timeline).count("category-old") == 1
    (finding,) = (one for one in timeline.findings if one.code == "category-old")
    assert all(name in finding.message for name in ("Kernel", "Operator", "Runtime", "User Annotation"))


def test_old_and_new_names_in_one_trace_are_one_category(tmp_path: Path) -> None:
    timeline = timeline_of(
        tmp_path, [kernel("a", 0, 5, 1, cat="Kernel"), kernel("b", 10, 5, 2), op("x", 0, 1)]
    )
    assert timeline.events.get_column("category").cast(str).to_list() == ["kernel", "kernel", "cpu_op"]
    assert timeline.device_work.height == 2


def test_no_old_name_is_one_of_today() -> None:
    assert not set(CATEGORY_BY_OLD_NAME) & {category.value for category in Category}


def test_device_work_of_an_unknown_category_is_said(tmp_path: Path) -> None:
    timeline = timeline_of(tmp_path, [op("x", 0, 5), kernel("k", 10, 5, 1, cat="npu_kernel")])
    assert "device-work-unread" in codes(timeline)


def test_host_events_of_an_unknown_category_are_said_but_are_no_device_work(tmp_path: Path) -> None:
    timeline = timeline_of(tmp_path, [op("x", 0, 5), complete("y", "my_tool", 1, 2, 1, 1)])
    assert "category-unknown" in codes(timeline)
    assert "device-work-unread" not in codes(timeline)


def test_nodes_of_graphs_that_are_no_device_work_are_known(tmp_path: Path) -> None:
    """As torch's `cupti_monitor` writes events and host functions of CUDA graphs; their arguments stay reachable."""
    nodes = [kernel(cat, 10, 5, 1, cat=cat, stream=7) for cat in ("graph_event_node", "graph_host_node")]
    timeline = timeline_of(tmp_path, [op("x", 0, 5), *nodes])
    assert codes(timeline) == []
    assert not timeline.has_device
    assert (1, "stream", "7") in timeline.tables["extra_args"].rows()


@pytest.mark.parametrize(
    ("args", "name", "row"),
    [
        (("HtoD", "pinned", "device"), "Memcpy HtoD (Pinned -> Device)", ("HtoD", "Pinned", "Device")),
        (("DtoH", "device_static", None), "Memcpy DtoH", ("DtoH", None, None)),
        (("DtoD", "device_static", "device"), "Memcpy DtoD (Device Static -> Device)", None),
        ((9, "unknown", "device"), "Memcpy", (None, None, None)),
        ((None, "pinned", "device"), "Memcpy", (None, None, None)),
    ],
)
def test_copies_that_only_their_arguments_describe_are_named_as_kineto_names_them(
    tmp_path: Path, args: tuple[Any, ...], name: str, row: tuple[Any, ...] | None
) -> None:
    """As torch's `cupti_monitor` writes them; another copy beside it keeps its name."""
    keys = ("copy kind", "src kind", "dst kind")
    known = {key: value for key, value in zip(keys, args, strict=True) if value is not None}
    copy = kernel("Memcpy", 10, 5, 1, cat="gpu_memcpy", bytes=400)
    copy["args"] |= known
    other = kernel("Memcpy DtoH (Device -> Pageable)", 20, 5, 2, cat="gpu_memcpy", bytes=400)
    timeline = timeline_of(tmp_path, [op("x", 0, 5), copy, other])
    assert timeline.events.get_column("name").cast(str).to_list() == ["x", name, other["name"]]
    found = copies(link(None, timeline)).filter(pl.col("source").is_null() | (pl.col("source") != "Device"))
    if row is not None:
        assert found.select("direction", "source", "target").rows() == [row]
    assert {key for _, key, _ in timeline.tables["extra_args"].rows()} == set(known)


def test_new_arguments_of_kernels_stay_reachable(tmp_path: Path) -> None:
    more: Json = {
        "channel": 3,
        "channel_type": 1,
        "priority": -5,
        "occupancy": {"theoretical": 0.5, "limiter": "regs"},
    }
    timeline = timeline_of(tmp_path, [op("x", 0, 5), kernel("k", 10, 5, 1, **more)])
    assert timeline.device_work.get_column("priority").to_list() == [-5]
    found = {key: json.loads(value) for _, key, value in timeline.tables["extra_args"].rows()}
    assert found == {key: value for key, value in more.items() if key != "priority"}


@pytest.mark.parametrize("cat", ["kernel", "Kernel"])
def test_device_work_without_host_ops_is_said_where_the_answer_of_ops_is_empty(
    tmp_path: Path, cat: str
) -> None:
    timeline = timeline_of(tmp_path, [kernel("k", 10, 5, 1, cat=cat)])
    assert ops(link(None, timeline)).is_empty()
    assert "host-ops-missing" in codes(timeline)


def test_a_trace_of_todays_categories_gives_no_finding(tmp_path: Path) -> None:
    assert codes(timeline_of(tmp_path, [op("x", 0, 5), call("l", 1, 1, 1), kernel("k", 10, 5, 1)])) == []


def test_shapes_stand_on_one_line_however_the_file_is_indented(tmp_path: Path) -> None:
    dims = [[2, 3], [], [[4], [5]]]
    event = op("x", 0, 5, Input_Dims=dims, Concrete_Inputs=["a\nb", "[1,2]"])
    text = json.dumps({"traceEvents": [event]}, indent=2)
    timeline = timeline_of_bytes(tmp_path, text.encode())
    row = timeline.host_ops.to_dicts()[0]
    assert row["input_dims"] == "[[2, 3], [], [[4], [5]]]"
    assert row["concrete_inputs"] == '["a\\nb", "[1,2]"]'


def test_equal_shapes_written_in_two_ways_are_one_row_of_ops(tmp_path: Path) -> None:
    text = kineto_text([op("x", 0, 5, Input_Dims=[[2, 3]]), op("x", 10, 5, Input_Dims=[[2, 3]])])
    plain, broken = json.dumps([[2, 3]]), json.dumps([[2, 3]], indent=2).replace("\n", "\n      ")
    assert text.count(plain) == 2
    path = write(tmp_path / "kineto_trace_0.json", text.replace(plain, broken, 1).replace(plain, "[[2,3]]"))
    assert ops(link(None, path)).get_column("count").to_list() == [2]
