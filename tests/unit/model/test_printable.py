from __future__ import annotations

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tracebraid.model.printable import printable_json


@given(
    st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
)
def test_a_document_says_the_same_in_characters_that_steer_nothing(data: object) -> None:
    document = printable_json(msgspec.json.encode(data))
    assert json.loads(document) == data
    assert document.decode().isprintable()


def test_what_terminals_obey_is_written_out() -> None:
    document = printable_json('{"a": "\x9b31m \x7f \u202e \u2028 \U000e0041 é 😀"}'.encode())
    assert document.decode() == '{"a": "\\u009b31m \\u007f \\u202e \\u2028 \\udb40\\udc41 é 😀"}'
