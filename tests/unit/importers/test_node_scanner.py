"""The native scanner of Execution Traces gives what the Python reader gives, of every input."""

from __future__ import annotations

import ctypes
import random
from pathlib import Path

import pytest

import tracebraid
import tracebraid.importers.execution_trace.reader as reader
from tests.conftest import ROOT
from tests.unit.importers.scanning import (
    PER_PART,
    Compare,
    compare_readers,
    mutants,
    samples_of,
)
from tools.fuzz.model import Sample
from tracebraid.importers.execution_trace.reader import read_execution_trace

SMALL_CHUNK_BYTES = 1500


@pytest.fixture
def compare(library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> Compare:
    """Read a file in usual and in small chunks with both readers."""

    def compared(path: Path) -> None:
        for chunk_bytes in (4 << 20, SMALL_CHUNK_BYTES):
            monkeypatch.setattr(reader, "_CHUNK_BYTES", chunk_bytes)
            compare_readers(path, read_execution_trace, library, monkeypatch)

    return compared


def attr(name: str, value: str, kind: str = "uint64") -> str:
    return f'{{"name": "{name}", "type": "{kind}", "value": {value}}}'


FIRST = [attr("rf_id", "7"), attr("fw_parent", "0"), attr("seq_id", "-1", "int64")]
REST = [attr("scope", "0"), attr("tid", "1"), attr("fw_tid", "0"), attr("op_schema", '""', "string")]
ATTRS = ", ".join(FIRST + REST)
TENSOR = '[3, 4, 0, 6, 4, "cpu"]'
INPUTS = (
    f'{{"values": [{TENSOR}, 1.5, "x"], "shapes": [[2, 3], [], []], '
    '"types": ["Tensor(float)", "Double", "String"], "strides": [[3, 1], [], []]}'
)


def node(**members: str | None) -> str:
    """A node with members of these JSON texts; None leaves one out."""
    usual: dict[str, str | None] = {
        "id": "5",
        "name": '"aten::add"',
        "ctrl_deps": "2",
        "inputs": INPUTS,
        "outputs": '{"values": [], "shapes": [], "types": [], "strides": []}',
        "attrs": f"[{ATTRS}]",
    }
    members = {key.rstrip("_"): text for key, text in members.items()}
    return "{" + ", ".join(f'"{key}": {text}' for key, text in {**usual, **members}.items() if text) + "}"


def values(*texts: str) -> str:
    """A node with inputs of these values."""
    shapes, types = (", ".join(one for _ in texts) for one in ("[]", '"Int"'))
    return node(inputs=f'{{"values": [{", ".join(texts)}], "shapes": [{shapes}], "types": [{types}]}}')


def attrs(*texts: str) -> str:
    return node(attrs=f"[{', '.join(texts)}]")


def flat(**members: str | None) -> str:
    """A node of schema 1.0.1, in the order of members that PyTorch has."""
    usual: dict[str, str | None] = {
        "name": '"aten::add"',
        "id": "5",
        "rf_id": "7",
        "parent": "2",
        "fw_parent": "0",
        "seq_id": "-1",
        "scope": "0",
        "tid": "1",
        "fw_tid": "0",
        "op_schema": '"aten::add(Tensor a)"',
        "inputs": f"[{TENSOR}, 1.5]",
        "input_shapes": "[[2, 3], []]",
        "input_types": '["Tensor(float)", "Double"]',
        "outputs": "[]",
        "output_shapes": "[]",
        "output_types": "[]",
    }
    return "{" + ", ".join(f'"{key}": {text}' for key, text in {**usual, **members}.items() if text) + "}"


def collective(*texts: str) -> str:
    return node(name='"record_param_comms"', attrs=f"[{', '.join((*FIRST, *REST, *texts))}]")


GOOD = node(id="3", name='"good"', ctrl_deps="1")
FLAT_GOOD = flat(id="3", name='"good"', parent="1")
TAKEN: dict[str, str] = {
    "a node": node(),
    "a root": node(ctrl_deps="null"),
    "its own parent": node(ctrl_deps="5"),
    "a parent that is not there": node(ctrl_deps="99"),
    "an id that comes again": node(id="3"),
    "a negative id": node(id="-7"),
    "minus zero": node(id="-0"),
    "escapes in a name": node(name=r'"a\"b\\c\n\u00e9"'),
    "UTF-8 in a name": node(name='"é😀\ufeff"'),
    "one name in two spellings": node(name='"A"') + "," + node(id="6", name=r'"\u0041"'),
    "brackets in a name": node(name=r'"}, {\"id\": 1 ]}"'),
    "no arguments": node(inputs='{"values": []}', outputs='{"values": []}'),
    "no strides": node(inputs='{"values": [1], "shapes": [[]], "types": ["Int"]}'),
    "another order of a layout": node(inputs='{"values": [1], "types": ["Int"], "shapes": [[4]]}'),
    "fewer shapes than values": node(inputs='{"values": [1, 2], "shapes": [[4]], "types": ["Int"]}'),
    "more shapes than values": node(inputs='{"values": [1], "shapes": [[4], [5]], "types": ["Int", "Int"]}'),
    "a shape of shapes": node(inputs='{"values": [[1, 2]], "shapes": [[[4], [5]]], "types": ["List"]}'),
    "shapes in two spellings": ",".join(
        node(id=str(i), inputs=f'{{"values": [1], "shapes": [{shape}], "types": ["T"]}}')
        for i, shape in enumerate(("[4,5]", "[4, 5]", "[ 4,5 ]"), 10)
    ),
    "a type in two spellings": ",".join(
        node(id=str(i), inputs=f'{{"values": [1], "shapes": [[]], "types": ["{kind}"]}}')
        for i, kind in enumerate(("Int", r"\u0049nt"), 10)
    ),
    "odd white space": node(name='"n"').replace(":", " \t:\r\n ").replace(",", " ,\n"),
    "no white space": node().replace(" ", ""),
    "values of all kinds": values("1", "-2.50", "1e3", "true", "null", '"a b"', "[1, [2]]", "{}", '{"a": 1}'),
    "a value with space": values("[1,  2]", "[1, 2]", '{ "a":1 }'),
    "a value that looks like a layout": values('"], \\"shapes\\": ["', '"x"'),
    "numbers of many digits": values("0.12345678901234567890", "123456789012345678901234567890"),
    "values with escapes": values(r'"\u0041"', '"A"', r'"a\\"'),
    "values nested 50 deep": values("[" * 50 + "]" * 50),
    "many values": values(*map(str, range(300))),
    "a node of schema 1.0.1": flat(),
    "no attributes": node(attrs="[]"),
    "only the first attributes": attrs(*FIRST),
    "attributes in another order": attrs(*REST, *FIRST),
    "no rf_id": attrs(*FIRST[1:], *REST),
    "a first attribute twice": attrs(*FIRST, attr("rf_id", "8"), *REST),
    "a first attribute that is text": attrs(attr("rf_id", '"7"'), *FIRST[1:], *REST),
    "a first attribute that is a float": attrs(attr("rf_id", "7.0"), *FIRST[1:], *REST),
    "a first attribute that is null": attrs(attr("rf_id", "null"), *FIRST[1:], *REST),
    "a large first attribute": attrs(attr("rf_id", "18446744073709551615"), *FIRST[1:], *REST),
    "a type with an escape": attrs(attr("rf_id", "7", r"uint\u00364"), *FIRST[1:], *REST),
    "an attribute without type": attrs(*FIRST, '{"name": "scope", "value": 3}'),
    "an attribute without value": attrs(*FIRST, '{"name": "scope"}'),
    "an attribute in another order": attrs(*FIRST, '{"value": 3, "name": "scope"}'),
    "unknown attributes": attrs(*FIRST, attr("zz", "[1, 2.5, null]"), attr("é", '"\\u00e9"')),
    "an attribute of another type": attrs(*FIRST, attr("tid", '"one"'), attr("scope", "true")),
    "an attribute that is an object": attrs(*FIRST, attr("zz", '{"a": [1], "b": "]"}')),
    "a huge attribute": attrs(*FIRST, attr("scope", "123456789012345678901234")),
    "Triton's attributes": attrs(
        *FIRST, attr("kernel_backend", '"triton"', "string"), attr("kernel_file", '"/a/b.py"', "string")
    ),
    "a collective": collective(
        attr("collective_name", '"allreduce"', "string"),
        attr("dtype", '"Float"', "string"),
        attr("in_msg_nelems", "100"),
        attr("out_msg_nelems", "100"),
        attr("pg_name", '"0"', "string"),
        attr("pg_size", "2"),
    ),
    "a collective with a size that is text": collective(attr("in_msg_nelems", '"many"')),
}
GIVEN_BACK: dict[str, str] = {
    "an unknown member": node()[:-1] + ', "more": 1}',
    "a member twice": node()[:-1] + ', "id": 9}',
    "another order of members": '{"name": "n", "id": 5, ' + node().split(", ", 2)[2],
    "no name": node(name=None),
    "no attributes at all": node(attrs=None),
    "an escape in a member": node().replace('"id"', r'"\u0069d"'),
    "an id as text": node(id='"5"'),
    "an id as a float": node(id="5.0"),
    "a large id": node(id="18446744073709551615"),
    "a leading zero": node(id="05"),
    "a null name": node(name="null"),
    "half a surrogate": node(name=r'"\ud83d"'),
    "a pair of surrogates": node(name=r'"\ud83d\ude00"'),
    "a control character": node(name='"a\tb"'),
    "a parent as text": node(ctrl_deps='"2"'),
    "a large parent": node(ctrl_deps="99999999999999999999"),
    "arguments as a list": node(inputs="[1]"),
    "no values": node(inputs='{"shapes": [], "types": []}'),
    "empty arguments": node(inputs="{}"),
    "values behind shapes": node(inputs='{"shapes": [[]], "values": [1], "types": ["Int"]}'),
    "values twice": node(inputs='{"values": [1], "shapes": [[]], "values": [2]}'),
    "shapes twice": node(inputs='{"values": [1], "shapes": [[]], "shapes": [[2]]}'),
    "an unknown member of arguments": node(inputs='{"values": [1], "sizes": [[]]}'),
    "values that are none": node(inputs='{"values": 1}'),
    "shapes that are none": node(inputs='{"values": [1], "shapes": 3}'),
    "a type that is no text": node(inputs='{"values": [1], "shapes": [[]], "types": [1]}'),
    "a comma behind values": node(inputs='{"values": [1,], "shapes": [[]]}'),
    "a comma behind a layout": node(inputs='{"values": [1], "shapes": [[]],}'),
    "a comma and no layout": node(inputs='{"values": [1],}'),
    "two commas between values": values("1", "", "2"),
    "not a number": values("NaN"),
    "infinity": values("-Infinity"),
    "broken JSON in a value": values("[1,,2]"),
    "an unknown word": values("[tru]"),
    "a value nested 600 deep": values("[" * 600 + "]" * 600),
    "a value nested 5,000 deep": values("[" * 5000 + "]" * 5000),
    "an exponent of three digits": values("1e400"),
    "attributes as an object": node(attrs="{}"),
    "an attribute as text": attrs(*FIRST, '"scope"'),
    "an attribute without name": attrs(*FIRST, '{"type": "int", "value": 3}'),
    "an attribute with a number as name": attrs(*FIRST, '{"name": 1, "type": "int", "value": 3}'),
    "an attribute with more": attrs(*FIRST, '{"name": "a", "type": "int", "value": 3, "x": 1}'),
    "an attribute twice the name": attrs(*FIRST, '{"name": "a", "name": "b"}'),
    "a comma behind the first attributes": node(attrs=f"[{', '.join(FIRST)}, ]"),
    "a comma behind the attributes": node(attrs=f"[{ATTRS},]"),
    "a trailing comma": node() + ",",
    "two commas": node() + ",," + node(id="6"),
    "no comma": node() + node(id="6"),
    "text between nodes": node() + ",xx," + node(id="6"),
    "no UTF-8": node(name='"\udcff"'),
    "a zero byte": node() + ",\0",
    "a node cut short": node() + ', {"id": 7, "name": "n',
}


FLAT_TAKEN: dict[str, str] = {
    "a node": flat(),
    "no white space": flat().replace(" ", ""),
    "odd white space": flat(name='"n"', op_schema='""').replace(":", " \n: ").replace(",", "\t, "),
    "a negative scope": flat(scope="-1", tid="-0"),
    "escapes in a schema": flat(op_schema=r'"a\"b\u0041"'),
    "schemas in two spellings": flat(op_schema='"A"') + "," + flat(id="6", op_schema=r'"\u0041"'),
    "fewer shapes": flat(input_shapes="[[2]]", input_types="[]"),
    "its own parent": flat(parent="5"),
    "an id that comes again": flat(id="3"),
}
FLAT_GIVEN_BACK: dict[str, str] = {
    "no schema": flat(op_schema=None),
    "a null schema": flat(op_schema="null"),
    "a null parent": flat(parent="null"),
    "a large id": flat(rf_id="18446744073709551615"),
    "a fraction": flat(tid="1.0"),
    "text for a number": flat(scope='"7"'),
    "no outputs": flat(outputs=None, output_shapes=None, output_types=None),
    "a type that is no text": flat(input_types="[1]"),
    "shapes that are none": flat(input_shapes="3"),
    "broken shapes": flat(input_shapes="[[1,,2]]"),
    "half a surrogate in a schema": flat(op_schema=r'"\ud83d"'),
    "one more member": flat()[:-1] + ', "more": 1}',
    "another order": flat().replace('"tid"', '"x"').replace('"scope"', '"tid"').replace('"x"', '"scope"'),
    "a comma at the end": flat()[:-1] + ",}",
}


def trace(path: Path, text: str, good: str = GOOD) -> Path:
    last = good.replace("3", "900", 1)
    whole = f'{{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [{good}, {text}, {last}], "finish_ts": 2}}'
    path.write_bytes(whole.encode("utf-8", "surrogateescape"))
    return path


def cases(of_today: dict[str, str], of_old: dict[str, str]) -> pytest.MarkDecorator:
    """Nodes of each form, between others of it."""
    params = [pytest.param(GOOD, text, id=name) for name, text in of_today.items()]
    params += [pytest.param(FLAT_GOOD, text, id=f"1.0.1, {name}") for name, text in of_old.items()]
    return pytest.mark.parametrize(("good", "text"), params)


@cases(TAKEN, FLAT_TAKEN)
def test_what_the_scanner_takes_is_as_python_reads_it(
    tmp_path: Path, compare: Compare, scans: list[bool], good: str, text: str
) -> None:
    compare(trace(tmp_path / "t.json", text, good))
    assert scans
    assert all(scans)


@cases(GIVEN_BACK, FLAT_GIVEN_BACK)
def test_a_chunk_with_anything_else_is_read_by_python(
    tmp_path: Path, compare: Compare, scans: list[bool], good: str, text: str
) -> None:
    compare(trace(tmp_path / "t.json", text, good))
    assert not scans[0]


def test_only_the_chunk_with_what_is_unusual_is_given_back(
    tmp_path: Path, compare: Compare, scans: list[bool]
) -> None:
    def usual(first: int) -> str:
        return ", ".join(node(id=str(i), name=f'"n{i % 7}"') for i in range(first, first + 50))

    odd = GIVEN_BACK["values behind shapes"]
    compare(
        trace(tmp_path / "t.json", f"{usual(10)}, {odd}, {usual(100)}, {usual(200)}, {odd}, {usual(300)}")
    )
    assert scans[0] is False
    assert 1 <= scans[1:].count(False) <= 3
    assert scans.count(True) > 10


def bundled() -> list[Path]:
    folders = [Path(tracebraid.__file__).parent / "demo_traces", ROOT / "tests" / "captures"]
    return sorted(path for folder in folders for path in folder.rglob("torch_et_*.json*"))


@pytest.mark.full(keep=2)
@pytest.mark.parametrize("path", bundled(), ids=lambda path: "-".join(path.parts[-2:]))
def test_bundled_traces_are_taken_whole_and_read_alike(
    compare: Compare, scans: list[bool], path: Path
) -> None:
    compare(path)
    assert scans
    assert all(scans)


@pytest.mark.full
@pytest.mark.slow
def test_real_traces_are_taken_whole_and_read_alike(
    real_traces: Path, compare: Compare, scans: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "SMALL_CHUNK_BYTES", 100_000)
    for path in sorted(
        [*(real_traces / "et").rglob("*.json*"), *(real_traces / "pairs").rglob("torch_et_*")]
    ):
        compare(path)
    assert scans
    assert all(scans)


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> list[Sample]:
    return samples_of("et_json", tmp_path_factory.mktemp("samples"))


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("part", range(50))
def test_mutants_are_read_alike(tmp_path: Path, compare: Compare, samples: list[Sample], part: int) -> None:
    for path in mutants("et_json", samples, part, tmp_path):
        compare(path)


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("part", range(30))
def test_mixtures_of_cases_are_read_alike(tmp_path: Path, compare: Compare, part: int) -> None:
    numbers = random.Random(part)
    for i in range(PER_PART):
        texts = [*TAKEN.values()] if i % 2 else [*TAKEN.values(), *TAKEN.values(), *GIVEN_BACK.values()]
        compare(trace(tmp_path / "t.json", ", ".join(numbers.choices(texts, k=numbers.randint(2, 8)))))
