"""Names that PyTorch's writers do not escape become JSON, and stay the names they were."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracebraid.recorders.postprocess.escape_names import Edit, apply_edits, escape_names, first_error

QUOTES = b'"""'
NAMES = st.text(st.characters(codec="utf-8"), max_size=30)


def et(*names: str) -> bytes:
    """Nodes as PyTorch prints them, names as they are."""
    nodes = (
        f'      {{\n        "id": {number}, "name": "{name}", "ctrl_deps": 1,\n'
        '        "inputs": {"values": []}\n      }'
        for number, name in enumerate(names, start=2)
    )
    return ('{\n  "nodes": [\n' + ",\n".join(nodes) + "\n  ]\n}\n").encode()


def kineto(*names: str) -> bytes:
    events = (
        f'  {{\n    "ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 1, "tid": 1,\n    "ts": 1, "dur": 1\n  }}'
        for name in names
    )
    return ('{\n  "traceEvents": [\n' + ",\n".join(events) + "\n  ]\n}\n").encode()


def mended(text: bytes, kind: str, never_escaped: bool = False) -> list[str]:
    edits, _ = escape_names(text, kind, never_escaped)
    whole = json.loads(b"".join(apply_edits(text, edits)))
    return [one["name"] for one in (whole["nodes"] if kind == "et" else whole["traceEvents"])]


@given(st.lists(NAMES, min_size=1, max_size=5))
def test_any_names_of_a_writer_that_escapes_nothing_come_back(names: list[str]) -> None:
    assert mended(et(*names), "et", never_escaped=True) == names


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\\")), min_size=1, max_size=5))
def test_any_names_without_backslashes_come_back_from_either_writer(names: list[str]) -> None:
    assert mended(et(*names), "et") == names
    assert mended(kineto(*names), "kineto") == names


def test_a_name_that_is_escaped_already_stays() -> None:
    assert mended(et('a \\"b\\" \\n'), "et") == ['a "b" \n']
    assert escape_names(et('a \\"b\\" \\n'), "et") == ([], [])


def test_bytes_that_are_no_utf_8_are_written_out() -> None:
    text = et("a?b").replace(b"a?b", b"a\xffb")
    edits, findings = escape_names(text, "et")
    assert b"a\\\\xffb" in b"".join(apply_edits(text, edits))
    assert [one.count for one in findings] == [1]


def test_the_finding_counts_the_names_and_tells_the_first_place() -> None:
    text = et('"', "plain", "\x01")
    _, (finding,) = escape_names(text, "et")
    place = text.index(QUOTES) + 1
    assert (finding.code, finding.count, finding.where) == ("name-escaped", 2, f"byte {place}")


@pytest.mark.parametrize("text", [b"{}", b"[1, 2]", b'"\\u00e9"'])
def test_json_has_no_error(text: bytes) -> None:
    assert first_error(text) == ""


@pytest.mark.parametrize("text", [b"", b"{", b'{"a": "b"c"}', b"{}x"])
def test_what_is_no_json_has_a_place(text: bytes) -> None:
    assert first_error(text)


def test_edits_may_touch_each_other() -> None:
    edits = [Edit(0, 0, b"<"), Edit(1, 2, b"B"), Edit(2, 3, b""), Edit(4, 4, b">")]
    assert b"".join(apply_edits(b"abcd", edits)) == b"<aBd>"
