"""Where the native recorder's library lies, and who builds it, once. No compiler runs here."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

import tracebraid
from tests.fake_compiler import LINKS, FakeCompiler
from tests.waiting import CountedClock, let_others_run
from tools.lint_native import needs_torch
from tracebraid.errors import CaptureError

torch = pytest.importorskip("torch")

from tracebraid.native.trust import as_built, note_built  # noqa: E402
from tracebraid.recorders.native import library  # noqa: E402
from tracebraid.recorders.native.build import SOURCES  # noqa: E402
from tracebraid.recorders.native.library import build, library_path  # noqa: E402

pytestmark = pytest.mark.torch


def links(compiler: FakeCompiler) -> int:
    return sum(LINKS in call for call in compiler.calls)


def left_in_cache() -> set[str]:
    return {path.name for path in library_path().parent.iterdir()}


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


@pytest.mark.full
@pytest.mark.parametrize(("value", "asserts"), [("1", True), ("0", False), ("", False)])
def test_a_debug_build_asserts_bounds(
    working: FakeCompiler, monkeypatch: pytest.MonkeyPatch, value: str, asserts: bool
) -> None:
    monkeypatch.setenv("TRACEBRAID_NATIVE_DEBUG", value)
    build()
    compiled = [call.split() for call in working.calls if LINKS not in call]
    assert compiled
    assert all(("-DTRACEBRAID_NATIVE_DEBUG" in call) is asserts for call in compiled)


# --- who builds it ----------------------------------------------------------------------------------


@pytest.mark.full
def test_it_is_built_once_and_again_when_that_is_asked_for(working: FakeCompiler) -> None:
    path = build()
    assert path == library_path()
    assert left_in_cache() == {path.name, path.with_suffix(".json").name, "lock"}
    assert build() == path
    assert links(working) == 1
    assert build(anew=True) == path
    assert links(working) == 2


@pytest.mark.full
def test_ten_processes_that_ask_at_the_same_time_build_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = tmp_path / "built"

    def compiled(path: Path) -> str:
        let_others_run()
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


@pytest.mark.full
def test_what_is_there_needs_no_compiler(working: FakeCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    build()
    monkeypatch.setenv("CXX", "/nonexistent/c++")
    assert build() == library_path()


def test_a_lock_that_stays_is_waited_for_aloud_and_not_forever(
    builds: list[Path], counted_clock: CountedClock, caplog: pytest.LogCaptureFixture
) -> None:
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


@pytest.mark.full
def test_what_a_killed_builder_left_goes_with_the_next_build(working: FakeCompiler) -> None:
    left_behind = library_path().parent / "building-killed"
    left_behind.mkdir(parents=True)
    (left_behind / "recorder.o").touch()
    build()
    assert not left_behind.exists()


# --- The recorder's hash table, of which entries are taken out all the time --------------------------


SOURCE_FOLDER = Path(tracebraid.__file__).parent / "recorders" / "native"
PROGRAM = Path(__file__).parents[3] / "integration" / "scripts" / "address_map.cpp"


@pytest.mark.full
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_it_holds_what_the_standard_one_holds(tmp_path: Path) -> None:
    flags = [
        "-std=c++20",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{SOURCE_FOLDER}",
        "-o",
        str(tmp_path / "program"),
    ]
    subprocess.run(["g++", *flags, str(PROGRAM)], check=True)
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


# --- Which sources `make lint` gives to clang-tidy: those without PyTorch's headers, so that it ------


def test_sources_without_headers_of_torch_are_found_through_their_own_headers() -> None:
    chosen = {source.name for source in SOURCE_FOLDER.glob("*.cpp") if not needs_torch(source)}
    assert {"chunk_handover.cpp", "epochs.cpp", "spill_file.cpp", "json.cpp", "columns.cpp"} <= chosen
    # recorder.cpp includes them itself, nodes.cpp by recorder.h.
    assert not {"recorder.cpp", "nodes.cpp", "identity.cpp"} & chosen


def test_one_that_crashes_when_it_is_tried_is_not_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def crashes(*words: object, **_: object) -> subprocess.CompletedProcess[str]:
        tried.append(str(words[0]))
        return subprocess.CompletedProcess([], -signal.SIGSEGV, "")

    monkeypatch.setattr(library, "_missing_tool", lambda: "")
    monkeypatch.setattr(library, "run_child", crashes)
    for says in ("cannot be built", "could not be built"):
        with pytest.raises(
            CaptureError, match=rf"{says}: error: built by this compiler it crashes PyTorch \(SIGSEGV"
        ):
            build()
    assert len(tried) == 1
