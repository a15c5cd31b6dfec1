"""`.et` files as JSON and back: the same bytes, whatever the messages hold."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.test_chakra_wire import attributes, framed, nodes
from tracebraid.chakra.as_json.from_json import frames_of_json
from tracebraid.chakra.as_json.message_json import json_of
from tracebraid.chakra.as_json.plain_members import plain_bytes
from tracebraid.chakra.as_json.plain_nodes import plain_nodes
from tracebraid.chakra.as_json.to_json import JsonForm, chunks_of
from tracebraid.chakra.wire.frames import FramedFile
from tracebraid.chakra.wire.messages import messages
from tracebraid.errors import NotATraceError
from tracebraid.filesystem.local import MemoryFile


def as_json(content: bytes, form: JsonForm) -> bytes:
    return b"".join(chunks_of(FramedFile(MemoryFile("a.0.et", content), None), form))


def back(text: bytes, block_bytes: int) -> bytes:
    blocks = (text[at : at + block_bytes] for at in range(0, len(text), block_bytes))
    return b"".join(frames_of_json("a.json", blocks))


@settings(deadline=None, max_examples=50)
@given(
    st.lists(nodes(), max_size=4),
    st.lists(attributes(), max_size=2),
    st.sampled_from(list(JsonForm)),
    st.integers(1, 400),
)
def test_messages_come_back_as_the_same_bytes(
    written: list[Any], of_file: list[Any], form: JsonForm, block_bytes: int
) -> None:
    metadata = messages().metadata(version="0.0.4", attr=of_file)
    content = framed([message.SerializeToString() for message in (metadata, *written)])
    for batch in FramedFile(MemoryFile("a.0.et", content), None).batches():
        texts = plain_nodes(batch.data, batch.messages)[1:]
        expected = [json_of(messages().node, node.SerializeToString()).decode() for node in written]
        assert [text or "" for text in texts] == [
            known if text else "" for text, known in zip(texts, expected, strict=True)
        ]
    assert back(as_json(content, form), block_bytes) == content


@settings(deadline=None, max_examples=50)
@given(
    st.lists(nodes(), min_size=1, max_size=3),
    st.sampled_from([JsonForm.DOCUMENT, JsonForm.LINES]),
    st.data(),
)
def test_damaged_and_foreign_messages_come_back_too(
    written: list[Any], form: JsonForm, data: st.DataObject
) -> None:
    contents = [bytearray(node.SerializeToString()) for node in written]
    for content in contents:
        for _ in range(data.draw(st.integers(0, 3)) if content else 0):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        content += data.draw(st.binary(max_size=4))
    whole = framed([b"\n\x050.0.4", *map(bytes, contents)])
    assert back(as_json(whole, form), 1 << 16) == whole


@pytest.mark.parametrize("form", list(JsonForm))
def test_a_file_without_metadata_comes_back(form: JsonForm) -> None:
    content = framed([messages().node(id=1, name="first", type=4).SerializeToString()])
    assert back(as_json(content, form), 10) == content


def test_a_first_node_that_could_be_metadata_comes_back() -> None:
    node = messages().node(attr=[messages().attribute(name="a")])
    content = framed([node.SerializeToString()])
    assert back(as_json(content, JsonForm.LINES), 10) == content


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (b"[]", "object 1"),
        (b'{"metadata": {}, "nodes": [{"id": "1"}', "object 3"),
        (b'{"version": "1"}\n{"id": "x"}', "object 2"),
        (b'{"version": "1"}\n{"kind": "x"}', "object 2"),
        (b'{"version": "1"}\n{"id": "1", "@wire": "CAI="}', "object 2"),
        (b'{"version": "1"}\n{"@wire": "?"}', "object 2"),
        (b'{"version": "1"}\n7', "object 2"),
        (b'{"version": "\xff"}', "object 1"),
        (b'{"a":' * 100_000, "object 1"),
    ],
)
def test_other_json_is_refused_and_says_where(text: bytes, where: str) -> None:
    with pytest.raises(NotATraceError) as caught:
        back(text, 1 << 16)
    assert caught.value.where == where


def test_a_document_that_was_formatted_anew_comes_back() -> None:
    node = messages().node(
        id=1, data_deps=[7, 2**64 - 1], attr=[messages().attribute(name="{", string_val="}]")]
    )
    content = framed([b"\n\x050.0.4", *[node.SerializeToString()] * 3])
    document = json.loads(as_json(content, JsonForm.DOCUMENT))
    assert set(document) == {"metadata", "nodes"}
    for indent in (None, 1, 4):
        assert back(json.dumps(document, indent=indent).encode(), 7) == content


@pytest.mark.parametrize(
    "members",
    [
        {"id": "1_0"},
        {"id": " 7"},
        {"id": "-1"},
        {"id": 2**64},
        {"dataDeps": "12"},
        {"name": 7},
        {"type": "COMPUTE"},
        {"attr": [{"name": "a", "int64Val": True}]},
        {"attr": [{"name": "a", "boolVal": 1}]},
        {"attr": [{"name": "a", "int32Val": 2**31}]},
        {"attr": [{"name": "a", "kind": "1"}]},
        {"attr": {"name": "a", "int64Val": "1"}},
        {"attr": [["name", "int64Val"]]},
        {"inputs": {"values": 7}},
        {"inputs": []},
    ],
)
def test_members_with_values_of_other_types_are_refused_as_protobuf_refuses_them(
    members: dict[str, Any],
) -> None:
    assert plain_bytes(dict(members)) is None
    text = b"{}" + json.dumps({"name": "x", **members}).encode()
    try:
        expected = messages().of_json({"name": "x", **members}, messages().node()).SerializeToString()
    except (messages().json_error, AttributeError):
        with pytest.raises(NotATraceError):
            back(text, 100)
    else:
        assert back(text, 100) == framed([b"", expected])
