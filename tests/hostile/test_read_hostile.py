"""Whatever a file holds: the rest is read with a located finding, or one InputError names the file and a way out."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders import (
    Json,
    complete,
    et_text,
    flow,
    kernel,
    kineto_text,
    node,
    op,
    process_node,
    tensor,
    thread_node,
)
from tracebraid.errors import InputError, NotATraceError, WrongTraceError
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.timeline import Timeline
from tracebraid.read.execution_trace import read_execution_trace
from tracebraid.read.kineto import read_timeline

EVENTS = [op("first", 1, 2, External_id=1), op("second", 3, 4), op("third", 5, 6, External_id=3)]
X = tensor(10, 100, [4])
NODES = [
    process_node(),
    thread_node(),
    node(3, "first", 2, [], [X]),
    node(4, "second", 2, [X]),
    node(5, "third", 2, [X]),
]
KINETO, ET = kineto_text(EVENTS), et_text(NODES)
DEEP = "[" * 100_000 + "]" * 100_000
UNLOCATED = {"rank-unknown", "schema-unknown", "base-time"}
"""Findings that are about a file as a whole."""


def timeline(folder: Path, data: str | bytes, name: str = "t.json") -> Timeline:
    path = folder / name
    path.unlink(missing_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))
    found = read_timeline(path, processes=1)
    assert_located(found, path)
    return found


def trace(folder: Path, data: str | bytes, name: str = "et.json") -> ExecutionTrace:
    path = folder / name
    path.unlink(missing_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))
    found = read_execution_trace(path)
    assert_located(found, path)
    return found


def assert_located(found: Timeline | ExecutionTrace, path: Path) -> None:
    for finding in found.findings:
        assert finding.path == str(path)
        assert finding.count >= 1
        assert finding.message
        assert finding.where or finding.code in UNLOCATED, finding


def names(found: Timeline) -> list[str]:
    return found.events.get_column("name").to_list()


def codes(found: Timeline | ExecutionTrace) -> list[str]:
    return [finding.code for finding in found.findings if finding.code not in UNLOCATED]


def refused(read: Callable[[], object], path: Path | str) -> InputError:
    """The one error, which names the file and what to do."""
    with pytest.raises(InputError) as caught:
        read()
    assert caught.value.path == str(path)
    assert str(path) in str(caught.value)
    assert caught.value.problem
    assert caught.value.advice
    return caught.value


@pytest.mark.parametrize("read", [read_timeline, read_execution_trace])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" \n\n",
        b"\x00" * 500,
        b"\x89PNG\r\n\x1a\n" + b"\x00" * 100,
        b"\xff\xfe{\x00",
        b"{",
        b"[",
        b"{}",
        b"[]",
        b"5",
        b"null",
        b'"traceEvents"',
        b'{"a": [1, 2]}',
        b'{"traceEvents": null}',
        b'{"traceEvents": 5, "nodes": {}}',
        b'{"traceEvents": [5, "x", null]}',
        b'{"nodes": [5, "x", null]}',
        b"hello, world",
        b"\xef\xbb\xbf",
        b"\x1f\x8b",
        gzip.compress(b""),
        gzip.compress(b"\x89PNG\r\n\x1a\n"),
        gzip.compress(gzip.compress(KINETO.encode())),
        DEEP.encode(),
        b'{"a":' * 100_000,
        random.Random(3).randbytes(3000),
    ],
    ids=range(26),
)
def test_what_is_no_trace_is_refused_in_one_error(
    tmp_path: Path, read: Callable[[Path], object], data: bytes
) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(data)
    refused(lambda: read(path), path)


@pytest.mark.parametrize("read", [read_timeline, read_execution_trace])
def test_folders_missing_files_and_odd_paths_are_refused(
    tmp_path: Path, read: Callable[[Path | str], object]
) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path, tmp_path / "gone", tmp_path / "loop", "a\0b", "x" * 5000, ""):
        with pytest.raises(InputError) as caught:
            read(path)
        assert caught.value.advice


def test_a_trace_of_the_other_kind_is_refused_as_such(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(ET)
    assert isinstance(refused(lambda: read_timeline(path), path), WrongTraceError)
    path.write_text(KINETO)
    assert isinstance(refused(lambda: read_execution_trace(path), path), WrongTraceError)


LAYOUTS = {
    "as Kineto writes it": KINETO,
    "one line": json.dumps({"traceEvents": EVENTS, "distributedInfo": {"rank": 0}}),
    "a bare list": json.dumps([*EVENTS, op("nested", 1, 2, x=[{"a": 1}, {"b": [{}]}])]),
}


def ends(text: str, array: str) -> list[int]:
    """Where each object of the array ends."""
    place = text.index("[", text.index(array) if array in text else 0) + 1
    found = []
    while "{" in text[place:]:
        begin = text.index("{", place)
        if text[place:begin].strip(" \n,"):
            break
        place = json.JSONDecoder().raw_decode(text, begin)[1]
        found.append(place)
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_trace_cut_at_any_byte_gives_all_events_before_the_cut(tmp_path: Path, layout: str) -> None:
    text = LAYOUTS[layout]
    whole = ends(text, '"traceEvents"')
    assert len(whole) >= 3
    for cut in range(len(text.rstrip())):
        before = sum(end <= cut for end in whole)
        try:
            found = timeline(tmp_path, text[:cut])
        except NotATraceError:
            assert before == 0, cut
            continue
        assert names(found) == ["first", "second", "third", "nested"][:before], cut
        assert codes(found), cut


def test_an_execution_trace_cut_at_any_byte_gives_all_nodes_before_the_cut(tmp_path: Path) -> None:
    brief = [{**one, "attrs": one["attrs"][:2]} for one in NODES[:4]]
    text = et_text(brief)
    whole = ends(text, '"nodes"')
    assert len(whole) == 4
    for cut in range(len(text.rstrip())):
        before = sum(end <= cut for end in whole)
        try:
            found = trace(tmp_path, text[:cut])
        except NotATraceError:
            assert before == 0, cut
            continue
        assert found.nodes.height == before, cut
        assert "truncated" in codes(found), cut


def test_a_gzip_file_cut_at_any_byte_gives_the_rest_or_one_error(tmp_path: Path) -> None:
    packed = gzip.compress(KINETO.encode(), mtime=0)
    most = 0
    for cut in range(1, len(packed)):
        try:
            found = timeline(tmp_path, packed[:cut], "t.json.gz")
        except NotATraceError:
            assert most == 0, cut
            continue
        assert "gzip-damaged" in codes(found), cut
        assert len(names(found)) >= most
        most = len(names(found))
    assert most == 3


def test_a_damaged_gzip_file_gives_the_rest_or_one_error(tmp_path: Path) -> None:
    text = kineto_text([op(random.Random(i).randbytes(40).hex(), i, 1) for i in range(500)])
    packed = gzip.compress(text.encode(), mtime=0)
    for seed in range(40):
        rng = random.Random(seed)
        damaged = bytearray(packed)
        at = rng.randrange(len(packed) // 2, len(packed) - 9)
        damaged[at : at + 4] = rng.randbytes(4)
        found = timeline(tmp_path, bytes(damaged), "t.json.gz")
        assert "gzip-damaged" in codes(found)
        assert len(names(found)) > 150


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ('"second"', '"say "hello", "x""', ["first", 'say "hello", "x"', "third"]),
        ('"second"', '"a\x00\x1f\n\tb"', ["first", "a\x00\x1f\n\tb", "third"]),
        ('"second"', '"a\\ud800b"', None),
        ('"second"', '"a\\xb"', None),
        ('"ts": 3', '"ts": NaN', None),
        ('"ts": 3', '"ts": 1e400', None),
        ('"ts": 3', '"ts": 3,', None),
        ('"ts": 3', '"ts": 03', None),
        ('"ts": 3', '"ts" 3', None),
        ('"ts": 3', '"ts": 1' + "0" * 5000, None),
        ('"dur": 4', '"dur": -4', ["first", "second", "third"]),
        ('"dur": 4', '"dur": -Infinity', ["first", "second", "third"]),
        ('"dur": 4', '"dur": 1e400', ["first", "second", "third"]),
        ('"dur": 4', '"dur": 1' + "0" * 30, ["first", "second", "third"]),
        ('"ph": "X",\n    "cat": "cpu_op",\n    "name": "second"', '"name": "second"', None),
        ('"name": "second"', '"name": "second", "x": ' + DEEP, None),
        ('"name": "second"', '"name": "second" "x": 1', None),
    ],
    ids=range(17),
)
def test_damage_in_one_event_is_said_and_costs_no_other(
    tmp_path: Path, old: str, new: str, kept: list[str] | None
) -> None:
    text = KINETO.replace(old, new, 1)
    assert text != KINETO
    found = timeline(tmp_path, text)
    assert names(found) == kept or (kept is None and {"first", "third"} <= set(names(found)))
    assert found.host_ops.drop_nulls("external_id").get_column("external_id").to_list() == [1, 3]
    places = [one.where for one in found.findings if one.code not in UNLOCATED]
    assert places
    for place in places:
        assert re.fullmatch(r"byte [\d,]+", place)
        byte = int(place.removeprefix("byte ").replace(",", ""))
        before = text[:byte].encode("utf-8", "surrogatepass")[:byte].decode("utf-8", "surrogatepass")
        assert before.count('"ph": "X"') == 1
        assert text[len(before) :].lstrip().startswith("{")


def test_a_name_in_another_encoding_is_mended(tmp_path: Path) -> None:
    found = timeline(tmp_path, KINETO.encode().replace(b"second", b"se\xffcond\xe4"))
    assert names(found) == ["first", "se\ufffdcond\ufffd", "third"]
    assert codes(found) == ["event-mended"]


@pytest.mark.parametrize("old", [b"label", b"python"])
def test_a_name_of_a_process_in_another_encoding_costs_nothing(tmp_path: Path, old: bytes) -> None:
    meta = {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python", "label": 1}}
    found = timeline(tmp_path, kineto_text([meta, *EVENTS]).encode().replace(old, b"p\xae"))
    assert names(found) == ["first", "second", "third"]


@pytest.mark.parametrize("wrong", ["x", 1])
def test_a_number_of_thousands_of_digits_costs_no_other_event(tmp_path: Path, wrong: object) -> None:
    odd = {**kernel("odd", 3, 4, 5), "args": {"stream": wrong, "new": "@", "queued": "@"}}
    text = kineto_text([EVENTS[0], odd, EVENTS[2]]).replace('"@"', "9" * 5000)
    assert {"first", "third"} <= set(names(timeline(tmp_path, text)))


def test_a_time_that_is_a_truth_value_costs_no_exact_time(tmp_path: Path) -> None:
    events = [op("first", 1700000000000000.5, 1), {**op("odd", 1, 2), "ts": True}, op("third", 5, 6)]
    starts = dict(timeline(tmp_path, kineto_text(events)).events.select("name", "ts_ns").rows())
    assert starts["first"] == 1700000000000000500


@pytest.mark.parametrize("odd", ["5", '"x"', "[1]", "null", "{}", "[]", '[{"ph": "X"}]', "", "}", "]", "["])
def test_something_between_two_events_costs_no_event(tmp_path: Path, odd: str) -> None:
    texts = [json.dumps(event) for event in EVENTS]
    found = timeline(tmp_path, '{"traceEvents": [' + ", ".join([*texts[:2], odd, texts[2]]) + "]}")
    assert names(found)[:2] == ["first", "second"]
    assert "third" in names(found)


@pytest.mark.parametrize("tail", ["x", "}", "]", "\x00" * 4096, KINETO, '{"traceEvents": []}', '"', "\\"])
def test_something_after_the_trace_costs_no_event(tmp_path: Path, tail: str) -> None:
    found = timeline(tmp_path, KINETO + tail)
    assert names(found)[:3] == ["first", "second", "third"]
    assert codes(found) != []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"schemaVersion": 1', '"schemaVersion": '),
        ('"schemaVersion": 1', '"schemaVersion": "a"b"'),
        ('"schemaVersion": 1', '"schemaVersion": NaN'),
        ('"schemaVersion": 1', '"schemaVersion": "\x01"'),
        ('"schemaVersion": 1', '"schemaVersion": ' + DEEP),
        ('"schemaVersion": 1,', '"schemaVersion": 1'),
        ('{\n  "schemaVersion"', '{{\n  "schemaVersion"'),
    ],
    ids=range(7),
)
def test_a_damaged_header_costs_no_event(tmp_path: Path, old: str, new: str) -> None:
    text = kineto_text(EVENTS, header={"baseTimeNanoseconds": 1000000}).replace(old, new, 1)
    found = timeline(tmp_path, text)
    assert names(found) == ["first", "second", "third"]
    assert codes(found) == ["header-unreadable"]
    assert found.base_time_ns == 1000000


@pytest.mark.parametrize(
    "tail", ['"x": NaN', '"x": "a"b"', '"x": ' + DEEP, '"x": ', '"x": [{"a": 1}, {"b": }]']
)
def test_damage_after_the_events_costs_no_event(tmp_path: Path, tail: str) -> None:
    found = timeline(tmp_path, KINETO.replace('"traceName": "t.json"', tail))
    assert names(found) == ["first", "second", "third"]
    assert codes(found) != []


@pytest.mark.parametrize(
    "info",
    [
        {"rank": 10**30, "world_size": -(10**30)},
        {"rank": "x", "pg_config": [{"pg_size": 10**30, "ranks": [10**30, "x"]}, 5, None]},
        {"pg_config": "[[[["},
        [],
        "x",
        {"rank": {"rank": 1}, "world_size": [1]},
    ],
)
def test_odd_members_of_the_header_cost_no_event(tmp_path: Path, info: object) -> None:
    header = {"distributedInfo": info, "deviceProperties": {"a": 1}, "baseTimeNanoseconds": {"a": 1}}
    found = timeline(tmp_path, kineto_text(EVENTS, header=header))
    assert names(found) == ["first", "second", "third"]
    assert found.device_names == []


ODD_VALUES = [None, True, "", "x", "7", -1, 1.5, 10**30, -(10**30), 2**63, [], [[1]], {}, {"a": {}}]


@pytest.mark.parametrize("member", ["pid", "tid", "ts", "dur", "name", "cat", "args", "ph", "id", "bp"])
def test_any_type_of_any_member_of_an_event_costs_no_other(tmp_path: Path, member: str) -> None:
    for value in ODD_VALUES:
        for odd in (op("odd", 3, 4, External_id=9), flow("s", 7, 3), kernel("odd", 3, 4, 5)):
            found = timeline(tmp_path, kineto_text([EVENTS[0], {**odd, member: value}, EVENTS[2]]))
            assert {"first", "third"} <= set(names(found)), (member, value)
            assert {1, 3} <= set(found.host_ops.get_column("external_id").to_list()), (member, value)


@pytest.mark.parametrize("member", ["ph", "cat", "name", "pid", "tid", "ts", "dur", "args"])
def test_an_event_without_a_member_costs_no_other(tmp_path: Path, member: str) -> None:
    odd = op("odd", 3, 4)
    del odd[member]
    found = timeline(tmp_path, kineto_text([EVENTS[0], odd, EVENTS[2]]))
    assert {"first", "third"} <= set(names(found))
    lost = {"ph": "event-unreadable", "ts": "event-without-time", "dur": "event-duration"}
    assert codes(found) == ([lost[member]] if member in lost else [])


@pytest.mark.parametrize("depth", [50, 500, *range(900, 1000, 4), 5000, 100_000])
def test_values_of_any_depth_cost_no_other_event(tmp_path: Path, depth: int) -> None:
    deep = "[" * depth + "]" * depth
    odd = [
        op("odd", 3, 4, External_id="x", new="@"),
        kernel("odd", 3, 4, 5, grid="@"),
        complete("odd", "z", 1, 1, 1, 1, {"y": "@"}),
    ]
    for one in odd:
        found = timeline(tmp_path, kineto_text([EVENTS[0], one, EVENTS[2]]).replace('"@"', deep))
        assert {"first", "third"} <= set(names(found))
    found_et = trace(tmp_path, ET.replace('"strides": [[]]', f'"strides": [{deep}]', 1))
    assert {3, 5} & set(found_et.nodes.get_column("node_id").to_list())


def test_deep_text_inside_a_text_costs_no_event(tmp_path: Path) -> None:
    args = {"grid": "[" * 5000, "Process Group Ranks": "[" * 5000, "Collective name": "x"}
    found = timeline(tmp_path, kineto_text([EVENTS[0], kernel("k", 1, 2, 3, **args), EVENTS[2]]))
    assert names(found) == ["first", "k", "third"]


NODE_CHANGES: list[Json] = [
    {member: value}
    for member in ("id", "name", "ctrl_deps", "inputs", "outputs", "attrs")
    for value in ODD_VALUES
] + [
    {"attrs": [{"name": name, "type": "x", "value": value}]}
    for name in ("rf_id", "op_schema", "pg_size", "is_asynchronized_op", "in_split_size", "new")
    for value in ODD_VALUES
]


def test_any_type_of_any_member_of_a_node_costs_no_other(tmp_path: Path) -> None:
    for change in NODE_CHANGES:
        found = trace(tmp_path, et_text([*NODES[:3], {**NODES[3], **change}, NODES[4]]))
        kept = set(found.nodes.get_column("name").to_list())
        assert {"first", "third"} <= kept or change == {"id": True}, change
        assert (3, 5) in found.tensor_edges.select("producer", "consumer").rows() or "id" in change, change


@pytest.mark.parametrize(
    "kind", ["Tensor(float)", "GenericList[Tensor(float)]", "Tuple[Tensor(", "", "\ufffd"]
)
def test_any_value_of_an_input_costs_no_other_node(tmp_path: Path, kind: str) -> None:
    ids = [[10**30, 1, 2, 3, 4, "cpu"], [1, 10**30, 0, 2**63, -(2**63), "x"], [[[1, 2, 3, 4, 5, "cpu"]]]]
    for value in [*ODD_VALUES, *ids]:
        for shape in ([], [4], None, "x", 10**30):
            odd = node(4, "second", 2, [(kind, value, shape)], [(kind, value, shape)])
            found = trace(tmp_path, et_text([*NODES[:3], odd, NODES[4]]))
            assert found.nodes.height == 5
            assert (3, 5) in found.tensor_edges.select("producer", "consumer").rows()


def test_repeated_ids_missing_parents_and_cycles_are_all_said(tmp_path: Path) -> None:
    nodes = [
        *NODES,
        node(5, "again", 2),
        node(7, "orphan", 6),
        node(8, "a", 9),
        node(9, "b", 8),
        node(10, "self", 10),
    ]
    found = trace(tmp_path, et_text(nodes))
    assert found.nodes.get_column("node_id").to_list() == [1, 2, 3, 4, 5, 7, 8, 9, 10]
    assert codes(found) == ["duplicate-id", "parent-missing", "parent-cycle"]
    assert [finding.where for finding in found.findings] == ["node 5", "node 7", "node 8"]


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e400", "1" + "0" * 5000])
def test_numbers_that_are_none_cost_no_other_node(tmp_path: Path, number: str) -> None:
    for old in ('"id": 4', '"value": 4', '[10, 100, 0, 4, 4, "cpu"]', '"ctrl_deps": 2', '"start_ts": 100'):
        found = trace(tmp_path, number.join(ET.rsplit(old, 1)) if old in ET else ET)
        assert found.nodes.height >= 4


@pytest.mark.parametrize("pipe", [KINETO.encode(), gzip.compress(KINETO.encode()), KINETO.encode()[:300]])
def test_a_pipe_is_read_as_far_as_it_goes(pipe: bytes) -> None:
    reading, writing = os.pipe()
    os.write(writing, pipe)
    os.close(writing)
    try:
        assert names(read_timeline(f"/dev/fd/{reading}", processes=1))[0] == "first"
    finally:
        os.close(reading)


FUZZED_EVENTS = [
    op("a", 1700000000000000.5, 2, External_id=1, Input_Dims=[[1], []], Concrete_Inputs=["", "1"]),
    kernel("k", 1, 2, 3, grid=[1, 2, 3], **{"Collective name": "ar", "Process Group Ranks": "[0, 1]"}),
    flow("s", 1, 1),
    {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "p"}},
    {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": 5, "args": {"Addr": 1, "Bytes": 5}},
    complete("x", "new", 1, 2, "Spans", "t", {"y": [{"a": 1}, {"b": 2}]}),
    {"ph": "C", "name": "c", "ts": 1},
]
FUZZED_KINETO = kineto_text(
    FUZZED_EVENTS,
    header={
        "baseTimeNanoseconds": 5,
        "distributedInfo": {"rank": 0, "pg_config": [{"ranks": [0], "pg_size": 2}]},
    },
    tail={"deviceProperties": [{"id": 0}, {"id": 1}]},
).encode()
ADD_ = "aten::add_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)"
FUZZED_ET = et_text(
    [
        *NODES[:2],
        node(3, "a", 2, [X, ("Int", 1, [])], [tensor(12, 13, [2])], op_schema=ADD_),
        node(
            4,
            "b",
            2,
            [("GenericList[Tensor(float),Tensor(float)]", [X[1], X[1]], [[4], [4]])],
            [],
            pg_size=2,
            new=1,
        ),
        node(9, "## process_group:init ##", 2, [("String", '[{"pg_name": "0", "ranks": [0]}]', [])]),
    ]
).encode()
TOKENS = [
    *(
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\\",
        b"null",
        b"true",
        b'"x"',
        b"[1]",
        b'{"a":1}',
        b'}, {"',
        b"}]",
    ),
    *(
        b"1e400",
        b"NaN",
        b"-",
        b"9" * 30,
        b"9" * 5000,
        b"9223372036854775808",
        b"-9223372036854775808",
        b"1.5e-300",
    ),
    *(b"\xff", b"\x00", b"\\ud800", b"\xc2\xb2", b"[[[" * 300, b'"-0"', b'"--5"', b"0.5", b"-1"),
]
VALUE = re.compile(rb'(?<=[ \[,])(-?\d[\d.e+]*|null|true|"[^"\\]{0,40}"|\[[^\[\]{}]{0,30}\]|\{\})')


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The data with one to three places changed: bytes, a value, an inserted token, or cut off."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 3])):
        place = rng.randrange(max(1, len(changed)))
        way = rng.random()
        if way < 0.15:
            changed[place : place + 1] = rng.randbytes(1)
        elif way < 0.25:
            del changed[place : place + rng.choice([1, 2, 5, 30])]
        elif way < 0.4:
            changed[place:place] = rng.choice(TOKENS)
        elif way < 0.45:
            del changed[place:]
        elif values := list(VALUE.finditer(bytes(changed))):
            value = rng.choice(values)
            changed[value.start() : value.end()] = rng.choice(TOKENS)
    return bytes(changed) or b"{"


def read_or_error(read: Callable[[Path], Timeline | ExecutionTrace], path: Path) -> str:
    """What to do next where the file is refused, else the path of the trace; findings are checked."""
    try:
        found = read(path)
    except InputError as error:
        return error.advice
    assert_located(found, path)
    return found.path


@pytest.mark.parametrize("block", range(8))
def test_random_damage_ends_in_a_trace_or_in_one_error(tmp_path: Path, block: int) -> None:
    for seed in range(block * 60, block * 60 + 60):
        rng = random.Random(seed)
        for data, read in ((FUZZED_KINETO, read_timeline), (FUZZED_ET, read_execution_trace)):
            path = tmp_path / f"{seed}.json"
            path.write_bytes(mutated(data, rng))
            outcome = read_or_error(read, path)
            assert outcome
