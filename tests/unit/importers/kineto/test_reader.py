"""Is a Kineto file read as a whole: header, rank, base time, chunks in order?"""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tracebraid.importers.chunk_workers.parallel as parallel
from tests.builders import Json, et_text, flow, kernel, kineto_text, node, op, process_node, write
from tests.unit.importers.reading import codes, plain, timeline_of
from tracebraid.errors import NotATraceError, WrongTraceError
from tracebraid.importers.kineto.reader import read_timeline

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
    monkeypatch.setattr(parallel, "CHUNK_BYTES", size)
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
        monkeypatch.setattr(parallel, "CHUNK_BYTES", size)
        path = write(tmp_path / "t.json", text)
        (finding,) = read_timeline(path).findings
        assert (finding.code, finding.path, finding.count) == ("event-duration", str(path), 5)
        assert finding.where == f"bytes {first}, ..."


def test_progress_goes_up_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "CHUNK_BYTES", 500)
    done: list[float] = []
    read_timeline(write(tmp_path / "t.json", kineto_text(EVENTS)), processes=1, progress=done.append)
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
    with pytest.raises(NotATraceError, match="nothing that reads as an event"):
        read_timeline(write(tmp_path / "t.json", text))
