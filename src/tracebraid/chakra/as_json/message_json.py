"""A message as JSON, in protobuf's own form of it, and back to the same bytes."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from tracebraid.chakra.wire.messages import messages
from tracebraid.errors import ArgumentError

__all__ = ["METADATA_MEMBERS", "WIRE", "bytes_of", "json_of", "members_of"]

WIRE = "@wire"
"""The key of a message's bytes in base64, where its JSON does not give them: it holds unknown fields, is written in
another way than protobuf writes it, or is damaged."""
METADATA_MEMBERS = {"version", "attr", WIRE}
"""What the first object of a file has where it is its metadata, and no node."""


def members_of(kind: Any, content: bytes) -> dict[str, Any]:
    """A message as an object of JSON: names, texts for integers of 64 bits, and all else as protobuf has it.

    Args:
        kind: the class of the message.
        content: its bytes; those that are no such message stand in `@wire` alone.
    """
    try:
        message = kind.FromString(content)
    except messages().error:
        return {WIRE: base64.b64encode(content).decode()}
    members: dict[str, Any] = messages().to_json(message)
    if messages().of_json(members, kind()).SerializeToString() != content:
        members[WIRE] = base64.b64encode(content).decode()
    return members


def json_of(kind: Any, content: bytes) -> bytes:
    """The text of `members_of`, on one line."""
    return msgspec.json.encode(members_of(kind, content))


def bytes_of(kind: Any, members: dict[str, Any]) -> bytes:
    """The bytes of a message.

    Args:
        kind: the class of the message.
        members: as `members_of` gives them.

    Raises:
        ArgumentError: it is no such message, or differs from its own `@wire`.
    """
    wire = members.pop(WIRE, None)
    try:
        message = messages().of_json(members, kind())
        content: bytes = message.SerializeToString()
        if wire is None:
            return content
        kept = base64.b64decode(wire, validate=True)
        said = members_of(kind, kept)
    # A double that is no number of its own overflows where an integer is meant.
    except (messages().json_error, ArithmeticError, ValueError, TypeError, AttributeError) as error:
        raise ArgumentError(f"it is no message of Chakra's: {error}") from None
    said.pop(WIRE, None)
    if said != messages().to_json(message):
        raise ArgumentError(
            f"its members say something else than its {WIRE!r}: delete that for the members to count"
        )
    return kept
