"""A native recorder that cannot be built says why, in one line, and remembers only what stays so."""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fake_compiler import FakeCompiler, one_that_works
from tracebraid.errors import CaptureError, OutputError

torch = pytest.importorskip("torch")

from tracebraid.native.trust import note_built  # noqa: E402
from tracebraid.recorders.native import library  # noqa: E402
from tracebraid.recorders.native.library import build, library_path  # noqa: E402

pytestmark = pytest.mark.torch


def left_in_cache() -> set[str]:
    return {path.name for path in library_path().parent.iterdir()}


def test_a_library_without_its_symbols_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one that is whole and of something else."""
    whole = Path(shutil.copy(str(torch._C.__file__), tmp_path))
    note_built(whole)
    monkeypatch.setattr(library, "build", lambda: whole)
    with pytest.raises(CaptureError, match=r"cannot be loaded .*`tracebraid build-recorder` tries again"):
        library.load.__wrapped__()


def test_without_a_compiler_it_says_how_to_get_one() -> None:
    with pytest.raises(CaptureError) as caught:
        build()
    assert str(caught.value) == (
        "the native recorder cannot be built: there is no C++ compiler (/nonexistent/c++); "
        "install one, such as g++, or name one in CXX"
    )


def test_without_ninja_it_says_how_to_get_it(
    tmp_path: Path, working: FakeCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    with pytest.raises(CaptureError, match="there is no ninja; install it with: pip install ninja"):
        build()
    assert left_in_cache() == {"lock"}


def test_without_setuptools_it_says_how_to_get_it(
    working: FakeCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which torch's builder imports, and not every version of torch installs."""
    monkeypatch.setattr(library, "find_spec", lambda name: None)
    with pytest.raises(CaptureError, match="there is no setuptools; install it with: pip install setuptools"):
        build()
    assert left_in_cache() == {"lock"}


@pytest.mark.full
def test_that_there_was_no_compiler_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CaptureError, match="no C"):
        build()
    assert left_in_cache() == {"lock"}
    compiler = one_that_works(tmp_path / "working", Path(str(torch._C.__file__)))
    monkeypatch.setenv("CXX", str(compiler.path))
    assert build().exists()


@pytest.mark.full
def test_what_the_compiler_said_is_told_and_remembered(failing: FakeCompiler) -> None:
    with pytest.raises(CaptureError, match=r"cannot be built: [\s\S]*recorder\.cpp:1:1: error: boom"):
        build()
    assert left_in_cache() == {"failure.txt", "lock"}
    calls = len(failing.calls)
    assert calls > 0
    with pytest.raises(CaptureError, match=r"could not be built: [\s\S]*error: boom[\s\S]*tries again"):
        build()
    assert len(failing.calls) == calls
    with pytest.raises(CaptureError, match="error: boom"):
        build(anew=True)
    assert len(failing.calls) > calls


def test_a_failure_that_is_no_text_is_told(builds: list[Path]) -> None:
    path = library_path()
    path.parent.mkdir(parents=True)
    path.with_name("failure.txt").write_bytes(b"error: \xff" + b"x" * (1 << 20))
    with pytest.raises(CaptureError, match="could not be built: error: \ufffdx") as raised:
        build()
    assert len(str(raised.value)) < 1 << 17


@pytest.mark.parametrize("named", ['g++ "', "  ", "/tmp"])
def test_a_compiler_that_is_none_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setenv("CXX", named)
    with pytest.raises(CaptureError, match=rf"no C\+\+ compiler \({re.escape(named)}\); install one"):
        build()


@pytest.mark.full
def test_a_failure_is_forgotten_once_it_could_be_built(
    tmp_path: Path, failing: FakeCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CaptureError, match="error: boom"):
        build()
    compiler = one_that_works(tmp_path / "working", Path(str(torch._C.__file__)))
    monkeypatch.setenv("CXX", str(compiler.path))
    path = build(anew=True)
    assert left_in_cache() == {path.name, path.with_suffix(".json").name, "lock"}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda cache, _: cache.write_text("no folder"), r"cannot be written \(Not a directory\)"),
        (lambda cache, _: cache.symlink_to(cache), r"cannot be written \(Too many levels"),
        (lambda cache, _: cache.symlink_to("gone"), r"cannot be written \(File exists\)"),
        (
            lambda cache, folder: (cache.mkdir(), folder.symlink_to("gone")),
            r"cannot be written \(File exists\)",
        ),
        (lambda cache, folder: (cache.mkdir(), folder.symlink_to(cache)), "is a link; name a folder"),
        (lambda _, folder: (folder / "lock").mkdir(parents=True), r"cannot be written \(Is a directory\)"),
    ],
    ids=[
        "a file",
        "a loop",
        "a dangling link",
        "with a dangling link",
        "with a link",
        "a lock that is a folder",
    ],
)
def test_a_cache_that_cannot_be_used_is_one_clear_error(
    builds: list[Path], cache: Path, make: Callable[[Path, Path], object], said: str
) -> None:
    make(cache, library_path().parent)
    with pytest.raises((CaptureError, OutputError), match=said) as raised:
        build()
    assert "TRACEBRAID_CACHE" in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1
    assert not builds


def test_a_full_disk_is_one_clear_error(builds: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(path: Path) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(library, "_compile", fill)
        with pytest.raises(OutputError, match=r"\(No space left on device\)\. Free some space"):
            build()
    assert build() == library_path()


def test_a_user_without_a_home_names_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of a container whose number no list of users has."""
    for name in ("TRACEBRAID_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)

    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(CaptureError, match="has no home folder; name a folder in TRACEBRAID_CACHE"):
        build()


@pytest.mark.full
def test_a_compiler_that_hangs_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that it started, and it may do better the next time."""
    compiler = FakeCompiler(tmp_path / "hanging", "sleep 1000")
    monkeypatch.setenv("CXX", str(compiler.path))
    monkeypatch.setattr(library, "_BUILD_AT_MOST_S", 4.0)
    with pytest.raises(
        CaptureError, match="the builder was stopped, as it had not ended after 4 s"
    ) as raised:
        build()
    assert len(str(raised.value).splitlines()) == 1
    assert left_in_cache() == {"lock"}
