"""The native scanner gives what the Python reader gives, of every input: the same tables, findings and errors."""

from __future__ import annotations

import ctypes
import random
from pathlib import Path

import pytest

import tracebraid
import tracebraid.importers.chunk_decoding as chunk_decoding
from tests.conftest import ROOT
from tests.unit.importers.scanning import (
    PER_PART,
    Compare,
    compare_readers,
    mutants,
    samples_of,
)
from tools.fuzz.model import Sample
from tracebraid.importers.kineto.reader import read_timeline

GOOD = '{"ph":"X","cat":"cpu_op","name":"good","pid":1,"tid":1,"ts":1.001,"dur":2,"args":{"External id":1}}'
SMALL_CHUNK_BYTES = 600


@pytest.fixture
def compare(library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> Compare:
    """Read a file in usual and in small chunks with both readers."""

    def compared(path: Path) -> None:
        for chunk_bytes in (chunk_decoding.CHUNK_BYTES, SMALL_CHUNK_BYTES):
            monkeypatch.setattr(chunk_decoding, "CHUNK_BYTES", chunk_bytes)
            compare_readers(path, read_timeline, library, monkeypatch)

    return compared


def event(**members: str | None) -> str:
    """An event with members of these JSON texts; None leaves one out."""
    usual: dict[str, str | None] = {
        "ph": '"X"',
        "cat": '"cpu_op"',
        "name": '"n"',
        "pid": "1",
        "tid": "1",
        "ts": "10.5",
        "dur": "2",
        "args": '{"External id":7}',
    }
    members = {key.rstrip("_"): text for key, text in members.items()}
    return "{" + ",".join(f'"{key}":{text}' for key, text in {**usual, **members}.items() if text) + "}"


def kernel(args: str) -> str:
    return event(cat='"kernel"', args=args)


def nested(depth: int) -> str:
    return event(args='{"zz":' + "[" * depth + "]" * depth + "}")


TAKEN: dict[str, str] = {
    "three decimals": event(ts="1234567890123.123"),
    "six decimals, of which three are zeros": event(ts="1.123000"),
    "seven decimals": event(ts="1.1234567"),
    "a half": event(ts="1.0005"),
    "halves round to even": event(ts="1.0015", dur="0.0025"),
    "a large time with a fraction": event(ts="1712345678901234.567"),
    "minus zero": event(ts="-0"),
    "before the base": event(ts="-5.25"),
    "time zero beside late ones": event(ts="0") + "," + event(ts="200000000000.5"),
    "escapes in a name": event(name=r'"a\"b\\c\n\u00e9"'),
    "UTF-8 in a name": event(name='"é😀\ufeff"'),
    "a zero in a name": event(name=r'"a\u0000b"'),
    "no name": event(name=None),
    "one name in two spellings": event(name='"A"') + "," + event(name=r'"\u0041"'),
    "brackets in a name": event(name=r'"}, {\"ph\": \"X\" ]}"'),
    "no category": event(cat=None),
    "an unknown category": event(cat='"new_thing"', args='{"correlation":5}'),
    "categories of before 2022": event(cat='"Operator"') + "," + event(cat='"Kernel"', args='{"stream":7}'),
    "arguments first": '{"args":{"External id":7,"zz":[1]},"ph":"X","cat":"cpu_op","name":"n","ts":1,"dur":2}',
    "no arguments": event(args=None),
    "empty arguments": event(args="{}"),
    "null arguments": event(args='{"External id":null,"zz":null,"aa":1}'),
    "a huge integer": event(args='{"External id":123456789012345678901234}'),
    "the largest int64": event(args='{"External id":9223372036854775807}'),
    "the largest uint64": event(args='{"External id":18446744073709551615}'),
    "an integer as a float": event(args='{"External id":7.0}'),
    "an integer with an exponent": event(args='{"External id":1e3}'),
    "an integer as text": event(args='{"External id":"7"}'),
    "an integer as hexadecimal text": event(args='{"External id":"0x10"}'),
    "text for an integer": event(args='{"External id":"x"}'),
    "true for an integer": event(args='{"External id":true}'),
    "a list for an integer": event(args='{"External id":[1,2]}'),
    "an amount above its limit": event(args='{"In msg nelems":1125899906842625}'),
    "an amount at its limit": event(args='{"In msg nelems":1125899906842624}'),
    "a negative amount": kernel('{"bytes":-1125899906842625,"size":5}'),
    "text for a float": kernel('{"blocks per SM":"inf"}'),
    "floats of many digits": kernel('{"blocks per SM":0.1234567890123456789,"warps per SM":-0.0}'),
    "a float beyond 53 bits": kernel('{"blocks per SM":9007199254740993}'),
    "shared memory that no device has": kernel('{"shared memory":9999999999999999,"stream":7}'),
    "both keys of a column": event(args='{"External id":null,"Input dims":[[1]],"Input Dims":[[2]]}'),
    "the second key first": event(cat='"cuda_runtime"', args='{"external id":4,"External id":null,"cbid":1}'),
    "JSON in several spellings": ",".join(
        event(args=f'{{"Input Dims":{text}}}') for text in ("[[1,2]]", "[[1, 2]]", "[[1.0,2]]", '"x"', "null")
    ),
    "ids of communicators": event(args='{"Collective name":"x","Comms Id":"007"}'),
    "ranks as text": event(args='{"Collective name":"x","Process Group Ranks":"[0, 1]"}'),
    "ranks as a list": event(args='{"Collective name":"x","Process Group Ranks":[0, 1]}'),
    "ranks cut short": event(args='{"Collective name":"x","Process Group Ranks":"[0, 1, ..."}'),
    "only ranks cut short": event(args='{"Process Group Ranks":"[0, "}'),
    "keys out of order": event(args='{"b":1,"a":{"x":[1,"é"]},"B":2}'),
    "a key of UTF-8": event(args='{"é":1}'),
    "nested 50 deep": nested(50),
    "pids as text": event(pid='"Spans"', tid='"PyTorch Profiler"'),
    "a pid as text and as number": event(pid='"1"') + "," + event(pid=r'"\u0031"'),
    "a null pid": event(pid="null"),
    "no tid": event(tid=None),
    "pid minus zero": event(pid="-0", tid="0") + "," + event(pid="0", tid="0"),
    "an instant": event(ph='"i"', dur=None),
    "an instant without category": event(ph='"i"', cat=None),
    "an instant of old": event(ph='"I"', dur=None),
    "an instant with a duration": event(ph='"i"', dur="3"),
    "an allocation": event(
        ph='"i"', cat='"cpu_instant_event"', args='{"Bytes":-512,"Addr":18446744073709551615}'
    ),
    "a counter": event(ph='"C"', dur=None, args='{"a":1}'),
    "a flow": event(ph='"s"', id="5"),
    "a flow without category": event(ph='"f"', id="5", cat=None),
    "a step of a flow": event(ph='"t"', id="5"),
    "a name of a process": '{"ph":"M","name":"process_name","pid":1,"tid":0,"ts":0,"args":{"name":"py\\u00e9"}}',
    "metadata without arguments": '{"ph":"M","name":"process_labels","pid":1}',
    "metadata with a list": '{"ph":"M","name":"process_name","pid":1,"tid":0,"ts":0,"args":[1]}',
    "an unknown member": event()[:-1] + ',"more":{"traceEvents":[{"ph":"X"}]}}',
    "odd white space": GOOD.replace(":", " \t:\r\n "),
    "a Python function": event(cat='"python_function"', args='{"Python id":1,"Python parent id":null}'),
    "a synchronisation": event(cat='"cuda_sync"', args='{"cuda_sync_kind":"Event Sync","stream":-1}'),
}
GIVEN_BACK: dict[str, str] = {
    "a large time with four decimals": event(ts="1712345678901234.5675"),
    "large and fine times": event(ts="8796093022208.5") + "," + event(ts="1.00049999"),
    "an exponent": event(ts="1.5e3"),
    "a leading zero": event(ts="01"),
    "no digit after the point": event(ts="1."),
    "no digit before the point": event(ts=".5"),
    "a time as text": event(ts='"10"'),
    "no time": event(ts=None),
    "not a number": event(ts="NaN"),
    "a negative duration": event(dur="-3"),
    "no duration": event(dur=None),
    "a huge duration": event(dur="9999999999999.9"),
    "a huge time": event(ts="99999999999999999999"),
    "half a surrogate": event(name=r'"\ud83d"'),
    "a pair of surrogates": event(name=r'"\ud83d\ude00"'),
    "a null name": event(name="null"),
    "a number for a name": event(name="5"),
    "a control character": event(name='"a\tb"'),
    "an unknown escape": event(name=r'"a\qb"'),
    "an escape in a category": event(cat=r'"cpu\u005fop"'),
    "a null category": event(cat="null"),
    "an escape in a member": event().replace('"ts"', r'"t\u0073"'),
    "an escape in a key": event(args=r'{"External\u0020id":3}'),
    "a member twice": event()[:-1] + ',"ts":99}',
    "a key twice": event(args='{"External id":7,"External id":8}'),
    "an unknown key twice": event(args='{"zz":7,"zz":8}'),
    "arguments that are none": event(args="[1]"),
    "an exponent of three digits": kernel('{"blocks per SM":1e400,"warps per SM":0.1}'),
    "a grid of two": kernel('{"grid":[1,2]}'),
    "a grid as text": kernel('{"grid":"[1,2,3]"}'),
    "text that is no truth": event(args='{"finished":"x"}'),
    "null as text beside a value that does not fit": event(args='{"External id":"7","dtype":"null"}'),
    "digits as text beside a value that does not fit": event(args='{"External id":"7","Comms Id":"007"}'),
    "broken JSON in a value": event(args='{"Input Dims":[1,,2]}'),
    "brackets that do not match": event(args='{"zz":[1}]}'),
    "an unknown word": event(args='{"Input Dims":[tru]}'),
    "nested 600 deep": nested(600),
    "nested 5,000 deep": nested(5000),
    "a fraction as pid": event(pid="1.5"),
    "an object as pid": event(pid='{"a":1}'),
    "a phase of two letters": event(ph='"XX"'),
    "no phase": event(ph=None),
    "a flow with text as id": event(ph='"s"', id='"0x5"'),
    "a flow without id": event(ph='"f"'),
    "a trailing comma": GOOD + ",",
    "two commas": GOOD + ",," + GOOD,
    "no comma": GOOD + GOOD,
    "text between events": GOOD + ",xx," + GOOD,
    "a comment": GOOD + "/*x*/",
    "no UTF-8": event(args='{"zz":"\udcff"}'),
    "a zero byte": GOOD + ",\0",
    "an event cut short": GOOD + ',{"ph":"X","cat":"cpu_op","name":"n',
}


def trace(path: Path, text: str) -> Path:
    whole = f'{{"schemaVersion":1,"traceEvents":[{GOOD},{text},{GOOD}],"z":1}}'
    path.write_bytes(whole.encode("utf-8", "surrogateescape"))
    return path


@pytest.mark.parametrize("text", TAKEN.values(), ids=TAKEN)
def test_what_the_scanner_takes_is_as_python_reads_it(
    tmp_path: Path, compare: Compare, scans: list[bool], text: str
) -> None:
    compare(trace(tmp_path / "t.json", text))
    assert all(scans)


@pytest.mark.parametrize("text", GIVEN_BACK.values(), ids=GIVEN_BACK)
def test_a_chunk_with_anything_else_is_read_by_python(
    tmp_path: Path, compare: Compare, scans: list[bool], text: str
) -> None:
    compare(trace(tmp_path / "t.json", text))
    assert not scans[0]


def test_only_the_chunk_with_what_is_unusual_is_given_back(
    tmp_path: Path, compare: Compare, scans: list[bool]
) -> None:
    usual = ",".join(event(ts=str(i), name=f'"n{i % 7}"', pid=str(i % 3)) for i in range(50))
    odd = GIVEN_BACK["a negative duration"]
    compare(trace(tmp_path / "t.json", f"{usual},{odd},{usual},{usual},{odd},{odd},{usual}"))
    assert scans[0] is False
    assert 1 <= scans[1:].count(False) <= 3
    assert scans.count(True) > 10


@pytest.mark.parametrize(
    "end", ["", "]", '],"z":[{"a":1}]}', '],"z":'], ids=["cut", "no brace", "list", "header"]
)
def test_a_file_without_events_or_end_is_read_alike(tmp_path: Path, compare: Compare, end: str) -> None:
    for events in ("", GOOD, f"{GOOD},{GOOD}"):
        path = tmp_path / "t.json"
        path.write_text(f'{{"traceEvents":[{events}{end}')
        compare(path)


def bundled() -> list[Path]:
    folders = [Path(tracebraid.__file__).parent / "demo_traces", ROOT / "tests" / "captures"]
    return sorted(path for folder in folders for path in folder.rglob("kineto_trace_*.json*"))


@pytest.mark.full(keep=2)
@pytest.mark.parametrize("path", bundled(), ids=lambda path: "-".join(path.parts[-2:]))
def test_bundled_traces_are_read_alike(compare: Compare, scans: list[bool], path: Path) -> None:
    compare(path)
    assert all(scans)


@pytest.mark.full
@pytest.mark.slow
def test_real_traces_are_read_alike(
    real_traces: Path, compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "SMALL_CHUNK_BYTES", 100_000)
    for path in sorted(real_traces.rglob("*.json*")):
        compare(path)


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> list[Sample]:
    return samples_of("kineto_json", tmp_path_factory.mktemp("samples"))


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("part", range(100))
def test_mutants_are_read_alike(tmp_path: Path, compare: Compare, samples: list[Sample], part: int) -> None:
    for path in mutants("kineto_json", samples, part, tmp_path):
        compare(path)


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("part", range(30))
def test_mixtures_of_cases_are_read_alike(tmp_path: Path, compare: Compare, part: int) -> None:
    """Of what the Python reader does with one event the others of its chunk may decide."""
    numbers = random.Random(part)
    for i in range(PER_PART):
        texts = [*TAKEN.values()] if i % 2 else [*TAKEN.values(), *TAKEN.values(), *GIVEN_BACK.values()]
        compare(trace(tmp_path / "t.json", ",".join(numbers.choices(texts, k=numbers.randint(2, 8)))))
