"""Is a trace file cut only between its objects, whatever its layout, and is its header whole?"""

from __future__ import annotations

import gzip
import json
import os
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest

from tests.builders import Json, et_text, kineto_text, node, op, process_node, thread_node
from tracebraid.errors import InputError, NotATraceError
from tracebraid.importers.json_stream.chunks import ArrayFile, open_array
from tracebraid.importers.json_stream.header import members_of
from tracebraid.importers.json_stream.source import Source, open_source

EVENTS = [
    op("aten::add", 1, 2, External_id=1),
    op('a "}, {" b', 3, 4, x=[[1], [2, "}]"]]),
    op("c\\", 5, 1, y={"z": {}}),
    op("ü\n", 6, 1),
]
NESTED = {
    "objects in an argument": op("n", 1, 2, x=[{"a": 1}, {"b": 2}, {"c": 3}]),
    "a text that ends like an object": op("n", 1, 2, x=["}, {", ":"]),
    "more objects than can be joined": op("n", 1, 2, x=[{"a": i} for i in range(30)]),
}
DEVICES = [{"id": 0, "name": "A"}, {"id": 1, "name": "B"}]
SIZES = [1, 7, 60, 200, 1 << 20]
FILE = {"schemaVersion": 1, "traceEvents": EVENTS, "traceName": "t"}
LAYOUTS = {
    "as Kineto writes it": kineto_text(EVENTS),
    "one line": json.dumps(FILE),
    "no blanks": json.dumps(FILE, separators=(",", ":")),
    "indented by four": json.dumps(FILE, indent=4, ensure_ascii=False),
    "an event a line": '{"traceEvents" : [\n' + ",\n".join(map(json.dumps, EVENTS)) + "\n]}",
    "a bare list": json.dumps(EVENTS),
    "a bare list, indented": "\ufeff " + json.dumps(EVENTS, indent=1) + "\n",
}


def opened(folder: Path, text: str, packed: bool = False) -> ArrayFile:
    path = folder / "t.json"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    return open_array(open_source(path))


def objects(file: ArrayFile, chunk_bytes: int) -> tuple[list[Any], int]:
    """(all objects, number of chunks)."""
    texts = [bytes(file.view(chunk)) for chunk in file.chunks(chunk_bytes)]
    return [value for text in texts for value in json.loads(b"[" + text + b"]")], len(texts)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_events(tmp_path: Path, layout: str, size: int, packed: bool) -> None:
    file = opened(tmp_path, LAYOUTS[layout], packed)
    assert objects(file, size)[0] == EVENTS
    assert file.problems == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_smallest_chunks_are_one_event_each(tmp_path: Path, layout: str) -> None:
    assert objects(opened(tmp_path, LAYOUTS[layout]), 1)[1] == len(EVENTS)


@pytest.mark.parametrize("size", [1, 60, 500, 20_000])
@pytest.mark.parametrize("some", [EVENTS, [*EVENTS, *NESTED.values()]], ids=["simple", "nested"])
def test_a_stream_is_cut_between_events_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, some: list[Json], size: int
) -> None:
    monkeypatch.setattr(Source, "blocks", partialmethod(Source.blocks, block_bytes=997))
    events = some * 150
    found, chunks = objects(opened(tmp_path, kineto_text(events), packed=True), size)
    assert found == events
    assert chunks > 3


def test_chunks_know_their_place_in_the_uncompressed_file(tmp_path: Path) -> None:
    text = kineto_text(EVENTS).encode()
    for packed in (False, True):
        file = opened(tmp_path, text.decode(), packed)
        for chunk in file.chunks(50):
            assert text[chunk.start : chunk.stop] == bytes(file.view(chunk))


def test_the_last_chunk_completes_the_file(tmp_path: Path) -> None:
    text = kineto_text(EVENTS * 50)
    for packed in (False, True):
        file = opened(tmp_path, text, packed)
        done = [file.fraction_done(chunk) for chunk in file.chunks(500)]
        assert done == sorted(done)
        assert 0.9 < done[-1] <= 1.0


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    "tail",
    [
        {"distributedInfo": {"rank": 3, "pg_config": [{"pg_name": "0"}, {"pg_name": "1"}]}},
        {"deviceProperties": DEVICES},
        {"deviceProperties": DEVICES, "traceName": "t"},
        {"a": DEVICES, "b": DEVICES},
        {"nodes": DEVICES},
        {"deviceProperties": []},
        {"text": '"traceEvents": [ }] '},
    ],
    ids=["distributedInfo", "devices last", "devices", "two lists", "nodes", "empty list", "text"],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_members_after_the_events_are_part_of_the_header(
    tmp_path: Path, tail: Json, indent: int | None, packed: bool
) -> None:
    text = json.dumps({"schemaVersion": 1, "traceEvents": EVENTS, **tail}, indent=indent)
    file = opened(tmp_path, text, packed)
    assert objects(file, 1 << 20)[0] == EVENTS
    assert file.header == {"schemaVersion": 1, **tail}
    assert file.problems == []


@pytest.mark.parametrize(
    "header",
    [
        {"config": {"nodes": [{"id": 1}]}},
        {"config": {"traceEvents": [{"ph": "X"}]}},
        {"text": '"nodes": [{"id": 1}]'},
        {"deviceProperties": DEVICES},
    ],
    ids=["nodes", "traceEvents", "text", "devices"],
)
def test_lists_inside_the_header_are_not_taken_for_the_events(tmp_path: Path, header: Json) -> None:
    file = opened(tmp_path, json.dumps({**header, "traceEvents": EVENTS}))
    assert file.array == "traceEvents"
    assert objects(file, 1)[0] == EVENTS
    assert file.header == header


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_header_larger_than_a_block_is_read(tmp_path: Path, packed: bool) -> None:
    header = {"long": "x" * (5 << 20)}
    file = opened(tmp_path, json.dumps({**header, "traceEvents": EVENTS}), packed)
    assert objects(file, 1 << 20)[0] == EVENTS
    assert file.header == header


@pytest.mark.parametrize("text", ['{"traceEvents": []}', '{"traceEvents": [\n ], "a": 1}', "[]", " [ ] \n"])
def test_an_empty_array_has_no_chunks(tmp_path: Path, text: str) -> None:
    file = opened(tmp_path, text)
    assert list(file.chunks(1)) == []
    assert file.problems == []


@pytest.mark.parametrize("indent", [None, 2])
def test_members_after_a_single_event_are_part_of_the_header(tmp_path: Path, indent: int | None) -> None:
    tail = {"deviceProperties": DEVICES, "more": DEVICES}
    file = opened(tmp_path, json.dumps({"traceEvents": EVENTS[:1], **tail}, indent=indent))
    assert objects(file, 1)[0] == EVENTS[:1]
    assert file.header == tail


def test_members_after_an_empty_array_are_part_of_the_header(tmp_path: Path) -> None:
    file = opened(tmp_path, json.dumps({"traceEvents": [], "deviceProperties": DEVICES}))
    assert list(file.chunks(1)) == []
    assert file.header == {"deviceProperties": DEVICES}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("size", SIZES[:-1])
@pytest.mark.parametrize("kind", NESTED)
def test_no_cut_falls_inside_an_event(tmp_path: Path, kind: str, size: int, packed: bool) -> None:
    events = [EVENTS[0], NESTED[kind], EVENTS[2]]
    assert objects(opened(tmp_path, kineto_text(events), packed), size)[0] == events


@pytest.mark.parametrize("size", SIZES)
def test_nodes_are_cut_between_nodes_and_not_between_their_attributes(tmp_path: Path, size: int) -> None:
    nodes = [process_node(), thread_node(), node(3, "a", 2, [("Int", 1, [])]), node(4, "b", 2)]
    file = opened(tmp_path, et_text(nodes))
    assert file.array == "nodes"
    assert objects(file, size)[0] == nodes
    assert file.header["finish_ts"] == 200


def test_a_file_that_breaks_off_says_so(tmp_path: Path) -> None:
    text = kineto_text(EVENTS)
    file = opened(tmp_path, text[: text.index('"c')])
    list(file.chunks(1 << 20))
    assert [problem.code for problem in file.problems] == ["truncated"]


def test_a_header_that_is_no_json_is_a_problem_and_its_base_time_is_kept(tmp_path: Path) -> None:
    text = '{"a": ,, "baseTimeNanoseconds": 17, "traceEvents": ' + json.dumps(EVENTS) + "}"
    file = opened(tmp_path, text)
    assert objects(file, 1)[0] == EVENTS
    assert [problem.code for problem in file.problems] == ["header-unreadable"]
    assert file.header == {"baseTimeNanoseconds": 17}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('{"a": 1, "b": 2}', "'a', 'b'"),
        ('{"traceEvents": null}', "'traceEvents'"),
        ('{"traceEvents": {}}', "'traceEvents'"),
        ("{}", "none"),
        ("5", "int"),
        ('"text"', "str"),
        ("hello world", "hello world"),
        ("   \n", "blank|starts with"),
    ],
)
def test_json_that_is_no_trace_is_refused_with_what_is_in_it(tmp_path: Path, text: str, word: str) -> None:
    with pytest.raises(NotATraceError, match=word):
        opened(tmp_path, text)


def test_a_file_that_is_cut_while_it_is_read_ends_in_an_error_that_names_it(tmp_path: Path) -> None:
    """The process that has it mapped would be killed."""
    path = tmp_path / "t.json"
    events = b",".join(b'{"ph":"X","name":"%d"}' % number for number in range(20_000))
    path.write_bytes(b'{"traceEvents":[' + events + b"]}")
    file = open_array(open_source(path))
    chunks = file.chunks(1 << 14)
    file.view(next(chunks))
    os.truncate(path, 1 << 15)
    with pytest.raises(InputError, match=r"t\.json: it became shorter while it was read"):
        [file.view(chunk) for chunk in chunks]


def test_a_number_behind_the_array_that_is_beyond_all_limits_costs_itself(tmp_path: Path) -> None:
    text = '{"traceEvents": ' + json.dumps(EVENTS) + ', "id": -1e400, "baseTimeNanoseconds": 17}'
    file = opened(tmp_path, text)
    assert objects(file, 1)[0] == EVENTS
    assert [problem.code for problem in file.problems] == ["header-unreadable"]
    assert file.header == {"baseTimeNanoseconds": 17}


def test_integers_beyond_64_bits_in_a_header_are_floats() -> None:
    assert members_of(b'{"a": {"b": [9223372036854775808, -9223372036854775808]}}') == {
        "a": {"b": [2.0**63, -(2**63)]}
    }
