"""Changes of protobuf messages that each stand behind their length, as in an `.et` file: fields, types, lengths."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tools.fuzz.model import Mutation
from tools.fuzz.mutations.raw_bytes import in_files

_VARINT, _FIXED64, _LENGTH, _GROUP, _GROUP_END, _FIXED32 = range(6)
_NUMBERS = (0, 1, 2, 127, 128, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**60, 2**63 - 1, 2**63, 2**64 - 1)
_TEXTS = (b"", b"\xff", b"\x1b[31m", b"=1+1", "\u202e".encode(), b"\0", b"<b>", b"x" * 70_000, b"..", b"nan")
_DOWN = 0.6
"""The chance that a change is made in a message below, where there is one."""


@dataclass(frozen=True)
class _Field:
    number: int
    kind: int
    value: int | bytes


def protobuf_fields(suffix: str) -> tuple[Mutation, ...]:
    """The mutations of files whose names end so."""
    return tuple(in_files(suffix, change) for change in (one_field, one_message, framing))


def one_field(data: bytes, rng: random.Random) -> bytes:
    """A field of a message, or of one inside it, is another one, another value, another type, or twice there."""
    messages = messages_of(data)
    if not messages:
        return data
    at = rng.randrange(len(messages))
    messages[at] = _changed(messages[at], rng)
    return _framed(messages)


def one_message(data: bytes, rng: random.Random) -> bytes:
    """A message is missing, there twice, empty, at another place, or as often there as a loop makes it."""
    messages = messages_of(data)
    if not messages:
        return data
    at = rng.randrange(len(messages))
    one = messages[at]
    ways: Sequence[Sequence[bytes]] = ([], [one, one], [b""], [one] * rng.choice((50, 300)))
    if rng.random() < 0.3:
        rng.shuffle(messages)
    else:
        messages[at : at + 1] = rng.choice(ways)
    return _framed(messages)


def framing(data: bytes, rng: random.Random) -> bytes:
    """A length before a message says something else, or takes more bytes than it needs."""
    messages = messages_of(data)
    if not messages:
        return data
    at = rng.randrange(len(messages))
    wrong = rng.choice((*_NUMBERS, len(messages[at]) + 1, max(0, len(messages[at]) - 1)))
    padded = _varint(len(messages[at]))[:-1] + bytes([_varint(len(messages[at]))[-1] | 0x80, 0x80, 0])
    head = rng.choice((_varint(wrong), padded, b"\xff" * 12))
    return _framed(messages[:at]) + head + messages[at] + _framed(messages[at + 1 :])


def _changed(message: bytes, rng: random.Random) -> bytes:
    fields = _fields(message)
    if not fields:
        return message + _encoded(_Field(rng.randint(1, 40), _VARINT, rng.choice(_NUMBERS)))
    at = rng.randrange(len(fields))
    below = [i for i, field in enumerate(fields) if field.kind == _LENGTH and _fields(_bytes_of(field))]
    if below and rng.random() < _DOWN:
        at = rng.choice(below)
        changed = [replace(fields[at], value=_changed(_bytes_of(fields[at]), rng))]
    else:
        changed = rng.choice(_WAYS)(fields[at], rng)
    return b"".join(map(_encoded, [*fields[:at], *changed, *fields[at + 1 :]]))


def _of_other_number(field: _Field, rng: random.Random) -> list[_Field]:
    return [replace(field, number=rng.choice((rng.randint(1, 40), 18_999, 2**29 - 1)))]


def _of_other_value(field: _Field, rng: random.Random) -> list[_Field]:
    if field.kind == _LENGTH:
        return [replace(field, value=rng.choice((*_TEXTS, _bytes_of(field) * 2, rng.randbytes(8))))]
    limit = 64 if field.kind in (_VARINT, _FIXED64) else 32
    return [replace(field, value=rng.choice(_NUMBERS) % (1 << limit))]


def _of_other_type(field: _Field, rng: random.Random) -> list[_Field]:
    kind = rng.choice((_VARINT, _FIXED64, _LENGTH, _FIXED32, _GROUP, _GROUP_END, 6, 7))
    value = rng.choice(_TEXTS[:-3]) if kind == _LENGTH else rng.choice(_NUMBERS)
    return [_Field(field.number, kind, value)]


def _packed(field: _Field, rng: random.Random) -> list[_Field]:
    """A list as one field, or each of its items as one."""
    if field.kind == _LENGTH:
        return [_Field(field.number, _VARINT, byte) for byte in _bytes_of(field)[:200]]
    count = rng.choice((1, 3, 2000))
    return [_Field(field.number, _LENGTH, b"".join(_varint(rng.choice(_NUMBERS)) for _ in range(count)))]


_WAYS: tuple[Callable[[_Field, random.Random], list[_Field]], ...] = (
    _of_other_number,
    _of_other_value,
    _of_other_value,
    _of_other_type,
    _packed,
    lambda field, rng: [field] * rng.choice((0, 2, 2, 500)),
    lambda field, rng: [field, *_of_other_value(field, rng)],
)


def messages_of(data: bytes) -> list[bytes]:
    """The messages of a file, without their lengths, up to the first that is cut."""
    found, at = [], 0
    while at < len(data):
        read = _read_varint(data, at)
        if read is None or read[0] + read[1] > len(data):
            break
        found.append(data[read[1] : read[1] + read[0]])
        at = read[1] + read[0]
    return found


def _framed(messages: Sequence[bytes]) -> bytes:
    return b"".join(_varint(len(message)) + message for message in messages)


def _fields(message: bytes) -> list[_Field]:
    """The fields; none where it is no message."""
    found, at = [], 0
    while at < len(message):
        tag = _read_varint(message, at)
        if tag is None or not 0 < tag[0] >> 3 < 64:
            return []
        number, kind, at = tag[0] >> 3, tag[0] & 7, tag[1]
        value: int | bytes
        if kind == _VARINT:
            read = _read_varint(message, at)
            if read is None:
                return []
            value, at = read
        elif kind == _LENGTH:
            read = _read_varint(message, at)
            if read is None or sum(read) > len(message):
                return []
            value, at = message[read[1] : sum(read)], sum(read)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
            if at + size > len(message):
                return []
            value, at = int.from_bytes(message[at : at + size], "little"), at + size
        else:
            return []
        found.append(_Field(number, kind, value))
    return found


def _encoded(field: _Field) -> bytes:
    tag = _varint(field.number << 3 | field.kind)
    if isinstance(field.value, bytes):
        return tag + _varint(len(field.value)) + field.value
    if field.kind == _FIXED64:
        return tag + field.value.to_bytes(8, "little")
    if field.kind == _FIXED32:
        return tag + (field.value % (1 << 32)).to_bytes(4, "little")
    return tag + (_varint(field.value) if field.kind == _VARINT else b"")


def _bytes_of(field: _Field) -> bytes:
    return field.value if isinstance(field.value, bytes) else b""


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _read_varint(data: bytes, at: int) -> tuple[int, int] | None:
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            return None
        number |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return number, at
    return None
