"""JSON of an `.et` file back to its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tracebraid.chakra.as_json.json_values import json_objects
from tracebraid.chakra.as_json.message_json import METADATA_MEMBERS, bytes_of
from tracebraid.chakra.as_json.plain_members import plain_bytes
from tracebraid.chakra.wire.messages import messages
from tracebraid.errors import ArgumentError, NotATraceError
from tracebraid.wire_format import length_delimited

__all__ = ["frames_of_json"]

_EXPECTED = "Expected JSON as `tracebraid chakra json` or Chakra's jsonizer writes it: correct this place"
_CHUNK_BYTES = 1 << 20


def frames_of_json(path: str, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The bytes of the `.et` file, some thousand nodes at a time.

    Args:
        path: the file, for messages.
        blocks: its text as UTF-8, in any form of `JsonForm`.

    Raises:
        NotATraceError: it is no such JSON.
    """
    done, pending = 0, bytearray()
    try:
        for members in json_objects(blocks):
            is_metadata = done == 0 and members.keys() <= METADATA_MEMBERS
            pending += length_delimited(_content(members, is_metadata))
            done += 1
            if len(pending) > _CHUNK_BYTES:
                yield bytes(pending)
                pending.clear()
    except ArgumentError as error:
        raise NotATraceError(path, str(error), _EXPECTED, f"object {done + 1:,}") from None
    yield bytes(pending)


def _content(members: dict[str, Any], is_metadata: bool) -> bytes:
    if is_metadata:
        return bytes_of(messages().metadata, members)
    content = plain_bytes(members)
    return bytes_of(messages().node, members) if content is None else content
