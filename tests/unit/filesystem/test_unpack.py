"""A compressed stream gives everything before its damage, and says what the damage is."""

from __future__ import annotations

import gzip
import random
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from tests.builders import kineto_text, op, write
from tracebraid.filesystem.compression import GZIP, ZSTD, Compression, compression_of, unpack
from tracebraid.importers.json_stream.source import open_source
from tracebraid.importers.kineto.reader import read_timeline
from tracebraid.model.finding import FindingCase, Issue
from tracebraid.model.finding_code import FindingCode

Pack = Callable[[bytes], bytes]

BLOCK = 1 << 17
"""The most text that zstd packs into one block, and so loses with it."""
SKIPPABLE = b"\x5a\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"index"


def noise(size: int) -> bytes:
    return random.Random(1).randbytes(size // 2).hex().encode()


def long_window(text: bytes) -> bytes:
    """As `zstd --long=31` writes a stream whose length it does not know."""
    params = zstandard.ZstdCompressionParameters(window_log=31, enable_ldm=True)
    packer = zstandard.ZstdCompressor(compression_params=params).compressobj()
    return packer.compress(text) + packer.flush()


def unpacked(packed: bytes, compression: Compression = ZSTD, block: int = 1000) -> tuple[bytes, list[Issue]]:
    damage: list[Issue] = []
    blocks = [packed[at : at + block] for at in range(0, len(packed), block)]
    return b"".join(unpack(lambda: iter(blocks), compression, damage)), damage


@pytest.mark.slow
@pytest.mark.parametrize("block", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    "pack",
    [
        zstandard.compress,
        lambda text: zstandard.compress(text[:99]) + zstandard.compress(text[99:]),
        lambda text: SKIPPABLE + zstandard.compress(text[:99]) + SKIPPABLE + zstandard.compress(text[99:]),
        lambda text: zstandard.ZstdCompressor(write_checksum=True).compress(text) + bytes(700),
        long_window,
    ],
    ids=["frame", "frames", "skippable", "checksum, padding", "long window"],
)
def test_zstd_is_read_to_its_end(pack: Pack, block: int) -> None:
    text = noise(5000)
    assert compression_of(pack(text)) is ZSTD
    assert unpacked(pack(text), block=block) == (text, [])


def test_zstd_is_known_by_its_content(tmp_path: Path) -> None:
    events = [op("first", 1, 2), op("second", 4, 2)]
    text = kineto_text(events)
    path = tmp_path / "rank-0.pt.trace.json"
    path.write_bytes(zstandard.compress(text.encode()))
    assert open_source(path).compression is ZSTD
    plain = read_timeline(write(tmp_path / "plain.json", text))
    assert read_timeline(path).tables["events"].equals(plain.tables["events"])


def test_a_cut_zstd_stream_gives_all_blocks_before_the_cut() -> None:
    text = noise(8 * BLOCK)
    packed = zstandard.compress(text)
    for share in (0.3, 0.6, 0.99):
        cut = int(len(packed) * share)
        got, damage = unpacked(packed[:cut], block=1 << 16)
        assert text.startswith(got)
        assert len(got) > len(text) * share - 2 * BLOCK
        assert [(issue.code, issue.byte) for issue in damage] == [(FindingCode.COMPRESSION_DAMAGED, len(got))]
        assert damage[0].details == {"compression": "zstd"}


def test_wrong_bytes_in_zstd_cost_no_block_before_them() -> None:
    text = noise(8 * BLOCK)
    packed = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(text))
    at = len(packed) * 3 // 4
    packed[at : at + 64] = random.Random(3).randbytes(64)
    got, damage = unpacked(bytes(packed), block=1 << 16)
    assert got[: 5 * BLOCK] == text[: 5 * BLOCK]
    assert [issue.details["case"] for issue in damage] == [FindingCase.STREAM_BROKEN]


@pytest.mark.parametrize(("compression", "pack"), [(GZIP, gzip.compress), (ZSTD, zstandard.compress)])
def test_what_follows_a_stream_is_told_and_costs_nothing(compression: Compression, pack: Pack) -> None:
    got, damage = unpacked(pack(b"text") + b"something else", compression)
    assert got == b"text"
    assert damage[0].details == {"case": FindingCase.STREAM_FOLLOWED, "compression": compression.name}


def test_a_zstd_frame_that_needs_a_dictionary_is_damage_and_no_crash() -> None:
    dictionary = zstandard.ZstdCompressionDict(noise(4096), dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    packed = bytearray(zstandard.ZstdCompressor(dict_data=dictionary).compress(noise(999)))
    _, damage = unpacked(bytes(packed))
    assert damage


@pytest.mark.slow
@pytest.mark.parametrize(("compression", "pack"), [(GZIP, gzip.compress), (ZSTD, zstandard.compress)])
def test_a_stream_made_to_fill_memory_is_read_up_to_a_limit(compression: Compression, pack: Pack) -> None:
    bomb = pack(bytes(1 << 26)) * 16
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    damage: list[Issue] = []
    size = sum(map(len, unpack(lambda: iter([bomb]), compression, damage)))
    assert 1 << 28 <= size < 1 << 29
    assert [issue.details["case"] for issue in damage] == [FindingCase.STREAM_EXPANDS]
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10 < 1 << 28


def test_a_trace_in_cut_zstd_gives_its_events_and_one_finding(tmp_path: Path) -> None:
    names = noise(6 * BLOCK).decode()
    events = [op(names[at : at + 999], at, 1) for at in range(0, len(names), 999)]
    path = tmp_path / "rank-0.pt.trace.json.zst"
    path.write_bytes(zstandard.compress(kineto_text(events).encode())[:-3000])
    timeline = read_timeline(path)
    assert FindingCode.COMPRESSION_DAMAGED in {finding.code for finding in timeline.findings}
    assert len(events) // 2 < timeline.tables["events"].height < len(events)
