"""Is a trace file cut only between its objects, whatever its layout, and is its header whole?"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import sys
import zlib
from functools import partialmethod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zstandard

from tests.builders import Json, et_text, kineto_text, node, op, process_node, thread_node
from tests.growth import grows_less
from tracebraid.errors import InputError, NotATraceError
from tracebraid.filesystem.compression import GZIP
from tracebraid.importers.json_stream.chunks import EVENT_MEMBER, ArrayFile, open_array, shape_of
from tracebraid.importers.json_stream.header import members_of
from tracebraid.importers.json_stream.recover import Recovered, recover
from tracebraid.importers.json_stream.source import Source, open_source
from tracebraid.model.finding import Issue

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
    texts = [chunk.data for chunk in file.chunks(chunk_bytes)]
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


@pytest.mark.slow
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
            assert text[chunk.start : chunk.stop] == chunk.data


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


@pytest.mark.slow
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
    next(chunks)
    os.truncate(path, 1 << 15)
    with pytest.raises(InputError, match=r"t\.json: it became shorter while it was read"):
        list(chunks)


def test_a_number_behind_the_array_that_is_beyond_all_limits_costs_itself(tmp_path: Path) -> None:
    text = '{"traceEvents": ' + json.dumps(EVENTS) + ', "id": -1e400, "baseTimeNanoseconds": 17}'
    file = opened(tmp_path, text)
    assert objects(file, 1)[0] == EVENTS
    assert [problem.code for problem in file.problems] == ["header-unreadable"]
    assert file.header == {"baseTimeNanoseconds": 17}


_DEEP = b"[" * 600 + b"9" * 20 + b"]" * 600


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (b'{"b": [9223372036854775808, -9223372036854775808]}', {"b": [2.0**63, -(2**63)]}),
        (b"9" * 20, 1e20),
        (b"[" * 40 + b"9" * 20 + b"]" * 40, ...),
        (b"9" * 400, None),
        (_DEEP, None),
        (b'{"a":' * 600 + b"1" + b"}" * 600, None),
        (b'{"a":[' * 300 + b"1e308" + b"]}" * 300, None),
        (b'"\xff"', None),
        (b"[" * 65 + b"]" * 65, None),
    ],
)
def test_members_beside_the_array_are_read_each_for_itself(value: bytes, read: object) -> None:
    """Integers beyond int64 become floats; what no float holds, or is nested too deeply, is left out alone."""
    found = members_of(b'{"before": 1, "odd": %b, "behind": "x", "_": 0}' % value)
    assert found is not None
    assert found.is_whole is (read is not None)
    assert {key: found.members[key] for key in ("before", "behind")} == {"before": 1, "behind": "x"}
    assert ("odd" in found.members) is (read is not None)
    if read is not ...:
        assert found.members.get("odd") == read


# --- Is of a damaged chunk all kept that can be read, and is what cannot be said with its place ------


SHAPE = shape_of(b"", EVENT_MEMBER)
A, B, C = (json.dumps(op(name, 1, 2)) for name in "abc")


def names(text: str | bytes, start: int = 0) -> tuple[list[object], list[tuple[str, int]]]:
    """(names of the objects kept, code and byte of each issue)."""
    data = text if isinstance(text, bytes) else text.encode()
    kept, issues = recover(data, start, SHAPE)
    return [one.value.get("name") for one in kept], [(issue.code, issue.byte) for issue in issues]


def test_whole_objects_are_kept_as_they_stand() -> None:
    kept, issues = recover(f"{A},\n{B}".encode(), 0, SHAPE)
    assert [(one.text.decode(), one.byte) for one in kept] == [(A, 0), (B, len(A) + 2)]
    assert issues == []


@pytest.mark.parametrize("count", [2, 8, 40])
def test_an_object_with_objects_inside_is_put_together_again(count: int) -> None:
    nested = json.dumps(op("n", 1, 2, x=[{"k": i} for i in range(count)]))
    assert names(f"{A}, {nested}, {B}") == (["a", "n", "b"], [])


@pytest.mark.parametrize(
    ("written", "name"),
    [
        pytest.param(b'say "hello" twice', 'say "hello" twice', id="quotes"),
        pytest.param(b'"', '"', id="one quote"),
        pytest.param(b"a\tb\nc\x00d", "a\tb\nc\x00d", id="control characters"),
        pytest.param(b'f(x, "ph")', 'f(x, "ph")', id="a key"),
        pytest.param(b"b\xff", "b\ufffd", id="wrong encoding"),
        # Python's json writes and reads such text, though it is no Unicode.
        pytest.param(b"b\\ud800", None, id="half a surrogate pair"),
        pytest.param(b"b\\udc00 \\ud800", None, id="two halves"),
    ],
)
def test_a_name_that_was_not_escaped_is_mended(written: bytes, name: str | None) -> None:
    damaged = B.encode().replace(b'"name": "b"', b'"name": "%b"' % written)
    kept, issues = names(b"%b, %b, %b" % (A.encode(), damaged, C.encode()), start=10)
    assert issues == [("event-mended", 10 + len(A) + 2)]
    assert (kept[0], kept[2], len(kept)) == ("a", "c", 3)
    assert kept[1] == name if name else str(kept[1]).startswith("b")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "inf", "-inf", "nan", "-nan"])
def test_a_value_that_is_no_number_becomes_null(number: str) -> None:
    kept, issues = recover(B.replace('"dur": 2', f'"dur": {number}').encode(), 0, SHAPE)
    assert kept[0].value["dur"] is None
    assert [issue.code for issue in issues] == ["event-mended"]


def test_a_value_that_is_no_number_changes_no_name() -> None:
    kept, _ = recover(b'{"ph": "i", "name": "a", "s": "t", "ts": 1, "x": NaN}', 0, SHAPE)
    assert [item.value for item in kept] == [{"ph": "i", "name": "a", "s": "t", "ts": 1, "x": None}]


@pytest.mark.parametrize("odd", ["5", '"text"', "[1, 2]", "null", "{}", "", '[{"x": 1}]'])
def test_something_else_between_two_objects_costs_neither(odd: str) -> None:
    assert names(f"{A}, {odd}, {C}")[0][-1] == "c"
    assert names(f"{A}, {odd}, {C}")[0][0] == "a"


def test_what_cannot_be_read_is_left_out_and_located() -> None:
    damaged = B.replace('"ts": 1', '"ts": 1 2')
    assert names(f"{A}, {damaged}, {C}", start=5) == (
        ["a", "c"],
        [("event-unreadable", 5 + len(A) + 2)],
    )


def test_text_after_the_last_object_is_said() -> None:
    kept, issues = names(f"{A}, {B} rubbish")
    assert kept == ["a", "b"]
    assert [code for code, _ in issues] == ["text-between"]


@pytest.mark.parametrize(
    ("text", "at_least"),
    [('], "size": 20, "ph": "\\ud800"}', 0), (' "ts": 1, "ph": "X"}, ', 1), ("}", 0)],
)
def test_members_behind_the_array_are_those_of_no_object(text: str, at_least: int) -> None:
    _, issues = recover(f"{A}{text}".encode(), 0, SHAPE)
    assert [issue.loss.at_least for issue in issues if issue.loss is not None] == [at_least]


@pytest.mark.parametrize("text", ["", " ", ",", "\n,\n"])
def test_nothing_gives_nothing(text: str) -> None:
    assert names(text) == ([], [])


def recovered(data: bytes) -> tuple[list[Recovered], list[Issue]]:
    return recover(data, 0, SHAPE)


@pytest.mark.slow
@pytest.mark.parametrize("between", ["\n", " 5, "])
def test_the_cost_of_damage_between_all_objects_grows_with_their_number_only(between: str) -> None:
    small, large = (
        between.join([json.dumps(op("a", 1, 2, x="x" * 150))] * count).encode() for count in (750, 6000)
    )
    assert len(recovered(large)[0]) == 6000
    assert grows_less(32, recovered, small, large), "8 times the text; 64 if quadratic"


@pytest.mark.full(keep=2)
@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        *('{"ph": "X", ', '{"ph": "X" 1, {"name":" ', '{"ph": "X", "name": "a" 1, "args": {}} ,'),
        *('0{"ph": "X"}}]', '{"ph": "X"}\\"', '\x1f{"ph": 1}-'),
    ],
)
def test_the_cost_of_one_broken_text_grows_with_its_length_only(unit: str) -> None:
    small, large = ((unit * (size // len(unit))).encode() for size in (1 << 15, 1 << 18))
    assert grows_less(32, recovered, small, large), "8 times the text; 64 if quadratic"


def test_an_object_within_a_broken_one_is_read() -> None:
    assert names(f'{{"ph": "X", "name": "lost", {B}, {C}')[0] == ["b", "c"]


def test_what_is_left_of_a_broken_object_is_no_object() -> None:
    damaged = B.replace('"args": {}', '"args": {"x": [{"a": 1}, {"a": 2}]}').replace('"ts"', "ts")
    kept, issues = names(f"{A}, {damaged}, {C}")
    assert kept == ["a", "c"]
    assert {code for code, _ in issues} <= {"event-unreadable", "text-between"}


# --- Where do the bytes come from, and what is refused before anything is read -----------------------


TEXT = b'{"traceEvents": []}'


def noise(size: int) -> bytes:
    """Text that gzip cannot make much smaller than half."""
    return random.Random(1).randbytes(size // 2).hex().encode()


def stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


def test_a_plain_file_gives_its_bytes_in_blocks_and_slices(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(TEXT)
    source = open_source(path)
    assert (source.compression, source.size_bytes) == (None, len(TEXT))
    assert b"".join(source.blocks(block_bytes=4)) == TEXT
    view = source.whole()
    assert view is not None
    assert view[:] == TEXT


PACKED = gzip.compress(TEXT)


@pytest.mark.parametrize("block_bytes", [8, 100, 1 << 20])
@pytest.mark.parametrize(
    ("content", "is_damaged"),
    [
        pytest.param(PACKED, False, id="one member"),
        pytest.param(gzip.compress(TEXT[:7]) + gzip.compress(TEXT[7:]), False, id="two members"),
        pytest.param(PACKED + bytes(512), False, id="zeros behind it are padding"),
        pytest.param(PACKED[:-8] + bytes(8), True, id="a wrong checksum"),
        pytest.param(PACKED + b"something else", True, id="something else behind it"),
    ],
)
def test_gzip_is_known_by_its_content_and_read_to_its_end(
    tmp_path: Path, content: bytes, is_damaged: bool, block_bytes: int
) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(content)
    source = open_source(path)
    assert source.compression is GZIP
    assert source.whole() is None
    assert b"".join(source.blocks(block_bytes)) == TEXT
    assert bool(source.damage) is is_damaged


def test_reading_blocks_counts_the_bytes_done_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(noise(1 << 20)))
    source = open_source(path)
    done = [source.done_bytes for _ in source.blocks(block_bytes=1 << 16)]
    assert done == sorted(done)
    assert done[-1] == source.size_bytes


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress], ids=["plain", "gzip", "zstd"])
def test_standard_input_is_read_for_a_dash(monkeypatch: pytest.MonkeyPatch, pack: object) -> None:
    stdin(monkeypatch, pack(TEXT))  # type: ignore[operator]
    source = open_source("-")
    assert source.path == "standard input"
    assert b"".join(source.blocks()) == TEXT
    assert source.whole() == (None if source.compression else TEXT)


def test_empty_standard_input_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, b"")
    with pytest.raises(NotATraceError, match="standard input: the file is empty"):
        open_source("-")


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress], ids=["plain", "gzip", "zstd"])
def test_a_pipe_with_a_name_is_read_like_standard_input(pack: object) -> None:
    """As the shell's `tracebraid info <(zcat trace.json.gz)` hands it over."""
    reading, writing = os.pipe()
    os.write(writing, pack(TEXT))  # type: ignore[operator]
    os.close(writing)
    try:
        source = open_source(f"/dev/fd/{reading}")
        view = source.whole()
        assert (view[:] if view is not None else b"".join(source.blocks())) == TEXT
    finally:
        os.close(reading)


def test_a_gzip_stream_that_breaks_off_gives_what_is_before_the_break(tmp_path: Path) -> None:
    text = noise(1 << 18)
    packed = gzip.compress(text)[: 1 << 16]
    path = tmp_path / "t.json.gz"
    path.write_bytes(packed)
    source = open_source(path)
    got = b"".join(source.blocks())
    there = zlib.decompressobj(31).decompress(packed)
    assert len(source.damage) == 1
    assert text.startswith(got)
    assert len(got) > len(there) * 0.9


@pytest.mark.parametrize("seed", range(6))
def test_a_gzip_stream_with_wrong_bytes_gives_what_is_before_them(tmp_path: Path, seed: int) -> None:
    text = noise(1 << 20)
    packed = bytearray(gzip.compress(text, compresslevel=1 + seed))
    at = len(packed) * 3 // 4
    packed[at : at + 64] = random.Random(seed).randbytes(64)
    path = tmp_path / "t.json.gz"
    path.write_bytes(bytes(packed))
    source = open_source(path)
    got = b"".join(source.blocks())
    assert source.damage
    assert got[: len(text) // 2] == text[: len(text) // 2]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        pytest.param("", InputError, id="a folder"),
        pytest.param("gone.json", InputError, id="not there"),
        pytest.param("t.json/x.json", InputError, id="through a file"),
        pytest.param("a\0b.json", InputError, id="a NUL character"),
        pytest.param("empty.json", NotATraceError, id="empty"),
    ],
)
def test_what_is_no_file_with_content_is_refused(tmp_path: Path, name: str, error: type[InputError]) -> None:
    (tmp_path / "t.json").write_bytes(TEXT)
    (tmp_path / "empty.json").touch()
    with pytest.raises(error) as caught:
        open_source(tmp_path / name)
    assert type(caught.value) is error
    assert caught.value.path.startswith(str(tmp_path))


@pytest.mark.parametrize(
    ("head", "word"),
    [
        (b"\x89PNG\r\n\x1a\n", "PNG"),
        (b"\xff\xd8\xff\xe0", "JPEG"),
        (b"GIF89a", "GIF"),
        (b"%PDF-1.7", "PDF"),
        (b"PK\x03\x04", "zip"),
        (b"BZh9", "bzip2"),
        (b"\xfd7zXZ\x00", "xz"),
        (b"\x7fELF", "ELF"),
        (b"SQLite format 3\x00", "SQLite"),
        (b"PAR1", "Parquet"),
        (b"ARROW1", "Arrow"),
        (b"\xff\xfe{\x00", "UTF-16"),
        (b"\xfe\xff\x00{", "UTF-16"),
    ],
)
def test_a_file_of_another_format_is_refused_with_what_it_looks_like(
    tmp_path: Path, head: bytes, word: str
) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(head + b"x" * 100)
    with pytest.raises(NotATraceError, match=word) as caught:
        open_source(path)
    assert caught.value.path == str(path)
    assert caught.value.advice
