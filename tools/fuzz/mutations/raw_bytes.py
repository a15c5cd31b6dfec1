"""Damage to bytes, chosen files, packed streams and members of zips."""

from __future__ import annotations

import gzip
import io
import lzma
import random
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable

import zstandard

from tools.fuzz.model import Files, Mutation

_BLOCKS = (1, 16, 64, 512, 4096)


def in_one_file(change: Callable[[bytes, random.Random], bytes]) -> Mutation:
    """A mutation of one file, chosen at random."""

    def mutate(files: Files, rng: random.Random) -> Files:
        path = rng.choice(sorted(files))
        return {**files, path: change(files[path], rng)}

    mutate.__name__ = change.__name__
    return mutate


def cut(data: bytes, rng: random.Random) -> bytes:
    """The end is missing."""
    return data[: rng.randrange(len(data) + 1)]


def zeroed(data: bytes, rng: random.Random) -> bytes:
    """A block of zeros, as a crash of a file system leaves it."""
    size, begin = rng.choice(_BLOCKS), rng.randrange(len(data) + 1)
    return (data[:begin] + b"\0" * size + data[begin + size :])[: len(data)]


def removed(data: bytes, rng: random.Random) -> bytes:
    """A few bytes are missing."""
    begin = rng.randrange(len(data) + 1)
    return data[:begin] + data[begin + rng.choice(_BLOCKS) :]


def flipped(data: bytes, rng: random.Random) -> bytes:
    """A bit of one to four bytes."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4) if data else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def swapped(data: bytes, rng: random.Random) -> bytes:
    """Two blocks in each other's place."""
    size = rng.choice(_BLOCKS)
    blocks = [data[begin : begin + size] for begin in range(0, len(data), size)]
    if len(blocks) > 1:
        first, second = rng.sample(range(len(blocks)), 2)
        blocks[first], blocks[second] = blocks[second], blocks[first]
    return b"".join(blocks)


def repeated(data: bytes, rng: random.Random) -> bytes:
    """A block twice."""
    size, begin = rng.choice(_BLOCKS), rng.randrange(len(data) + 1)
    return data[: begin + size] + data[begin:]


RAW_CHANGES = (cut, zeroed, removed, flipped, swapped, repeated)
RAW_BYTES = tuple(in_one_file(change) for change in RAW_CHANGES)


def in_files(suffix: str, change: Callable[[bytes, random.Random], bytes]) -> Mutation:
    """A mutation of one file, chosen among those whose names end so; where there is none, nothing changes."""

    def mutate(files: Files, rng: random.Random) -> Files:
        paths = sorted(path for path in files if path.endswith(suffix))
        if not paths:
            return files
        path = rng.choice(paths)
        return {**files, path: change(files[path], rng)}

    mutate.__name__ = f"{change.__name__} of {suffix}"
    return mutate


def among_files(suffixes: tuple[str, ...], change: Mutation) -> Mutation:
    """A mutation that sees only the files whose names end so."""

    def mutate(files: Files, rng: random.Random) -> Files:
        seen = {path: data for path, data in files.items() if path.endswith(suffixes)}
        others = {path: data for path, data in files.items() if path not in seen}
        return {**others, **change(seen, rng)} if seen else files

    mutate.__name__ = f"{change.__name__} of {', '.join(suffixes)}"
    return mutate


def whole_files(files: Files, rng: random.Random) -> Files:
    """A file is missing, empty, has the content of another one, or is a folder's name."""
    path, other = rng.choice(sorted(files)), rng.choice(sorted(files))
    way = rng.randrange(4)
    if way == 0 and len(files) > 1:
        return {name: data for name, data in files.items() if name != path}
    if way == 1:
        return {**files, path: b""}
    if way == 2:
        return {**files, path: files[other]}
    return {**{name: data for name, data in files.items() if name != path}, f"{path}/inside": files[path]}


Change = Callable[[bytes, random.Random], bytes]
"""Changes the text of a file."""

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def unpacked(data: bytes) -> bytes | None:
    """The content of a compressed file, or the file itself; None where it is damaged."""
    try:
        if data.startswith(_GZIP):
            return gzip.decompress(data)
        if data.startswith(_ZSTD):
            return _frames(data)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError):
        return None
    return data


def _frames(data: bytes) -> bytes:
    """The content of all frames of a zstd file."""
    texts = []
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        texts.append(frame.decompress(data))
        if not frame.eof:
            raise zstandard.ZstdError("the last frame is cut off")
        data = frame.unused_data
    return b"".join(texts)


def packed_as(model: bytes, text: bytes) -> bytes:
    """The text, compressed as another file is."""
    if model.startswith(_GZIP):
        return gzip.compress(text, 1, mtime=0)
    return zstandard.ZstdCompressor().compress(text) if model.startswith(_ZSTD) else text


def inside_one_file(change: Change) -> Mutation:
    """A mutation of what one file, chosen at random, holds below its compression."""

    def mutate(files: Files, rng: random.Random) -> Files:
        path = rng.choice(sorted(files))
        text = unpacked(files[path])
        return files if text is None else {**files, path: packed_as(files[path], change(text, rng))}

    mutate.__name__ = change.__name__
    return mutate


_BEHIND = (
    b"\0" * 512,
    b"\0",
    b"x",
    b"garbage" * 100,
    b"\x1f\x8b",
    b"\x1f\x8b\x08",
    b"\x28\xb5\x2f\xfd",
    b"{}",
    b"\xff" * 20,
)
_TRAILER_BYTES = 8
"""The checksum and the length behind a gzip member."""
_HEADER_BYTES = 10


def followed(data: bytes, rng: random.Random) -> bytes:
    """Something stands behind the stream."""
    return data + rng.choice((*_BEHIND, data, gzip.compress(b"{}", mtime=0)))


def in_frames(data: bytes, rng: random.Random) -> bytes:
    """The stream has several frames, of one kind or of both, some of them empty."""
    text = unpacked(data)
    if text is None:
        return data
    cuts = sorted(rng.randrange(len(text) + 1) for _ in range(rng.choice((1, 2, 5))))
    parts = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    pack = zstandard.ZstdCompressor().compress if data.startswith(_BEHIND[6]) else gzip.compress
    frames = [pack(part) for part in (*parts, *([b""] if rng.random() < 0.3 else []))]
    if rng.random() < 0.2:
        frames.insert(rng.randrange(len(frames)), rng.choice(_BEHIND))
    return b"".join(frames)


def frame_lies(data: bytes, rng: random.Random) -> bytes:
    """A byte of the head or the checksum of the stream is another."""
    changed = bytearray(data)
    if len(changed) > _HEADER_BYTES + _TRAILER_BYTES:
        at = rng.choice((rng.randrange(_HEADER_BYTES), -1 - rng.randrange(_TRAILER_BYTES)))
        changed[at] = rng.choice((0, 0xFF, changed[at] ^ 1, changed[at] ^ 0x80))
    return bytes(changed)


def packed_twice(data: bytes, rng: random.Random) -> bytes:
    """The file is compressed once more."""
    return rng.choice((gzip.compress(data, mtime=0), zstandard.ZstdCompressor().compress(data)))


STREAMS = tuple(map(in_one_file, (followed, in_frames, frame_lies, packed_twice)))


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
