"""The entries of a tar: those of POSIX (ustar, pax) and of GNU, read from headers only.

The standard library's reader trusts the size of a name in a header, and reads it into memory; this one does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from tracebraid.filesystem.archives.member_files import NAME_AT_MOST_BYTES, Listed, Member
from tracebraid.model.finding import FindingCase

BLOCK_BYTES = 512
_FILES, _FOLDER = b"\x000" + b"7", b"5"
_NO_DATA = b"123456"
"""Links, devices, folders and pipes, whose size is not followed by data."""
_PAX, _PAX_OF_ALL, _LONG_NAME, _LONG_LINK, _SPARSE = b"x", b"g", b"L", b"K", b"S"
_PAX_AT_MOST_BYTES = 1 << 20
"""Maximum size of an extended header, which has the name, times and attributes of one file."""
_OUTSIDE = "/"
"""Replacement of a name that is too long."""

_Read = Callable[[int, int], bytes]


class TarEnd(Struct):
    """End of a tar: filled by `tar_entries`.

    Args:
        damaged_at: the byte from which it is unreadable; None if it ends properly.
    """

    damaged_at: int | None = None


class _Extended(Struct):
    """Extended headers of the file that follows."""

    name: str | None = None
    size: int | None = None
    sparse: bool = False


class _Header(Struct, frozen=True):
    name: str
    size: int
    kind: bytes


def is_tar(head: bytes) -> bool:
    """Return whether a file begins as a tar does."""
    return len(head) >= BLOCK_BYTES and _header(head[:BLOCK_BYTES]) is not None


def tar_entries(read: _Read, end: TarEnd) -> Iterator[Listed]:
    """The entries of a tar, from its first to its last."""
    offset, extended = 0, _Extended()
    while True:
        block = read(offset, offset + BLOCK_BYTES)
        if block == bytes(BLOCK_BYTES):
            return
        header = _header(block)
        if header is None:
            end.damaged_at = offset
            return
        start = offset + BLOCK_BYTES
        size = header.size if extended.size is None else extended.size
        size = 0 if header.kind in _NO_DATA else size
        offset = start + -(-size // BLOCK_BYTES) * BLOCK_BYTES
        if header.kind in (_PAX, _LONG_NAME):
            _extend(extended, header.kind, read, start, size)
        elif header.kind not in (_PAX_OF_ALL, _LONG_LINK):
            yield _listed(header, extended, Member(start, size, size))
            extended = _Extended()


def _listed(header: _Header, extended: _Extended, member: Member) -> Listed:
    name = header.name if extended.name is None else extended.name
    if header.kind == _FOLDER or (name.endswith("/") and name != _OUTSIDE):
        return Listed(name.rstrip("/"), None)
    if header.kind == _SPARSE or extended.sparse:
        return Listed(name, None, FindingCase.MEMBER_SPARSE)
    if header.kind not in _FILES:
        return Listed(name, None, FindingCase.MEMBER_SPECIAL)
    return Listed(name, member)


def _extend(extended: _Extended, kind: bytes, read: _Read, start: int, size: int) -> None:
    if kind == _LONG_NAME:
        data = read(start, start + size) if size <= NAME_AT_MOST_BYTES else _OUTSIDE.encode()
        extended.name = _text(data)
        return
    if size > _PAX_AT_MOST_BYTES:
        extended.name = _OUTSIDE
        return
    for key, value in _records(read(start, start + size)):
        if key == b"path":
            extended.name = _text(value) if len(value) <= NAME_AT_MOST_BYTES else _OUTSIDE
        elif key == b"size" and value.isdigit() and len(value) < 20:
            extended.size = int(value)
        elif key.startswith(b"GNU.sparse."):
            extended.sparse = True


def _records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a pax header, whose records are `<length> <key>=<value>\\n`."""
    at = 0
    while at < len(data):
        blank = data.find(b" ", at, at + 20)
        if blank < 0 or not data[at:blank].isdigit():
            return
        stop = at + int(data[at:blank])
        if stop <= blank or stop > len(data):
            return
        key, equals, value = data[blank + 1 : stop - 1].partition(b"=")
        if equals:
            yield key, value
        at = stop


def _header(block: bytes) -> _Header | None:
    """Parse a header; None if the checksum of the block is wrong."""
    if len(block) < BLOCK_BYTES:
        return None
    stated, size = _number(block[148:156]), _number(block[124:136])
    if stated is None or size is None:
        return None
    blanked = block[:148] + b" " * 8 + block[156:]
    # Some old writers summed signed bytes.
    if stated != sum(blanked) and stated != sum(byte - 256 if byte > 127 else byte for byte in blanked):
        return None
    name = _text(block[:100])
    if block[257:263] == b"ustar\0" and block[345:346] != b"\0":
        name = f"{_text(block[345:500])}/{name}"
    return _Header(name, size, block[156:157])


def _number(data: bytes) -> int | None:
    """A number: octal digits, or GNU's binary form for large ones."""
    if data[:1] == b"\x80":
        return int.from_bytes(data[1:], "big")
    text = data.strip(b" \0")
    return int(text or b"0", 8) if not text.strip(b"01234567") else None


def _text(data: bytes) -> str:
    return data.split(b"\0", 1)[0].decode("utf-8", "replace")
