"""Where the native library comes from, and when Python reads and computes in its place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders import kineto_text, op, write
from tests.fake_compiler import FakeCompiler, one_that_fails
from tracebraid.errors import CaptureError, OutputError
from tracebraid.importers.kineto.reader import read_timeline
from tracebraid.importers.kineto.scan import KinetoScan
from tracebraid.native import library
from tracebraid.native.trust import note_built


@pytest.fixture(scope="module")
def built() -> Path:
    """The library of all tests."""
    try:
        return library.build()
    except (CaptureError, OutputError) as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built: Path) -> Path:
    """A cache of the test's own, which is empty, and no compiler; each problem is reported anew."""
    monkeypatch.setenv("TRACEBRAID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", "/nonexistent/c++")
    library._report.cache_clear()
    library._loaded_of_wheel.cache_clear()
    return tmp_path / "cache"


@pytest.fixture
def ours(cache: Path, built: Path) -> Path:
    """The library in that cache."""
    path = library.library_path()
    path.parent.mkdir(parents=True, mode=0o755)
    shutil.copy(built, path)
    note_built(path)
    return path


@pytest.fixture
def is_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Read a trace, and say whether the scanner did."""
    path = write(tmp_path / "t.json", kineto_text([op("a", 1, 2), op("b", 3, 4)]))
    scanned: list[bool] = []
    add = KinetoScan.add

    def noted(scan: KinetoScan, data: bytes) -> bool:
        scanned.append(True)
        return add(scan, data)

    monkeypatch.setattr(KinetoScan, "add", noted)

    def read() -> bool:
        scanned.clear()
        assert read_timeline(path).events.get_column("name").cast(str).to_list() == ["a", "b"]
        return bool(scanned)

    return read


def test_the_library_of_a_wheel_needs_no_cache(
    monkeypatch: pytest.MonkeyPatch, built: Path, is_scanned: Callable[[], bool]
) -> None:
    assert not is_scanned()
    monkeypatch.setattr(library, "in_wheel", lambda: built)
    assert is_scanned()


def test_a_library_of_a_wheel_that_does_not_load_is_reported(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_scanned: Callable[[], bool],
) -> None:
    monkeypatch.setattr(library, "in_wheel", lambda: write(tmp_path / "other.so", "of another machine"))
    assert not is_scanned()
    assert "without the native library" in caplog.text


def test_one_that_is_there_reads(
    ours: Path, is_scanned: Callable[[], bool], caplog: pytest.LogCaptureFixture
) -> None:
    assert is_scanned()
    assert not caplog.records


def test_without_one_python_reads_and_nothing_is_built(
    tmp_path: Path,
    is_scanned: Callable[[], bool],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    compiler = FakeCompiler(tmp_path / "fake", "exit 1")
    monkeypatch.setenv("CXX", str(compiler.path))
    assert not is_scanned()
    assert not compiler.calls
    assert not caplog.records


def of_another_platform(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[18:20] = b"\xff\xff"  # The machine in a header of ELF.
    path.write_bytes(content)
    note_built(path)


def without_functions(path: Path) -> None:
    """Another library, which is whole."""
    import _ctypes

    shutil.copy(_ctypes.__file__, path)
    note_built(path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda path: os.truncate(path, path.stat().st_size // 2), "is not as it was built"),
        (lambda path: path.write_bytes(b""), "is not as it was built"),
        (lambda path: path.chmod(0o777), "is not as it was built"),
        (lambda path: path.parent.chmod(0o777), "is not as it was built"),
        (lambda path: path.with_suffix(".json").unlink(), "is not as it was built"),
        (lambda path: path.rename(path.with_name("x")) and path.symlink_to("x"), "is not as it was built"),
        (of_another_platform, "cannot be loaded"),
        (without_functions, "cannot be loaded"),
    ],
    ids=["cut", "empty", "writable", "in a writable folder", "no note", "link", "platform", "another"],
)
def test_one_that_is_not_trusted_is_said_once_and_python_reads(
    ours: Path,
    is_scanned: Callable[[], bool],
    caplog: pytest.LogCaptureFixture,
    change: Callable[[Path], object],
    says: str,
) -> None:
    change(ours)
    assert not is_scanned()
    assert not is_scanned()
    assert len(caplog.records) == 1
    said = caplog.records[0].getMessage()
    assert says in said
    assert len(said.splitlines()) == 1
    assert "python -m tracebraid.native.library" in said


@pytest.mark.full(keep=1)
def test_it_is_built_only_where_that_is_worth_it(
    built: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(library, "_run", lambda folder: str(shutil.copy(built, folder))[:0])
    assert library.native_library(is_worth_building=True) is None
    assert "there is no C++ compiler" in caplog.records.pop().getMessage()
    monkeypatch.setenv("CXX", "sh")
    assert library.native_library(is_worth_building=False) is None
    assert not caplog.records
    assert library.native_library(is_worth_building=True) is not None
    assert [record.getMessage() for record in caplog.records] == [
        "tracebraid: building the native library: once, some 10 seconds"
    ]
    assert library.native_library(is_worth_building=False) is not None
    library.library_path().unlink()  # What is loaded goes on being the file that it was.
    library.library_path().write_bytes(b"another")
    assert library.native_library(is_worth_building=True) is not None


@pytest.mark.full
def test_what_a_compiler_rejects_is_said_and_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compiler = one_that_fails(tmp_path / "failing")
    monkeypatch.setenv("CXX", str(compiler.path))
    assert library.native_library(is_worth_building=True) is None
    assert library.native_library(is_worth_building=True) is None
    assert len(compiler.calls) == 1
    assert "error: boom" in caplog.records[-1].getMessage()
    assert library.main() == 1
    assert len(compiler.calls) == 2
