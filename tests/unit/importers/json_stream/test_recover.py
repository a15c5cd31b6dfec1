"""Is of a damaged chunk all kept that can be read, and is what cannot be said with its place?"""

from __future__ import annotations

import json

import pytest

from tests.builders import op
from tests.growth import growth
from tracebraid.importers.json_stream.chunks import EVENT_MEMBER, shape_of
from tracebraid.importers.json_stream.recover import recover

SHAPE = shape_of(b"", EVENT_MEMBER)
A, B, C = (json.dumps(op(name, 1, 2)) for name in "abc")


def names(text: str | bytes, start: int = 0) -> tuple[list[object], list[tuple[str, int]]]:
    """(names of the objects kept, code and byte of each issue)."""
    data = text if isinstance(text, bytes) else text.encode()
    kept, issues = recover(data, start, SHAPE)
    return [one.value.get("name") for one in kept], [(issue.code, issue.byte) for issue in issues]


def test_whole_objects_are_kept_as_they_stand() -> None:
    kept, issues = recover(f"{A},\n{B}".encode(), 0, SHAPE)
    assert [one.text.decode() for one in kept] == [A, B]
    assert [one.byte for one in kept] == [0, len(A) + 2]
    assert issues == []


def test_an_object_with_objects_inside_is_put_together_again() -> None:
    for count in (2, 8, 40):
        nested = json.dumps(op("n", 1, 2, x=[{"k": i} for i in range(count)]))
        assert names(f"{A}, {nested}, {B}") == (["a", "n", "b"], [])


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ('say "hello" twice', 'say "hello" twice'),
        ('"', '"'),
        ("a\tb\nc\x00d", "a\tb\nc\x00d"),
        ('f(x, "ph")', 'f(x, "ph")'),
    ],
    ids=["quotes", "one quote", "control characters", "a key"],
)
def test_a_name_that_was_not_escaped_is_mended(written: str, name: str) -> None:
    damaged = B.replace('"name": "b"', f'"name": "{written}"')
    assert names(f"{A}, {damaged}, {C}", start=10) == (
        ["a", name, "c"],
        [("event-mended", 10 + len(A) + 2)],
    )


def test_a_name_in_wrong_encoding_is_mended() -> None:
    damaged = B.encode().replace(b'"b"', b'"b\xff"')
    kept, issues = names(A.encode() + b", " + damaged)
    assert kept == ["a", "b\ufffd"]
    assert issues == [("event-mended", len(A) + 2)]


@pytest.mark.parametrize("escape", ["\\ud800", "\\udc00 \\ud800"])
def test_half_a_surrogate_pair_in_a_name_is_mended(escape: str) -> None:
    """Python's json writes and reads such text, though it is no Unicode."""
    damaged = B.replace('"b"', f'"b{escape}"')
    kept, issues = names(f"{A}, {damaged}, {C}")
    assert len(kept) == 3
    assert str(kept[1]).startswith("b")
    assert issues == [("event-mended", len(A) + 2)]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
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


@pytest.mark.parametrize("between", ["\n", " 5, "])
def test_the_cost_of_damage_between_all_objects_grows_with_their_number_only(between: str) -> None:
    small, large = (
        between.join([json.dumps(op("a", 1, 2, x="x" * 150))] * count).encode() for count in (750, 6000)
    )
    assert len(recover(large, 0, SHAPE)[0]) == 6000
    assert growth(lambda data: recover(data, 0, SHAPE), small, large) < 32, (
        "8 times the text; 64 if quadratic"
    )


@pytest.mark.parametrize(
    "unit",
    [
        *('{"ph": "X", ', '{"ph": "X" 1, {"name":" ', '{"ph": "X", "name": "a" 1, "args": {}} ,'),
        *('0{"ph": "X"}}]', '{"ph": "X"}\\"', '\x1f{"ph": 1}-'),
    ],
)
def test_the_cost_of_one_broken_text_grows_with_its_length_only(unit: str) -> None:
    small, large = ((unit * (size // len(unit))).encode() for size in (1 << 15, 1 << 18))
    assert growth(lambda data: recover(data, 0, SHAPE), small, large) < 32, (
        "8 times the text; 64 if quadratic"
    )


def test_an_object_within_a_broken_one_is_read() -> None:
    assert names(f'{{"ph": "X", "name": "lost", {B}, {C}')[0] == ["b", "c"]


def test_what_is_left_of_a_broken_object_is_no_object() -> None:
    damaged = B.replace('"args": {}', '"args": {"x": [{"a": 1}, {"a": 2}]}').replace('"ts"', "ts")
    kept, issues = names(f"{A}, {damaged}, {C}")
    assert kept == ["a", "c"]
    assert {code for code, _ in issues} <= {"event-unreadable", "text-between"}
