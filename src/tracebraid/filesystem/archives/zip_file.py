"""The entries of a zip archive: by its directory, or, where it was cut off, by the headers before its members."""

from __future__ import annotations

import stat
import struct
import zipfile
from collections.abc import Iterable, Iterator

from tracebraid.filesystem.archives.member_files import Index, Listed, Member, index_of
from tracebraid.filesystem.compression import DEFLATE, ZSTD
from tracebraid.filesystem.interface import OpenFile, file_object
from tracebraid.model.finding import FindingCase

_LOCAL, _EMPTY, _DESCRIPTOR = b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"
_HEADER = struct.Struct("<4s5H3I2H")
_PACKINGS = {0: "", 8: DEFLATE.name, 93: ZSTD.name}
"""Compressions by their numbers in the archive (APPNOTE 4.4.5)."""
_ENCRYPTED, _SIZE_BEHIND, _UTF8 = 0x1, 0x8, 0x800
_ZIP64, _IN_ZIP64 = 0x0001, 0xFFFFFFFF
_DIRECTORY_DAMAGE = (
    zipfile.BadZipFile,
    EOFError,
    ValueError,  # names in no encoding, offsets before the start of the file
    struct.error,
    NotImplementedError,
    OverflowError,
)
_SEARCH_BYTES = 1 << 20


def is_zip(head: bytes) -> bool:
    """Return whether a file begins as a zip archive does."""
    return head.startswith((_LOCAL, _EMPTY))


def zip_index(file: OpenFile) -> Index:
    """Read the index of a zip archive."""
    try:
        with zipfile.ZipFile(file_object(file)) as archive:
            infos = archive.infolist()
    except _DIRECTORY_DAMAGE:
        listed, stop = _found_by_headers(file)
        return index_of(listed, damaged_at=stop)
    overlapping = _overlapping(infos)
    return index_of(_listed(info, overlapping) for info in infos)


def packed_start(file: OpenFile, member: Member) -> int:
    """Return the offset of a member's bytes after its local header; -1 if it has none."""
    head = file.read(member.start, member.start + _HEADER.size)
    if len(head) < _HEADER.size or not head.startswith(_LOCAL):
        return -1
    name_bytes, extra_bytes = _HEADER.unpack(head)[-2:]
    return member.start + _HEADER.size + int(name_bytes) + int(extra_bytes)


def _listed(info: zipfile.ZipInfo, overlapping: set[int]) -> Listed:
    name = info.filename
    if not name or info.is_dir():
        return Listed(name.rstrip("/"), None)
    mode = info.external_attr >> 16
    refused = None
    if info.flag_bits & _ENCRYPTED:
        refused = FindingCase.MEMBER_ENCRYPTED
    elif stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        refused = FindingCase.MEMBER_SPECIAL
    elif info.compress_type not in _PACKINGS:
        refused = FindingCase.MEMBER_PACKING
    elif id(info) in overlapping:
        refused = FindingCase.MEMBER_OVERLAPS
    if refused is not None:
        return Listed(name, None, refused)
    packing = _PACKINGS[info.compress_type]
    member = Member(info.header_offset, info.compress_size, info.file_size, packing, info.CRC, True)
    return Listed(name, member)


def _overlapping(infos: Iterable[zipfile.ZipInfo]) -> set[int]:
    """Find overlapping members, as in archives made to unpack to absurd sizes."""
    found: set[int] = set()
    last: zipfile.ZipInfo | None = None
    stop = -1
    for info in sorted(infos, key=lambda info: info.header_offset):
        if last is not None and info.header_offset < stop:
            found |= {id(last), id(info)}
        end = info.header_offset + _HEADER.size + info.compress_size
        if end > stop:
            last, stop = info, end
    return found


def _found_by_headers(file: OpenFile) -> tuple[list[Listed], int]:
    """Find members up to the damage of the archive, and its position; the last may be incomplete."""
    listed: list[Listed] = []
    offset = 0
    while True:
        head = file.read(offset, offset + _HEADER.size)
        if len(head) < _HEADER.size or not head.startswith(_LOCAL):
            return listed, offset
        _, _, flags, method, _, _, crc, packed, size, name_bytes, extra_bytes = _HEADER.unpack(head)
        rest = file.read(offset + _HEADER.size, offset + _HEADER.size + name_bytes + extra_bytes)
        start = offset + _HEADER.size + name_bytes + extra_bytes
        name = rest[:name_bytes].decode("utf-8" if flags & _UTF8 else "cp437", "replace")
        if _IN_ZIP64 in (packed, size):
            size, packed = _zip64_sizes(rest[name_bytes:], size, packed)
        after = start + packed
        if flags & _SIZE_BEHIND and packed == 0:
            after, packed = _end_of(file, start)
            crc = None
        if flags & _ENCRYPTED:
            listed.append(Listed(name, None, FindingCase.MEMBER_ENCRYPTED))
        elif method not in _PACKINGS:
            listed.append(Listed(name, None, FindingCase.MEMBER_PACKING))
        elif not name.endswith("/"):
            member = Member(offset, packed, size or packed, _PACKINGS[method], crc, True)
            listed.append(Listed(name, member))
        offset = after


def _zip64_sizes(extra: bytes, size: int, packed: int) -> tuple[int, int]:
    for kind, data in _extra_fields(extra):
        if kind == _ZIP64 and len(data) >= 16:
            return struct.unpack("<2Q", data[:16])
    return size, packed


def _extra_fields(extra: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, at)
        yield kind, extra[at + 4 : at + 4 + size]
        at += 4 + size


def _end_of(file: OpenFile, start: int) -> tuple[int, int]:
    """Offset of the next header, and size of the member before it, whose size stands behind it: it is searched."""
    at = start
    while window := file.read(at, at + _SEARCH_BYTES):
        found = window.find(_DESCRIPTOR)
        while found >= 0:
            where = at + found
            for width in (16, 24):
                stated = file.read(where + 8, where + width)
                size = int.from_bytes(stated[: (width - 8) // 2], "little")
                if size == where - start and file.read(where + width, where + width + 2) in (b"PK", b""):
                    return where + width, size
            found = window.find(_DESCRIPTOR, found + 1)
        at += max(1, len(window) - len(_DESCRIPTOR) + 1)
    return file.size_bytes, file.size_bytes - start
