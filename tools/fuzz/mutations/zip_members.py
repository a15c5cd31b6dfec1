"""Changes of zip archives: their members, and what their directory says of them."""

from __future__ import annotations

import io
import lzma
import random
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable

__all__ = ["changed_zip"]

_NAMES = ("../outside", "/absolute", "a\0b", "x" * 60_000, "\x1b[31m", "folder/", "..", "C:\\x", "\ud800")
_LIES = (0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 99)
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, ValueError, OSError, EOFError, NotImplementedError, RuntimeError,
)  # fmt: skip


def changed_zip(
    data: bytes, rng: random.Random, change: Callable[[str, bytes, random.Random], bytes]
) -> bytes:
    """An archive with a change of one member by `change`, which gets its name and content, or of how members lie.

    Its bytes alone are changed where it is no archive.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(name, archive.read(name)) for name in archive.namelist()]
    except _DAMAGE:
        return data
    if not members:
        return data
    at = rng.randrange(len(members))
    name, content = members[at]
    way = rng.randrange(10)
    if way < 6:
        members[at] = name, change(name, content, rng)
    elif way == 6:
        members[at : at + 1] = rng.choice(([], [members[at]] * 2, [members[at], (name, b"")]))
    elif way == 7:
        members[at] = rng.choice(_NAMES), content
    elif way == 8:
        members.append((rng.choice(_NAMES), b"beside"))
    written = _archive(members, rng)
    return _lying(written, rng) if way == 9 else written


def _archive(members: list[tuple[str, bytes]], rng: random.Random) -> bytes:
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", method) as archive:
        warnings.simplefilter("ignore")
        for name, content in members:
            try:
                archive.writestr(zipfile.ZipInfo(name), content, method)
            except UnicodeEncodeError:
                archive.writestr(zipfile.ZipInfo("other"), content, method)
    return file.getvalue()


def _lying(data: bytes, rng: random.Random) -> bytes:
    """The directory, or the head of a member, says another method, checksum, size or place."""
    changed = bytearray(data)
    signature, fields = rng.choice(
        (
            (b"PK\x01\x02", ((6, "H"), (8, "H"), (10, "H"), (16, "I"), (20, "I"), (24, "I"), (28, "H"), (42, "I"))),
            (b"PK\x03\x04", ((4, "H"), (6, "H"), (8, "H"), (14, "I"), (18, "I"), (22, "I"), (26, "H"), (28, "H"))),
            (b"PK\x05\x06", ((4, "H"), (8, "H"), (10, "H"), (12, "I"), (16, "I"), (20, "H"))),
        )
    )  # fmt: skip
    places = [at for at in range(len(data)) if data.startswith(signature, at)]
    if not places:
        return data
    offset, kind = rng.choice(fields)
    at = rng.choice(places) + offset
    size = struct.calcsize(kind)
    changed[at : at + size] = (rng.choice(_LIES) & (1 << 8 * size) - 1).to_bytes(size, "little")
    return bytes(changed)
