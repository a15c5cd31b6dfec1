"""An `.et` file as one JSON document, as JSON lines, or in the form of Chakra's own jsonizer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import Enum

import msgspec

from tracebraid.chakra.as_json.message_json import METADATA_MEMBERS, WIRE, json_of, members_of
from tracebraid.chakra.as_json.plain_nodes import plain_nodes
from tracebraid.chakra.wire.frames import EXPECTED, Batch, FramedFile
from tracebraid.chakra.wire.messages import messages
from tracebraid.errors import NotATraceError
from tracebraid.model.printable import printable_json

__all__ = ["JsonForm", "chunks_of"]

_INDENT = 2
"""Spaces for a level, as protobuf's `MessageToJson` has it."""


class JsonForm(Enum):
    """How the messages of a file stand in JSON."""

    DOCUMENT = "document"
    """One object: `metadata`, and the list `nodes`, a line for each."""
    LINES = "lines"
    """A line for the metadata, then one for each node."""
    JSONIZER = "jsonizer"
    """As Chakra's jsonizer writes them: over several lines each, nothing between them, and never `@wire`."""


def chunks_of(file: FramedFile, form: JsonForm) -> Iterator[bytes]:
    """The text, some thousand nodes at a time; what steers a terminal stands in it as an escape.

    Raises:
        InputError: the file cannot be read.
        NotATraceError: it holds no message of Chakra's.
    """
    return map(printable_json, _raw_chunks(file, form))


def _raw_chunks(file: FramedFile, form: JsonForm) -> Iterator[bytes]:
    is_begun, any_node = False, False
    for batch in file.batches():
        texts = _texts(batch)
        if batch.first == 0:
            head = _head(file, batch)
            yield _begin(form, head)
            is_begun = True
            texts = texts if head is None else texts[1:]
        if not texts:
            continue
        if form is JsonForm.LINES:
            yield ("\n".join(texts) + "\n").encode()
        elif form is JsonForm.JSONIZER:
            yield b"".join(map(_indented, texts))
        else:
            yield ((",\n" if any_node else "\n") + ",\n".join(texts)).encode()
        any_node = True
    if not is_begun:
        raise NotATraceError(file.path, "it holds no whole message", EXPECTED)
    if form is JsonForm.DOCUMENT:
        yield b"\n]}\n"


def _texts(batch: Batch) -> list[str]:
    starts, stops = batch.messages.start.tolist(), batch.messages.stop.tolist()
    return [
        json_of(messages().node, batch.data[start:stop]).decode() if text is None else text
        for text, start, stop in zip(plain_nodes(batch.data, batch.messages), starts, stops, strict=True)
    ]


def _head(file: FramedFile, batch: Batch) -> bytes | None:
    """The metadata; None where the file begins with a node.

    Raises:
        NotATraceError: the first message is neither.
    """
    content = batch.data[batch.messages.start[0] : batch.messages.stop[0]]
    metadata = members_of(messages().metadata, content)
    if WIRE not in metadata:
        return msgspec.json.encode(metadata)
    node = members_of(messages().node, content)
    if WIRE not in node:
        # What could be taken for metadata stands there as bytes alone.
        return msgspec.json.encode(metadata) if node.keys() <= METADATA_MEMBERS else None
    if len(metadata) == 1:
        raise NotATraceError(file.path, "its first message is none of Chakra's", EXPECTED, batch.where(0))
    return msgspec.json.encode(metadata)


def _begin(form: JsonForm, head: bytes | None) -> bytes:
    if form is JsonForm.DOCUMENT:
        return b'{"metadata": ' + (head or b"null") + b',\n"nodes": ['
    if head is None:
        return b""
    return head + b"\n" if form is JsonForm.LINES else _indented(head)


def _indented(text: str | bytes) -> bytes:
    """As protobuf's `MessageToJson` writes it; nothing for a message that is damaged."""
    members = msgspec.json.decode(text)
    if list(members) == [WIRE]:
        return b""
    members.pop(WIRE, None)
    return json.dumps(members, indent=_INDENT).encode()
