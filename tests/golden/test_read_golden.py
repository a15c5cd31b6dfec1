"""Is everything that plain `json` finds in real traces found again in the tables?"""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

import tracebraid
from tests.builders import Json
from tests.conftest import find_real_traces
from tracebraid.importers.execution_trace.reader import read_execution_trace
from tracebraid.importers.kineto.reader import read_timeline
from tracebraid.model.column import Kind
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.op_schema import written_positions
from tracebraid.model.schema import DETAIL_TABLES_BY_CATEGORY, ET_COLLECTIVES, ET_NODES
from tracebraid.model.timeline import Timeline

DEMO = tracebraid.demo_path()
REAL = find_real_traces()
NANOSECONDS = "kineto/a100_ddp_nccl_rank0of2.json.gz"
WELL_FORMED = {"rank-unknown", "ranks-differ"}
"""What may be said of a trace that is sound."""


def traces(kind: str, at_most_bytes: int = 1 << 40) -> list[Any]:
    """The traces of a kind, those of other people's jobs with a mark; one to skip where these are not there."""
    found: list[Any] = [path for path in sorted(DEMO.rglob("*.json.gz")) if (kind == "et") == is_et(path)]
    real = [] if REAL is None else [p for p in sorted(REAL.rglob("*.json.gz")) if (kind == "et") == is_et(p)]
    found += [
        pytest.param(path, marks=pytest.mark.traces, id=str(path.relative_to(REAL)))
        for path in real
        if REAL is not None and path.stat().st_size <= at_most_bytes
    ]
    missing = pytest.mark.skip("needs the real traces: set TRACEBRAID_TRACES to their folder")
    return found if REAL is not None else [*found, pytest.param(None, marks=missing, id="real traces")]


def is_et(path: Path) -> bool:
    return path.name.startswith("torch_et") or path.parent.name == "et"


@lru_cache(maxsize=1)
def parsed(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


@lru_cache(maxsize=1)
def timeline_of(path: Path) -> Timeline:
    return read_timeline(path)


@lru_cache(maxsize=1)
def trace_of(path: Path) -> ExecutionTrace:
    return read_execution_trace(path)


@pytest.fixture(scope="module", params=traces("kineto"))
def kineto(request: pytest.FixtureRequest) -> Path:
    """Each Kineto trace; the tests of one run after each other, so that it is parsed once."""
    path: Path = request.param
    return path


@pytest.fixture(scope="module", params=traces("et"))
def et(request: pytest.FixtureRequest) -> Path:
    """Each Execution Trace."""
    path: Path = request.param
    return path


@lru_cache(maxsize=1 << 20)
def value_of(text: str) -> Any:
    return json.loads(text)


def is_timed(event: Json) -> bool:
    return event["ph"] == "X" or (event["ph"] in "iI" and "cat" in event)


def test_events_are_as_many_of_each_category_and_phase(kineto: Path) -> None:
    timeline, events = timeline_of(kineto), parsed(kineto)["traceEvents"]
    assert dict(timeline.events.get_column("category").value_counts().rows()) == dict(
        Counter(event.get("cat") for event in events if is_timed(event))
    )
    assert {row[:2]: row[2] for row in timeline.flows.group_by("category", "phase").len().rows()} == dict(
        Counter((event["cat"], event["ph"]) for event in events if event["ph"] in "stf")
    )
    assert dict(timeline.tables["other_events"].get_column("phase").value_counts().rows()) == dict(
        Counter(e["ph"] for e in events if not is_timed(e) and e["ph"] not in "stfM")
    )
    assert {finding.code for finding in timeline.findings} <= WELL_FORMED


def test_the_header_is_all_but_the_events(kineto: Path) -> None:
    assert timeline_of(kineto).header == {k: v for k, v in parsed(kineto).items() if k != "traceEvents"}


@pytest.mark.parametrize("path", traces("kineto", 100_000))
def test_names_lanes_and_flows_are_those_of_the_file(path: Path) -> None:
    timeline, events = timeline_of(path), parsed(path)["traceEvents"]
    timed = [event for event in events if is_timed(event)]
    assert timeline.events.get_column("name").to_list() == [event["name"] for event in timed]
    ends = [event for event in events if event["ph"] in "stf"]
    assert timeline.flows.get_column("flow_id").to_list() == [event["id"] for event in ends]
    lanes = [
        (pid if pid is not None else pid_text, tid if tid is not None else tid_text)
        for pid, tid, pid_text, tid_text in timeline.lanes.select("pid", "tid", "pid_text", "tid_text").rows()
    ]
    assert [lanes[lane] for lane in timeline.events.get_column("lane")] == [lane_of(event) for event in timed]
    assert [lanes[lane] for lane in timeline.flows.get_column("lane")] == [lane_of(event) for event in ends]


def lane_of(event: Json) -> tuple[Any, Any]:
    pid, tid = (int(v) if isinstance(v, str) and v.isdigit() else v for v in (event["pid"], event["tid"]))
    return pid, tid


def found_again(kind: Kind, column: Any, value: Any) -> bool:
    if kind is Kind.JSON:
        return bool(json.loads(column) == value)
    if kind is Kind.INTS:
        return bool(column == (json.loads(value) if isinstance(value, str) else value))
    if kind in (Kind.NAME, Kind.TEXT):
        return bool(column == str(value))
    return bool(column == value)


@pytest.mark.parametrize("path", traces("kineto", 800_000))
def test_every_argument_is_in_its_column_or_among_the_extra_ones(path: Path) -> None:
    timeline = timeline_of(path)
    extra: dict[int, Json] = defaultdict(dict)
    for event_id, key, value in timeline.tables["extra_args"].rows():
        assert key not in extra[event_id]
        extra[event_id][key] = json.loads(value)
    rows: dict[str, dict[int, Json]] = {
        name: {row["event_id"]: row for row in timeline.tables[name].to_dicts()}
        for name in {table.name for tables in DETAIL_TABLES_BY_CATEGORY.values() for table in tables}
    }
    checked = 0
    for event_id, event in enumerate(filter(is_timed, parsed(path)["traceEvents"])):
        places = {
            key: (table.name, column)
            for table in DETAIL_TABLES_BY_CATEGORY.get(event["cat"], ())
            for column in table.columns
            for key in column.keys
        }
        for key, value in event.get("args", {}).items():
            checked += 1
            if key in extra[event_id]:
                assert extra[event_id].pop(key) == value
                continue
            assert key in places, (event_id, key, value)
            table, column = places[key]
            assert found_again(column.kind, rows[table][event_id][column.name], value), (event_id, key, value)
        assert extra[event_id] == {}
    assert checked > 0


@pytest.mark.traces
def test_times_are_exact_to_the_nanosecond(real_traces: Path) -> None:
    path = real_traces / NANOSECONDS
    raw = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
    base = raw["baseTimeNanoseconds"]
    timed = [event for event in raw["traceEvents"] if is_timed(event)]
    events = read_timeline(path).events
    starts = [base + int(Decimal(event["ts"]) * 1000) for event in timed]
    assert any(Decimal(event["ts"]) * 1000 % 1000 for event in timed)
    assert events.get_column("ts_ns").to_list() == starts
    durations = [int(Decimal(event.get("dur", 0)) * 1000) for event in timed]
    assert events.get_column("dur_ns").to_list() == durations
    assert events.get_column("dur_ns").sum() == sum(Decimal(event.get("dur", 0)) for event in timed) * 1000


@pytest.mark.parametrize("path", traces("kineto", 1 << 20))
def test_all_traces_are_read_the_same_in_small_chunks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = timeline_of(path)
    monkeypatch.setattr("tracebraid.importers.chunk_decoding.CHUNK_BYTES", 50_000)
    pieced = read_timeline(path)
    for name, table in expected.tables.items():
        assert pieced.tables[name].equals(table), name
    assert pieced.header == expected.header


def side_values(node: Json, side: str) -> list[tuple[Any, Any, Any]]:
    """(type, value, shape) of the inputs or outputs of a node of any schema."""
    if isinstance(node[f"{side}s"], dict):
        lists = (node[f"{side}s"][key] for key in ("types", "values", "shapes"))
    else:
        lists = (node[key] for key in (f"{side}_types", f"{side}s", f"{side}_shapes"))
    return list(zip(*lists, strict=True))


def test_every_value_of_every_node_is_read(et: Path) -> None:
    raw, trace = parsed(et), trace_of(et)
    nodes = raw["nodes"][:: 1 if len(raw["nodes"]) < 5000 else 4]
    ids = {node["id"] for node in nodes}
    expected = {
        (node["id"], side == "output", position): value
        for node in nodes
        for side in ("input", "output")
        for position, value in enumerate(side_values(node, side))
    }
    found = {
        (node, output, position): (kind, value_of(value), value_of(shape))
        for node, output, position, kind, value, shape, _ in trace.values.rows()
        if node in ids
    }
    assert found == expected
    assert trace.header == {key: value for key, value in raw.items() if key != "nodes"}
    assert {finding.code for finding in trace.findings} <= WELL_FORMED | {"parent-missing"}


def test_every_attribute_of_every_node_is_read(et: Path) -> None:
    trace, raw = trace_of(et), parsed(et)["nodes"]
    rows = {row["node_id"]: row for row in trace.nodes.to_dicts()}
    collectives = {row["node_id"]: row for row in trace.collectives.to_dicts()}
    extra = {(node, key): json.loads(value) for node, key, _, value in trace.extra_attrs.rows()}
    columns = {column.name for column in ET_NODES.columns}
    of_collectives = {key for column in ET_COLLECTIVES.columns for key in column.keys}
    for node in raw:
        row = rows[node["id"]]
        parent = node.get("ctrl_deps", node.get("parent"))
        assert row["name"] == node["name"]
        assert row["parent_id"] == (None if parent == node["id"] else parent)
        attrs = {attr["name"]: attr["value"] for attr in node.get("attrs", [])}
        attrs |= {key: node[key] for key in columns & node.keys() - {"name"}}
        for key, value in attrs.items():
            if key in columns:
                assert row[key] == value
            elif key in of_collectives:
                assert collectives[node["id"]][key] == value
            else:
                assert extra[node["id"], key] == value
    assert len(rows) == len(raw)


def producers_by_walking(trace: ExecutionTrace) -> set[tuple[int, int, int]]:
    """(producer, consumer, tensor_id) of each read: who wrote that address last before the reader started."""
    ids = trace.nodes.get_column("node_id").to_list()
    row_of = {node: row for row, node in enumerate(ids)}
    last = list(range(len(ids)))
    for row in reversed(range(len(ids))):
        parent = row_of.get(trace.nodes.item(row, "parent_id"))
        if parent is not None and parent < row:
            last[parent] = max(last[parent], last[row])
    schemas = [written_positions(schema or "") for schema in trace.nodes.get_column("op_schema").to_list()]
    uses = trace.tensor_uses.join(trace.tensors, on="tensor", maintain_order="left")
    reads: dict[int, set[Any]] = defaultdict(set)
    given: dict[int, set[Any]] = defaultdict(set)
    changed: dict[int, set[Any]] = defaultdict(set)
    for node, output, position, *key in uses.select(
        "node_id", "is_output", "position", "tensor_id", "storage_id", "device"
    ).rows():
        row = row_of[node]
        (given if output else reads)[row].add(tuple(key))
        if position in schemas[row][int(output)]:
            changed[row].add(tuple(key))
    fresh = {row: keys - reads[row] for row, keys in given.items()}
    writers: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    for kind in (fresh, changed):
        rows_of: dict[Any, list[int]] = defaultdict(list)
        for row, keys in kind.items():
            for key in keys:
                rows_of[key].append(row)
        for key, rows in rows_of.items():
            inner = [row for row in rows if not any(row < other <= last[row] for other in rows)]
            writers[key] += [(2 * last[row] + 1, row) for row in inner]
    edges = set()
    for row, keys in reads.items():
        for key in keys:
            before = [(end, writer) for end, writer in writers[key] if end < 2 * row]
            if before:
                edges.add((ids[max(before)[1]], ids[row], key[0]))
    return edges


@pytest.mark.parametrize("path", traces("et", 60_000))
def test_producers_are_those_that_a_plain_walk_finds(path: Path) -> None:
    trace = trace_of(path)
    direct = trace.tensor_edges.filter(trace.tensor_edges.get_column("via") == "tensor").join(
        trace.tensors.select("tensor", "tensor_id"), on="tensor"
    )
    found = set(direct.select("producer", "consumer", "tensor_id").rows())
    assert found == producers_by_walking(trace)
    assert found
