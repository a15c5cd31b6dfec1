"""An archive answers as the folder that was packed into it, and a hostile one costs neither files nor memory."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import struct
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

import tracebraid
from tests.builders import kineto_text, op
from tracebraid.errors import InputError
from tracebraid.filesystem.archives import spool
from tracebraid.filesystem.archives.member_files import MemberFile
from tracebraid.filesystem.choose import archive_of, file_system_of, with_files
from tracebraid.filesystem.interface import Kind, OpenFile
from tracebraid.filesystem.local import LocalFiles
from tracebraid.importers.discovery import find_rank_files
from tracebraid.model.finding import Finding, FindingCase
from tracebraid.model.finding_code import FindingCode

DEMO = tracebraid.demo_path()
TEXT = kineto_text([op("first", 1, 2), op("second", 4, 2)]).encode()
Pack = Callable[[Path, dict[str, bytes]], None]


def text_of(rank: int) -> bytes:
    """The same events, of another rank."""
    return TEXT.replace(b'"rank": 0', b'"rank": %d' % rank)


def tarred(target: Path, files: dict[str, bytes], mode: str = "w", form: int = tarfile.PAX_FORMAT) -> None:
    with tarfile.open(target, mode, format=form) as tar:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def zipped(target: Path, files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def zipped_as_stream(target: Path, files: dict[str, bytes]) -> None:
    """As `zip -` writes: the sizes of members stand behind them."""

    class Pipe(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: bytes) -> int:  # type: ignore[override]
            return out.write(data)

    with target.open("wb") as out:
        pipe = Pipe()
        with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)


def zst_tarred(target: Path, files: dict[str, bytes]) -> None:
    plain = target.with_name("plain")
    tarred(plain, files)
    target.write_bytes(zstandard.compress(plain.read_bytes()))


PACKS: dict[str, Pack] = {
    "job.tar": tarred,
    "gnu.tar": lambda target, files: tarred(target, files, form=tarfile.GNU_FORMAT),
    "ustar.tar": lambda target, files: tarred(target, files, form=tarfile.USTAR_FORMAT),
    "job.tar.gz": lambda target, files: tarred(target, files, "w:gz"),
    "job.tgz": lambda target, files: tarred(target, files, "w:gz"),
    "job.tar.zst": zst_tarred,
    "job.zip": zipped,
    "stored.zip": lambda target, files: zipped(target, files, zipfile.ZIP_STORED),
    "stream.zip": zipped_as_stream,
    "of_another_name": tarred,
}


def demo_files(folder: str = "") -> dict[str, bytes]:
    return {folder + file.name: file.read_bytes() for file in sorted(DEMO.iterdir()) if file.is_file()}


def codes(findings: tuple[Finding, ...]) -> list[tuple[object, ...]]:
    return [(one.code, one.details.get("case"), one.where, one.count) for one in findings]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PACKS))
def test_an_archive_answers_as_its_folder(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    PACKS[name](path, demo_files("run/"))
    job, expected = tracebraid.open(path), tracebraid.open(DEMO)
    assert job.ranks == expected.ranks == [0, 1]
    assert job.findings == expected.findings == ()
    assert job.files[0].kineto == f"{path}/run/kineto_trace_0.json.gz"
    assert type(job.files[0].kineto) is str
    linked = job[0]
    assert linked.timeline.path == job.files[0].kineto
    assert linked.et is not None
    assert linked.et.recorder == (expected[0].et or linked.et).recorder
    assert linked.timeline.tables["events"].equals(expected[0].timeline.tables["events"])
    assert linked.coverage == expected[0].coverage


def test_a_member_is_a_path_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "job.tar"
    tarred(path, {"./a//kineto_0.json": TEXT})
    assert tracebraid.read_timeline(path / "a" / "kineto_0.json").tables["events"].height == 2
    with pytest.raises(InputError, match="no such file"):
        tracebraid.read_timeline(path / "a" / "gone.json")
    assert file_system_of(str(path)).kind(f"{path}/a") is Kind.FOLDER


def test_names_longer_than_a_header_are_read(tmp_path: Path) -> None:
    name = "x" * 150 + "/" + "y" * 130 + "/kineto_0.json"
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        tarred(tmp_path / "job.tar", {name: TEXT}, form=form)
        assert archive_members(tmp_path / "job.tar") == [name]


def archive_members(path: Path) -> list[str]:
    archive = archive_of(with_files(path))
    assert archive is not None
    return sorted(archive.index.members)


def test_the_index_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "job.tar"
    tarred(path, {f"kineto_trace_{rank}.json": text_of(rank) for rank in range(50)})
    opened: list[str] = []
    original = LocalFiles.open

    def counted(files: LocalFiles, name: str) -> OpenFile:
        opened.append(name)
        return original(files, name)

    monkeypatch.setattr(LocalFiles, "open", counted)
    job = tracebraid.open(path, engine="in-process")
    assert [linked.timeline.tables["events"].height for linked in job] == [2] * 50
    assert len(opened) <= 3


def hostile_tar(path: Path) -> None:
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind in (
            ("../../kineto_7.json", tarfile.REGTYPE),
            ("/kineto_8.json", tarfile.REGTYPE),
            ("kineto_1.json", tarfile.SYMTYPE),
            ("kineto_2.json", tarfile.LNKTYPE),
            ("kineto_3.json", tarfile.CHRTYPE),
            ("inner.tar", tarfile.REGTYPE),
            ("z" * 5000 + "kineto_4.json", tarfile.REGTYPE),
            ("a/" * 1000 + "kineto_5.json", tarfile.REGTYPE),
            ("kineto_0.json", tarfile.REGTYPE),
            ("kineto_0.json", tarfile.REGTYPE),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            member.size = len(TEXT) if kind == tarfile.REGTYPE else 0
            tar.addfile(member, io.BytesIO(TEXT) if member.size else None)


def test_what_is_no_plain_file_is_left_out_and_told(tmp_path: Path) -> None:
    hostile_tar(tmp_path / "job.tar")
    before = sorted(tmp_path.rglob("*"))
    ranks, findings = find_rank_files(tmp_path / "job.tar")
    assert [(one.rank, str(one.kineto)) for one in ranks] == [(0, f"{tmp_path}/job.tar/kineto_0.json")]
    assert {(case, count) for _, case, _, count in codes(findings)} == {
        (FindingCase.MEMBER_OUTSIDE, 3),
        (FindingCase.MEMBER_SPECIAL, 3),
        (FindingCase.ARCHIVE_INSIDE, 1),
        (FindingCase.MEMBER_TWICE, 1),
    }
    assert sorted(tmp_path.rglob("*")) == before


def test_a_header_of_an_absurd_size_takes_no_memory(tmp_path: Path) -> None:
    """A pax header that states 8 EB, and a name of 10 MB."""
    path = tmp_path / "job.tar"
    tarred(path, {"kineto_0.json": TEXT, "n" * (10 << 20) + "kineto_1.json": TEXT, "kineto_2.json": TEXT})
    assert archive_members(path) == ["kineto_0.json", "kineto_2.json"]
    block = bytearray(path.read_bytes()[:512])
    block[156:157] = b"x"
    block[124:136] = b"\x80" + (1 << 62).to_bytes(11, "big")
    block[148:156] = b"%06o\0 " % sum(block[:148] + b" " * 8 + block[156:])
    path.write_bytes(path.read_bytes()[:2048] + bytes(block) + TEXT)
    ranks, findings = find_rank_files(path)
    assert [one.rank for one in ranks] == [0]
    assert FindingCode.ARCHIVE_DAMAGED in {one.code for one in findings}


def noisy(rank: int) -> bytes:
    """A trace that compression makes little smaller."""
    events = [op(os.urandom(500).hex(), at, 1) for at in range(600)]
    return kineto_text(events, header={"distributedInfo": {"rank": rank}}).encode()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["job.tar", "job.tar.gz", "job.tar.zst", "job.zip", "stored.zip", "stream.zip"]
)
def test_a_cut_archive_is_read_for_what_is_whole(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    PACKS[name](path, {f"kineto_{rank}.json": noisy(rank) for rank in range(4)})
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 5 // 8])
    job = tracebraid.open(path)
    assert job.ranks[:2] == [0, 1]
    assert FindingCode.ARCHIVE_DAMAGED in {one.code for one in job.findings}
    assert job[0].timeline.tables["events"].height == 600
    if 2 in job.ranks:
        assert job[2].timeline.tables["events"].height < 600
        assert job[2].timeline.findings


@pytest.mark.slow
def test_an_archive_cut_anywhere_is_read_or_one_error(tmp_path: Path) -> None:
    for name in ("job.tar", "job.zip"):
        path = tmp_path / name
        PACKS[name](path, {f"kineto_{rank}.json": TEXT for rank in range(2)})
        whole = path.read_bytes()
        for cut in range(1, len(whole), 211):
            path.write_bytes(whole[:cut])
            with contextlib.suppress(InputError):
                for linked in tracebraid.open(path, engine="in-process"):
                    assert linked.timeline.path.startswith(str(path))


def test_zip_members_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    path = tmp_path / "job.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for rank in range(3):
            archive.writestr(f"kineto_{rank}.json", TEXT)
        archive.writestr("kineto_9.json", TEXT, zipfile.ZIP_BZIP2)
        link = zipfile.ZipInfo("kineto_8.json")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("../kineto_7.json", TEXT)
    data = bytearray(path.read_bytes())
    directory = data.find(b"PK\x01\x02", data.find(b"PK\x01\x02") + 1)
    data[directory + 8] |= 1  # encrypted
    path.write_bytes(bytes(data))
    ranks, findings = find_rank_files(path)
    assert [one.rank for one in ranks] == [0, 2]
    assert {case for _, case, _, _ in codes(findings)} == {
        FindingCase.MEMBER_ENCRYPTED,
        FindingCase.MEMBER_PACKING,
        FindingCase.MEMBER_SPECIAL,
        FindingCase.MEMBER_OUTSIDE,
    }


def test_zip_members_that_share_bytes_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "job.zip"
    zipped(path, {f"kineto_{rank}.json": TEXT * 9 for rank in range(3)}, zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    second = data.find(b"PK\x01\x02", data.find(b"PK\x01\x02") + 1)
    data[second + 42 : second + 46] = struct.pack("<I", 5)
    path.write_bytes(bytes(data))
    ranks, findings = find_rank_files(path)
    assert [one.rank for one in ranks] == [2]
    assert (FindingCase.MEMBER_OVERLAPS, 2) in {(case, count) for _, case, _, count in codes(findings)}


def test_a_damaged_member_is_a_finding_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "job.zip"
    zipped(path, {"kineto_0.json": TEXT}, zipfile.ZIP_STORED)
    path.write_bytes(path.read_bytes().replace(b"second", b"Second", 1))
    findings = tracebraid.open(path)[0].timeline.findings
    assert [one.code for one in findings if one.loss] == [FindingCode.COMPRESSION_DAMAGED]


def test_zip64_is_read(tmp_path: Path) -> None:
    path = tmp_path / "job.zip"
    with (
        zipfile.ZipFile(path, "w") as archive,
        archive.open("kineto_0.json", "w", force_zip64=True) as member,
    ):
        member.write(TEXT)
    assert tracebraid.open(path)[0].timeline.tables["events"].height == 2


def test_an_execution_trace_in_columns_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "torch_et_0.arrow.zip"
    zipped(path, {"kineto_0.json": TEXT})
    assert archive_of(with_files(path)) is None


@pytest.mark.full
@pytest.mark.slow
def test_a_member_that_is_made_to_fill_memory_is_read_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "job.zip"
    zipped(path, {"kineto_0.json": TEXT[:-4] + b" " * (300 << 20)})
    member = file_system_of(str(path)).open(f"{path}/kineto_0.json")
    assert isinstance(member, MemberFile)
    assert 1 << 28 <= sum(map(len, member.blocks(1 << 20))) < 1 << 29
    assert [issue.details["case"] for issue in member.damage] == [FindingCase.STREAM_EXPANDS]


def test_nothing_is_left_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    tarred(tmp_path / "job.tar.gz", demo_files(), "w:gz")
    job = tracebraid.open(tmp_path / "job.tar.gz")
    assert job[1].timeline.tables["events"].height
    assert list((tmp_path / "temp").iterdir()) == []


def test_a_compressed_tar_that_needs_too_much_space_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "SPOOL_AT_MOST_BYTES", 1000)
    tarred(tmp_path / "job.tar.gz", demo_files(), "w:gz")
    with pytest.raises(InputError, match="temporary space"):
        tracebraid.open(tmp_path / "job.tar.gz")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(InputError, match="no temporary file"):
        tracebraid.open(tmp_path / "job.tar.gz")


def test_a_gzip_file_that_is_no_tar_stays_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "kineto_0.gz"
    path.write_bytes(gzip.compress(TEXT))
    assert tracebraid.open(path)[0].timeline.tables["events"].height == 2
