"""The traces of a rank in archives: zip, and tar, plain and compressed."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
import zipfile
from pathlib import Path

import zstandard

import tracebraid
from tools.fuzz.calls.commands import input_files, run_command
from tools.fuzz.model import Call, Files, Format, Sample
from tools.fuzz.mutations.raw_bytes import (
    RAW_BYTES,
    RAW_CHANGES,
    STREAMS,
    changed_zip,
    in_one_file,
    packed_as,
    unpacked,
)
from tools.fuzz.sample_traces import gpu_rank

_NAMES = (
    "../out.json",
    "/tmp/x.json",
    "a/../../b.json",
    "x" * 300,
    "\x1b[31m.json",
    "a\\..\\b.json",
    "et.json/x.json",
)
_TYPES = (
    tarfile.SYMTYPE,
    tarfile.LNKTYPE,
    tarfile.FIFOTYPE,
    tarfile.CHRTYPE,
    tarfile.DIRTYPE,
    tarfile.GNUTYPE_SPARSE,
    b"Z",
)


def _samples(_: Path) -> list[Sample]:
    made = gpu_rank(0, 1)
    files = {"run/kineto_trace_0.json": made.kineto, "run/torch_et_0.json": made.et, "run/notes.txt": b"x"}
    tar = _tar([(tarfile.TarInfo(name), data) for name, data in files.items()])
    packed = {
        "run.zip": _zip(files, zipfile.ZIP_DEFLATED),
        "stored.zip": _zip(files, zipfile.ZIP_STORED),
        "run.tar": tar,
        "run.tar.gz": gzip.compress(tar, mtime=0),
        "run.tar.zst": zstandard.ZstdCompressor().compress(tar),
    }
    return [Sample(name, {name: data}) for name, data in packed.items()]


def _zip(files: Files, method: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return file.getvalue()


def _tar(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for info, data in members:
            info.size = len(data) if info.isreg() else 0
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


def members_changed(data: bytes, rng: random.Random) -> bytes:
    """A member of the archive is another, or what the archive says of it."""
    text = unpacked(data)
    if text is None or zipfile.is_zipfile(io.BytesIO(data)):
        return changed_zip(data, rng, lambda _, content, made: made.choice(RAW_CHANGES)(content, made))
    try:
        # Opened as a tar alone: what it may hold unpacked again is not looked into.
        with tarfile.open(fileobj=io.BytesIO(text), mode="r:") as archive:
            members = [(info, _content(archive, info)) for info in archive.getmembers()]
    except (tarfile.TarError, ValueError, OSError):
        return data
    return packed_as(data, _tar(_changed(members, rng))) if members else data


def _content(archive: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(info) if info.isreg() else None
    return file.read() if file is not None else b""


def _changed(
    members: list[tuple[tarfile.TarInfo, bytes]], rng: random.Random
) -> list[tuple[tarfile.TarInfo, bytes]]:
    at = rng.randrange(len(members))
    info, content = members[at]
    way = rng.randrange(6)
    if way == 0:
        members[at] = info, rng.choice(RAW_CHANGES)(content, rng)
    elif way == 1:
        info.name = rng.choice(_NAMES)
    elif way == 2:
        info.type, info.linkname = (
            rng.choice(_TYPES),
            rng.choice(("../../etc/passwd", members[0][0].name, "")),
        )
    elif way == 3:
        members.insert(rng.randrange(len(members) + 1), (tarfile.TarInfo(info.name), b"{}"))
    elif way == 4:
        info.mtime, info.uid, info.mode = rng.choice((-1, 0, 2**40)), 2**40, 0o7777
    else:
        del members[at]
    return members


def header_lies(data: bytes, rng: random.Random) -> bytes:
    """A field of the first headers of a tar is another."""
    text = unpacked(data)
    if text is None or len(text) < 512:
        return data
    changed = bytearray(text)
    at = rng.choice((0, 512 * rng.randrange(len(text) // 512))) + rng.choice(
        (0, 100, 124, 130, 135, 136, 148, 156, 157, 257, 345)
    )
    lie = rng.choice(
        (b"77777777777", b"\x80" + b"\xff" * 10, b"-1", b"\0" * 11, b"9", b"zzz", b"S", b"L", b"x", b"g")
    )
    changed[at : at + len(lie)] = lie
    return packed_as(data, bytes(changed[: len(text)]))


def _open(folder: Path, _: random.Random) -> None:
    for path in input_files(folder):
        job = tracebraid.open(path)
        assert [job[rank].timeline.events.height for rank in job.ranks]


def _info(folder: Path, rng: random.Random) -> None:
    for path in input_files(folder):
        run_command(rng.choice(("info", "check")), path, *rng.choice(((), ("--json",))))


FORMAT = Format(
    "archives",
    _samples,
    (
        *map(in_one_file, (members_changed, members_changed, members_changed, header_lies)),
        *STREAMS,
        *RAW_BYTES,
    ),
    [Call("tracebraid.open", _open)],
    [Call("info or check", _info)],
)
