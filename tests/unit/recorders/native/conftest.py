"""A cache of the test's own for the native recorder's library, with compilers that work, fail, or are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fake_compiler import FakeCompiler, one_that_fails, one_that_works


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, and no compiler."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TRACEBRAID_CACHE", str(folder))
    monkeypatch.setenv("CXX", "/nonexistent/c++")
    return folder


@pytest.fixture
def working(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCompiler:
    """The compiler is one whose library loads."""
    torch = pytest.importorskip("torch")
    compiler = one_that_works(tmp_path / "working", Path(str(torch._C.__file__)))
    monkeypatch.setenv("CXX", str(compiler.path))
    return compiler


@pytest.fixture
def failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCompiler:
    """The compiler is one that ends with an error."""
    compiler = one_that_fails(tmp_path / "failing")
    monkeypatch.setenv("CXX", str(compiler.path))
    return compiler


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Each time that it was built; nothing is compiled."""
    pytest.importorskip("torch")
    from tracebraid.native.trust import note_built
    from tracebraid.recorders.native import library

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
