"""Files appear whole or not at all, and never in place of another's."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import HANG_S
from tracebraid import files
from tracebraid.errors import OutputError
from tracebraid.files import keep_broken, make_folder, refuse_existing, write_whole


def inside(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_chunks_become_a_file_and_nothing_else(tmp_path: Path) -> None:
    assert write_whole(tmp_path / "a.json", [b"ab", memoryview(b"cd")], overwrite=False) == 4
    assert (tmp_path / "a.json").read_bytes() == b"abcd"
    assert inside(tmp_path) == ["a.json"]


def test_gzip_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    chunks = [b"some text " * 1000] * 3
    sizes = [write_whole(tmp_path / name, chunks, overwrite=False) for name in ("a.gz", "b.gz")]
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert sizes == [(tmp_path / "a.gz").stat().st_size] * 2
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"".join(chunks)


def test_a_file_that_is_there_stays_unless_it_may_be_replaced(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", [b"first"], overwrite=False)
    with pytest.raises(OutputError, match="the file exists"):
        write_whole(tmp_path / "a", [b"second"], overwrite=False)
    assert (tmp_path / "a").read_bytes() == b"first"
    write_whole(tmp_path / "a", [b"third"], overwrite=True)
    assert (tmp_path / "a").read_bytes() == b"third"
    assert inside(tmp_path) == ["a"]


def test_what_fails_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"x" * 100_000
        raise OSError(28, os.strerror(28))

    with pytest.raises(OutputError, match=r"No space left on device\)\. Free some space"):
        write_whole(tmp_path / "a", chunks(), overwrite=True)
    assert inside(tmp_path) == []


def test_without_hard_links_a_name_is_still_taken_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*names: object) -> None:
        raise PermissionError(1, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    write_whole(tmp_path / "a", [b"first"], overwrite=False)
    with pytest.raises(OutputError, match="the file exists"):
        write_whole(tmp_path / "a", [b"second"], overwrite=False)
    assert (tmp_path / "a").read_bytes() == b"first"
    assert inside(tmp_path) == ["a"]


@pytest.mark.full
def test_of_many_processes_that_want_one_name_one_gets_it(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tracebraid.errors import OutputError\n"
        "from tracebraid.files import write_whole\n"
        "try: write_whole(Path(sys.argv[1]), [sys.argv[2].encode() * 1000], False); print('won')\n"
        "except OutputError: print('lost')\n"
    )
    target = str(tmp_path / "a")
    racers = [
        subprocess.Popen([sys.executable, "-c", code, target, str(n)], stdout=subprocess.PIPE, text=True)
        for n in range(6)
    ]
    said = [racer.communicate(timeout=HANG_S)[0].strip() for racer in racers]
    assert sorted(said) == ["lost"] * 5 + ["won"]
    assert (tmp_path / "a").read_text() == str(said.index("won")) * 1000


def test_what_is_no_file_is_written_to_directly(tmp_path: Path) -> None:
    assert write_whole(Path(os.devnull), [b"abc"], overwrite=True) == 3
    assert not Path(os.devnull).is_file()


def test_a_folder_is_made_and_tried(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    assert inside(tmp_path / "a" / "b") == []
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        make_folder(tmp_path / "file" / "b")


def test_a_file_that_is_there_is_refused_before_any_work(tmp_path: Path) -> None:
    refuse_existing([tmp_path / "a", tmp_path / "b"])
    (tmp_path / "b").write_text("")
    with pytest.raises(OutputError, match="b: the file exists"):
        refuse_existing([tmp_path / "a", tmp_path / "b"])


def test_what_is_no_valid_file_is_kept_under_a_name_that_no_reader_takes(tmp_path: Path) -> None:
    error = keep_broken(tmp_path / "torch_et_0.json.gz", [b"{"], "it is no JSON")
    assert "is in torch_et_0.json.gz.broken" in str(error)
    assert inside(tmp_path) == ["torch_et_0.json.gz.broken"]


def test_a_planted_link_is_not_written_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where somebody knows the name of a part before it is written."""
    outside = tmp_path / "outside"
    outside.write_bytes(b"kept")
    folder = tmp_path / "out"
    folder.mkdir()
    planted = folder / ".planted.part"
    planted.symlink_to(outside)
    monkeypatch.setattr(files, "part_beside", lambda target, label="": planted)
    with pytest.raises(OutputError):
        write_whole(folder / "a.json", [b"new"], overwrite=True)
    assert outside.read_bytes() == b"kept"


@pytest.mark.parametrize("name", ["n" * 255, "\u00e9" * 127, "n" * 159 + "\u00e9" * 48, "\udcff" * 255])
def test_a_name_may_be_as_long_as_the_file_system_takes(tmp_path: Path, name: str) -> None:
    write_whole(tmp_path / name, [b"abc"], overwrite=False)
    assert inside(tmp_path) == [name]


def test_the_name_of_a_part_is_another_each_time(tmp_path: Path) -> None:
    names = {files.part_beside(tmp_path / "a.json").name for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith(".a.json.") and name.endswith(".part") for name in names)
