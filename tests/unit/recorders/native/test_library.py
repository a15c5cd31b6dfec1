"""The native recorder's library is built once into a cache; what cannot be built says why. No compiler runs here."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fake_compiler import LINKS, FakeCompiler, one_that_fails, one_that_works
from tracebraid.errors import CaptureError, OutputError

torch = pytest.importorskip("torch")

from tracebraid.recorders.native import library  # noqa: E402
from tracebraid.recorders.native.build import SOURCES  # noqa: E402
from tracebraid.recorders.native.library import build, library_path  # noqa: E402
from tracebraid.recorders.native.trust import as_built, note_built  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, and no compiler."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TRACEBRAID_CACHE", str(folder))
    monkeypatch.setenv("CXX", "/nonexistent/c++")
    return folder


@pytest.fixture
def working(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCompiler:
    compiler = one_that_works(tmp_path / "working", Path(str(torch._C.__file__)))
    monkeypatch.setenv("CXX", str(compiler.path))
    return compiler


@pytest.fixture
def failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCompiler:
    compiler = one_that_fails(tmp_path / "failing")
    monkeypatch.setenv("CXX", str(compiler.path))
    return compiler


def left() -> set[str]:
    return {path.name for path in library_path().parent.iterdir()}


def links(compiler: FakeCompiler) -> int:
    return sum(LINKS in call for call in compiler.calls)


# --- where it lies ----------------------------------------------------------------------------------


def test_the_cache_is_where_the_environment_says(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder, name = library_path().parent.name, library_path().name
    assert library_path() == cache / folder / name
    for empty in (False, True):
        monkeypatch.setenv("TRACEBRAID_CACHE", "") if empty else monkeypatch.delenv("TRACEBRAID_CACHE")
        assert library_path() == tmp_path / "xdg" / "tracebraid" / folder / name
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert library_path() == tmp_path / "home" / ".cache" / "tracebraid" / folder / name


def test_another_torch_has_another_library(monkeypatch: pytest.MonkeyPatch) -> None:
    before = library_path()
    assert torch.__version__ in before.parent.name
    monkeypatch.setattr(torch, "__version__", "2.99.0+cu999")
    assert library_path() != before
    assert "2.99.0+cu999" in library_path().parent.name


def test_another_abi_or_machine_has_another_library(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = {library_path()}
    monkeypatch.setattr("platform.machine", lambda: "m68k")
    paths.add(library_path())
    monkeypatch.setattr(torch, "compiled_with_cxx11_abi", lambda: not torch._C._GLIBCXX_USE_CXX11_ABI)
    paths.add(library_path())
    assert len(paths) == 3


def test_other_sources_or_flags_have_another_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = {library_path()}
    sources = tmp_path / "native"
    shutil.copytree(SOURCES, sources)
    monkeypatch.setattr(library, "SOURCES", sources)
    assert {library_path()} == paths
    for change in (
        lambda: (sources / "recorder.h").write_text("// changed\n"),
        lambda: (sources / "recorder.h").rename(sources / "renamed.h"),
        lambda: (sources / "new.cpp").touch(),
        lambda: monkeypatch.setattr(library, "FLAGS", ["-O0"]),
        lambda: monkeypatch.setenv("TRACEBRAID_NATIVE_DEBUG", "1"),
    ):
        change()
        paths.add(library_path())
    assert len(paths) == 6


@pytest.mark.parametrize(("value", "asserts"), [("1", True), ("0", False), ("", False)])
def test_a_debug_build_asserts_bounds(
    working: FakeCompiler, monkeypatch: pytest.MonkeyPatch, value: str, asserts: bool
) -> None:
    monkeypatch.setenv("TRACEBRAID_NATIVE_DEBUG", value)
    build()
    compiled = [call.split() for call in working.calls if LINKS not in call]
    assert compiled
    assert all(("-DTRACEBRAID_NATIVE_DEBUG" in call) is asserts for call in compiled)


# --- what can be built ------------------------------------------------------------------------------


def test_it_is_built_once_and_again_when_that_is_asked_for(working: FakeCompiler) -> None:
    path = build()
    assert path == library_path()
    assert left() == {path.name, path.with_suffix(".json").name, "lock"}
    assert build() == path
    assert links(working) == 1
    assert build(anew=True) == path
    assert links(working) == 2


def test_ten_processes_that_ask_at_the_same_time_build_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = tmp_path / "built"

    def compiled(path: Path) -> str:
        time.sleep(0.2)
        path.write_bytes(b"a library of some length")
        note_built(path)
        with built.open("a") as file:
            file.write("once\n")
        return ""

    monkeypatch.setattr(library, "_compile", compiled)
    monkeypatch.setattr(library, "_missing_tool", lambda: "")
    children = []
    for _ in range(10):
        if (pid := os.fork()) == 0:
            status = 1
            try:
                with as_built(build()) as name:
                    status = 0 if name and Path(name).read_bytes() == b"a library of some length" else 2
            finally:
                os._exit(status)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 10
    assert built.read_text() == "once\n"


def test_what_is_there_needs_no_compiler(working: FakeCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    build()
    monkeypatch.setenv("CXX", "/nonexistent/c++")
    assert build() == library_path()


# --- who put it there -------------------------------------------------------------------------------


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Each time that it was built; nothing is compiled."""
    done: list[Path] = []

    def compiled(path: Path) -> str:
        path.unlink(missing_ok=True)
        path.write_bytes(b"a library of some length")
        note_built(path)
        done.append(path)
        return ""

    monkeypatch.setattr(library, "_compile", compiled)
    monkeypatch.setattr(library, "_missing_tool", lambda: "")
    return done


def plant(path: Path) -> None:
    path.write_text("planted")


@pytest.mark.parametrize(
    "change",
    [
        plant,
        lambda path: os.truncate(path, path.stat().st_size // 2),
        lambda path: path.chmod(0o777),
        lambda path: path.with_suffix(".json").write_text("{"),
        lambda path: path.with_suffix(".json").unlink(),
        lambda path: path.rename(path.with_name("x")) and path.symlink_to(path.with_name("x")),
    ],
    ids=["content", "cut", "mode", "note", "no note", "link"],
)
def test_what_another_may_have_changed_is_built_again(
    builds: list[Path], change: Callable[[Path], object]
) -> None:
    path = build()
    content = path.read_bytes()
    change(path)
    assert build() == path
    assert len(builds) == 2
    assert path.read_bytes() == content
    assert not path.is_symlink()
    assert (path.stat().st_mode | path.parent.stat().st_mode) & 0o022 == 0
    assert build() == path
    assert len(builds) == 2


def test_a_folder_that_others_may_write_is_closed(builds: list[Path]) -> None:
    """What lies in it is of this user, as nobody else can make such a file."""
    path = build()
    path.parent.chmod(0o777)
    assert build() == path
    assert path.parent.stat().st_mode & 0o022 == 0


def test_a_umask_that_lets_a_group_write_is_none_of_ours(builds: list[Path]) -> None:
    before = os.umask(0o002)
    try:
        build()
        build()
    finally:
        os.umask(before)
    assert len(builds) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
def test_what_belongs_to_another_user_is_not_loaded(builds: list[Path]) -> None:
    path = build()
    os.chown(path, 12345, -1)
    assert build() == path
    assert len(builds) == 2
    os.chown(path.parent, 12345, -1)
    with pytest.raises(CaptureError, match="belongs to another user; name a folder of your own"):
        build()


def test_a_library_without_its_symbols_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one that is whole and of something else."""
    whole = Path(shutil.copy(str(torch._C.__file__), tmp_path))
    note_built(whole)
    monkeypatch.setattr(library, "build", lambda: whole)
    with pytest.raises(CaptureError, match=r"cannot be loaded .*`tracebraid build-recorder` tries again"):
        library.load.__wrapped__()


# --- who builds it ----------------------------------------------------------------------------------


def test_a_lock_that_stays_is_waited_for_aloud_and_not_forever(
    builds: list[Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(library, "_SAY_AFTER_S", 0.05)
    monkeypatch.setattr(library, "_WAIT_AT_MOST_S", 0.3)
    folder = library_path().parent
    folder.mkdir(parents=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(CaptureError, match=r"another process holds .*lock"):
            build()
    assert [record.message for record in caplog.records] == [
        "tracebraid: waiting for another process that builds the native recorder"
    ]
    assert build() == library_path()


@pytest.mark.parametrize(
    "said", ["fatal error: Killed signal terminated program cc1plus", "error: No space left on device"]
)
def test_a_compiler_that_was_stopped_is_tried_again(
    builds: list[Path], monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(library, "_compile", lambda path: f"it ended with exit code 1: {said}")
        with pytest.raises(CaptureError, match="cannot be built"):
            build()
    assert build() == library_path()


# --- what cannot ------------------------------------------------------------------------------------


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
    assert left() == {"lock"}


def test_that_there_was_no_compiler_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CaptureError, match="no C"):
        build()
    assert left() == {"lock"}
    compiler = one_that_works(tmp_path / "working", Path(str(torch._C.__file__)))
    monkeypatch.setenv("CXX", str(compiler.path))
    assert build().exists()


def test_what_the_compiler_said_is_told_and_remembered(failing: FakeCompiler) -> None:
    with pytest.raises(CaptureError, match=r"cannot be built: [\s\S]*recorder\.cpp:1:1: error: boom"):
        build()
    assert left() == {"failure.txt", "lock"}
    calls = len(failing.calls)
    assert calls > 0
    with pytest.raises(CaptureError, match=r"could not be built: [\s\S]*error: boom[\s\S]*tries again"):
        build()
    assert len(failing.calls) == calls
    with pytest.raises(CaptureError, match="error: boom"):
        build(anew=True)
    assert len(failing.calls) > calls


def another_s(path: Path) -> None:
    path.write_text("do as I say")
    os.chown(path, 12345, -1)


@pytest.mark.parametrize(
    "planted",
    [
        os.mkfifo,
        Path.mkdir,
        Path.touch,
        lambda path: path.symlink_to(FakeCompiler(path.parent / "of", "").path),
        lambda path: (path.write_text("do as I say"), path.chmod(0o666)),
        pytest.param(
            another_s,
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others"),
        ),
    ],
    ids=["pipe", "folder", "empty", "link", "writable", "another's"],
)
def test_a_failure_that_another_may_have_written_is_none(
    builds: list[Path], planted: Callable[[Path], object]
) -> None:
    path = library_path()
    path.parent.mkdir(parents=True)
    planted(path.with_name("failure.txt"))
    assert build() == path
    assert len(builds) == 1


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


def test_a_failure_is_forgotten_once_it_could_be_built(
    tmp_path: Path, failing: FakeCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CaptureError, match="error: boom"):
        build()
    compiler = one_that_works(tmp_path / "working", Path(str(torch._C.__file__)))
    monkeypatch.setenv("CXX", str(compiler.path))
    path = build(anew=True)
    assert left() == {path.name, path.with_suffix(".json").name, "lock"}


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


def test_nothing_is_loaded_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be a folder of traces that somebody sent, whose files belong to who unpacked it."""
    monkeypatch.delenv("TRACEBRAID_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert library_path().parent.parent == tmp_path / ".cache" / "tracebraid"
    monkeypatch.setenv("HOME", "relative")
    with pytest.raises(CaptureError, match="has no home folder; name a folder in TRACEBRAID_CACHE"):
        build()


def test_a_user_without_a_home_names_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of a container whose number no list of users has."""
    for name in ("TRACEBRAID_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)

    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(CaptureError, match="has no home folder; name a folder in TRACEBRAID_CACHE"):
        build()


def test_what_is_loaded_is_what_was_checked(builds: list[Path]) -> None:
    """Whoever may rename the folders above puts another in their place between the check and the load."""
    path = build()
    with as_built(path) as name:
        assert name is not None
        path.parent.rename(path.parent.with_name("away"))
        path.parent.mkdir()
        path.write_text("planted")
        assert Path(name).read_bytes() == b"a library of some length"
    with as_built(path) as name:
        assert name is None


@pytest.mark.parametrize("planted", ["pipe", "folder"])
def test_a_note_that_is_no_file_is_not_waited_for(builds: list[Path], planted: str) -> None:
    path = build()
    note = path.with_suffix(".json")
    note.unlink()
    os.mkfifo(note, 0o600) if planted == "pipe" else note.mkdir()
    with as_built(path) as name:
        assert name is None


def test_what_a_killed_builder_left_goes_with_the_next_build(working: FakeCompiler) -> None:
    left_behind = library_path().parent / "building-killed"
    left_behind.mkdir(parents=True)
    (left_behind / "recorder.o").touch()
    build()
    assert not left_behind.exists()


def test_a_compiler_that_hangs_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that it started, and it may do better the next time."""
    compiler = FakeCompiler(tmp_path / "hanging", "sleep 1000")
    monkeypatch.setenv("CXX", str(compiler.path))
    monkeypatch.setattr(library, "_BUILD_AT_MOST_S", 4.0)
    with pytest.raises(
        CaptureError, match="the compiler was stopped, as it had not ended after 4 s"
    ) as raised:
        build()
    assert len(str(raised.value).splitlines()) == 1
    assert left() == {"lock"}
