"""Files that were cut or damaged anywhere are read for the rest."""

from __future__ import annotations

import gzip
import json
import random
import re
from pathlib import Path

import pytest

import tracebraid
from tests.builders import et_text, kernel, kineto_text, node, op, write
from tests.hostile.every_command import ENDED_BY_OTHERS, forms, named_commands
from tests.hostile.plain_inputs import plain_inputs
from tests.hostile.reading import DEEP, EVENTS, KINETO, NODES, UNLOCATED, codes, names, timeline, trace
from tests.integration.command import run
from tracebraid.errors import NotATraceError
from tracebraid.model.finding import Loss
from tracebraid.model.finding_code import FindingCode

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


@pytest.mark.full(keep=1)
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


@pytest.mark.full
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
        assert "compression-damaged" in codes(found), cut
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
        assert "compression-damaged" in codes(found)
        assert len(names(found)) > 150


# --- Damage in the text of a trace is said, and costs nothing around it ------------------------------


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


@pytest.mark.parametrize("between", ["", "\n", ",", "\x1e"])
def test_a_trace_behind_a_trace_costs_no_event(tmp_path: Path, between: str) -> None:
    """Two files that were written one behind the other: the head of the second is no part of its first event."""
    found = timeline(tmp_path, between.join([kineto_text(EVENTS), kineto_text(EVENTS)]))
    assert names(found) == ["first", "second", "third"] * 2
    assert set(codes(found)) == {"text-between"}


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


def test_an_event_that_was_cut_into_the_one_before_it_may_be_lost(tmp_path: Path) -> None:
    cut = '{"ph": "M", "name": "thread_name"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 1, "dur": 1}'
    whole = '{"ph": "X", "cat": "cpu_op", "name": "b", "pid": 1, "tid": 1, "ts": 2, "dur": 1}'
    found = timeline(tmp_path, '{"traceEvents": [' + cut + ", " + whole + "]}")
    assert names(found) == ["b"]
    assert (FindingCode.EVENT_MENDED, Loss()) in [(one.code, one.loss) for one in found.findings]


def test_a_number_of_5000_digits_costs_no_node_and_makes_none(tmp_path: Path) -> None:
    """What is nested in such a node was read as a node of its own."""
    value = '[{"id": 1, "name": "n"}, ' + "9" * 5000 + "]"
    text = et_text([node(1, "a", 1), node(2, "b", 1, scope=7777), node(3, "c", 1)])
    path = write(tmp_path / "torch_et_0.json", text.replace("7777", value))
    found = tracebraid.read_execution_trace(path)
    assert found.nodes.get_column("node_id").to_list() == [1, 2, 3]
    assert [(one.code, one.loss) for one in found.findings] == [(FindingCode.NODE_MENDED, None)]


@pytest.mark.parametrize("left", ['"cat\npid": 1', '"cat": "cpu\nop"'])
def test_an_event_whose_members_are_those_of_two_may_have_cost_one(tmp_path: Path, left: str) -> None:
    """Bytes between two events are replaced by few that no JSON has."""
    both = '{"ph": "X", "name": "a", "ts": 1, "dur": 1, ' + left + ', "tid": 1, "ts": 2, "dur": 1}'
    whole = '{"ph": "X", "cat": "cpu_op", "name": "b", "pid": 1, "tid": 1, "ts": 3, "dur": 1}'
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents": [' + both + ", " + whole + "]}")
    found = tracebraid.read_timeline(path)
    assert (FindingCode.EVENT_MENDED, Loss()) in [(one.code, one.loss) for one in found.findings]


# --- What a damaged trace has lost is said by every command that answers from it, whatever the  ------


SAY_LATER = ("pack", "cache", "demo")
"""A store says it with each answer; the others answer nothing from a trace."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Of the timeline of rank 0, of the nodes of a simulator and of ET+, the ends are cut off."""
    found = plain_inputs(tmp_path_factory.mktemp("inputs"))
    for name in ("kineto", "nodes", "plus"):
        content = found[name].read_bytes()
        found[name].write_bytes(content[: len(content) * 7 // 10])
    return found


@pytest.mark.full
@pytest.mark.parametrize(
    "command", sorted({*named_commands()} - {*SAY_LATER, *ENDED_BY_OTHERS, "chakra generate"})
)
def test_a_cut_trace_is_said_to_be_cut(command: str, inputs: dict[str, Path], tmp_path: Path) -> None:
    printed = [form for form in forms(command) if form.suffix is None]
    for form in [*printed, *([] if printed else forms(command))]:
        done = run(*form.line(inputs, tmp_path / f"out{form.suffix or ''}"))
        assert "truncated" in done.stderr + done.stdout, form


@pytest.mark.full
def test_a_store_of_a_cut_trace_says_it_with_each_answer(inputs: dict[str, Path], tmp_path: Path) -> None:
    store = tmp_path / "job.tbstore"
    run("pack", inputs["job"], "-o", store)
    for question in (["metrics"], ["analyze", "kernels"], ["summary"], ["check"]):
        done = run(*question, store)
        assert "truncated" in done.stderr + done.stdout, question
