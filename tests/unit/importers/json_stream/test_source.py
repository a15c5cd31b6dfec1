"""Where do the bytes come from, and what is refused before anything is read?"""

from __future__ import annotations

import gzip
import io
import os
import random
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest
import zstandard

from tracebraid.errors import InputError, NotATraceError
from tracebraid.filesystem.compression import GZIP
from tracebraid.importers.json_stream.source import open_source

TEXT = b'{"traceEvents": []}'


def noise(size: int) -> bytes:
    """Text that gzip cannot make much smaller than half."""
    return random.Random(1).randbytes(size // 2).hex().encode()


def stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


def test_a_plain_file_gives_its_bytes_in_blocks_and_slices(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(TEXT)
    source = open_source(path)
    assert (source.compression, source.size_bytes) == (None, len(TEXT))
    assert b"".join(source.blocks(block_bytes=4)) == TEXT
    view = source.whole()
    assert view is not None
    assert view[:] == TEXT


def test_gzip_is_known_by_its_content_and_not_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(gzip.compress(TEXT))
    source = open_source(path)
    assert source.compression is GZIP
    assert source.whole() is None
    assert b"".join(source.blocks()) == TEXT


def test_a_gzip_file_of_several_members_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(TEXT[:7]) + gzip.compress(TEXT[7:]))
    for block_bytes in (8, 100, 1 << 20):
        source = open_source(path)
        assert b"".join(source.blocks(block_bytes)) == TEXT
        assert source.damage == []


def test_zeros_after_a_gzip_stream_are_padding(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(TEXT) + bytes(512))
    source = open_source(path)
    assert b"".join(source.blocks()) == TEXT
    assert source.damage == []


def test_reading_blocks_counts_the_bytes_done_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(noise(1 << 20)))
    source = open_source(path)
    done = [source.done_bytes for _ in source.blocks(block_bytes=1 << 16)]
    assert done == sorted(done)
    assert done[-1] == source.size_bytes


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress], ids=["plain", "gzip", "zstd"])
def test_standard_input_is_read_for_a_dash(monkeypatch: pytest.MonkeyPatch, pack: object) -> None:
    stdin(monkeypatch, pack(TEXT))  # type: ignore[operator]
    source = open_source("-")
    assert source.path == "standard input"
    assert b"".join(source.blocks()) == TEXT
    assert source.whole() == (None if source.compression else TEXT)


def test_empty_standard_input_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, b"")
    with pytest.raises(NotATraceError, match="standard input: the file is empty"):
        open_source("-")


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress], ids=["plain", "gzip", "zstd"])
def test_a_pipe_with_a_name_is_read_like_standard_input(pack: object) -> None:
    """As the shell's `tracebraid info <(zcat trace.json.gz)` hands it over."""
    reading, writing = os.pipe()
    os.write(writing, pack(TEXT))  # type: ignore[operator]
    os.close(writing)
    try:
        source = open_source(f"/dev/fd/{reading}")
        view = source.whole()
        assert (view[:] if view is not None else b"".join(source.blocks())) == TEXT
    finally:
        os.close(reading)


def test_a_gzip_stream_that_breaks_off_gives_what_is_before_the_break(tmp_path: Path) -> None:
    text = noise(1 << 18)
    packed = gzip.compress(text)[: 1 << 16]
    path = tmp_path / "t.json.gz"
    path.write_bytes(packed)
    source = open_source(path)
    got = b"".join(source.blocks())
    there = zlib.decompressobj(31).decompress(packed)
    assert len(source.damage) == 1
    assert text.startswith(got)
    assert len(got) > len(there) * 0.9


@pytest.mark.parametrize("seed", range(6))
def test_a_gzip_stream_with_wrong_bytes_gives_what_is_before_them(tmp_path: Path, seed: int) -> None:
    text = noise(1 << 20)
    packed = bytearray(gzip.compress(text, compresslevel=1 + seed))
    at = len(packed) * 3 // 4
    packed[at : at + 64] = random.Random(seed).randbytes(64)
    path = tmp_path / "t.json.gz"
    path.write_bytes(bytes(packed))
    source = open_source(path)
    got = b"".join(source.blocks())
    assert source.damage
    assert got[: len(text) // 2] == text[: len(text) // 2]


def test_a_wrong_checksum_is_damage_and_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(TEXT)[:-8] + bytes(8))
    source = open_source(path)
    assert b"".join(source.blocks()) == TEXT
    assert source.damage


def test_what_follows_a_gzip_stream_does_not_cost_the_stream(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(TEXT) + b"something else")
    source = open_source(path)
    assert b"".join(source.blocks()) == TEXT
    assert source.damage


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="this is a folder") as caught:
        open_source(tmp_path)
    assert caught.value.path == str(tmp_path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        open_source(tmp_path / "gone.json")


def test_a_path_through_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_bytes(TEXT)
    with pytest.raises(InputError, match="cannot be read"):
        open_source(tmp_path / "t.json" / "x.json")


def test_a_path_with_a_nul_character_is_refused() -> None:
    with pytest.raises(InputError):
        open_source("a\0b.json")


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.touch()
    with pytest.raises(NotATraceError, match="the file is empty"):
        open_source(path)


@pytest.mark.parametrize(
    ("head", "word"),
    [
        (b"\x89PNG\r\n\x1a\n", "PNG"),
        (b"\xff\xd8\xff\xe0", "JPEG"),
        (b"GIF89a", "GIF"),
        (b"%PDF-1.7", "PDF"),
        (b"PK\x03\x04", "zip"),
        (b"BZh9", "bzip2"),
        (b"\xfd7zXZ\x00", "xz"),
        (b"\x7fELF", "ELF"),
        (b"SQLite format 3\x00", "SQLite"),
        (b"PAR1", "Parquet"),
        (b"ARROW1", "Arrow"),
        (b"\xff\xfe{\x00", "UTF-16"),
        (b"\xfe\xff\x00{", "UTF-16"),
    ],
)
def test_a_file_of_another_format_is_refused_with_what_it_looks_like(
    tmp_path: Path, head: bytes, word: str
) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(head + b"x" * 100)
    with pytest.raises(NotATraceError, match=word) as caught:
        open_source(path)
    assert caught.value.path == str(path)
    assert caught.value.advice
