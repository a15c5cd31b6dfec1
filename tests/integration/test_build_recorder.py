"""`tracebraid build-recorder`, and captures where the native recorder cannot be built."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.fake_compiler import one_that_fails, one_that_works
from tests.integration.captured import TRAIN, assert_sound, capture_command, files_of, manifest_of
from tests.integration.command import fail, run_process

torch = pytest.importorskip("torch")

from tracebraid.recorders.native import library  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def built() -> Path:
    """The native recorder, of the suite's cache."""
    return library.build()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, and no compiler."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TRACEBRAID_CACHE", str(folder))
    monkeypatch.setenv("CXX", "/nonexistent/c++")
    return folder


@pytest.mark.full
def test_without_a_compiler_it_is_one_clear_error() -> None:
    said = fail("build-recorder", by=run_process)
    assert said.count("error: ") == 1
    assert "there is no C++ compiler (/nonexistent/c++); install one, such as g++" in said.replace("\n", " ")


@pytest.mark.full
def test_what_the_compiler_says_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", str(one_that_fails(tmp_path / "bin").path))
    done = run_process("build-recorder")
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: the native recorder cannot be built" in done.stderr
    assert "error: boom" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_says_where_the_library_is(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = one_that_works(tmp_path / "bin", Path(str(torch._C.__file__)))
    monkeypatch.setenv("CXX", str(compiler.path))
    done = run_process("build-recorder")
    assert done.returncode == 0, done.stderr
    path, _, took = done.stdout.partition("  (")
    assert Path(path).parent.parent == cache
    assert Path(path).exists()
    assert took.endswith(" s)\n")


def ready(folder: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a package `tracebraid-recorder` that has one library on the path of modules."""
    package = folder / "tracebraid_recorder"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    name = library.ready_name()
    assert name is not None
    (package / name).write_bytes(content)
    monkeypatch.setenv("PYTHONPATH", str(folder))


@pytest.mark.compiler
def test_a_recorder_that_is_ready_needs_no_compiler(
    tmp_path: Path, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(tmp_path / "packages", built.read_bytes(), monkeypatch)
    done = run_process("build-recorder")
    assert done.returncode == 0, done.stderr
    path, _, took = done.stdout.partition("  (")
    assert Path(path).read_bytes() == built.read_bytes()
    assert took.startswith("ready in tracebraid-recorder, ")
    folder = tmp_path / "traces"
    captured = capture_command(folder, sys.executable, TRAIN, "12", options=("--recorder", "native"))
    assert (captured.returncode, captured.stdout) == (0, "done\n"), captured.stderr
    assert_sound(folder)
    assert manifest_of(folder)["recorders"] == ["native", "kineto"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"of another kind", "invalid ELF header|file too short"),
        (Path(str(torch._C.__file__)).read_bytes(), "AttributeError: .*undefined symbol"),
    ],
    ids=["no library", "another library"],
)
def test_one_that_is_ready_and_does_not_fit_is_compiled_instead(
    content: bytes, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(tmp_path / "packages", content, monkeypatch)
    done = run_process("build-recorder")
    assert done.returncode == 1
    assert re.search(f"it does not fit and is compiled instead: .*({why})", done.stderr), done.stderr
    assert "there is no C++ compiler (/nonexistent/c++)" in done.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("2.13.0", "2.13"),
        ("2.13.1+cpu", "2.13"),
        ("2.9.1+cu128", "2.9"),
        ("2.10.0+rocm6.4", "2.10"),
        ("2.13.0a0+git1234567", None),
        ("2.14.0.dev20260801", None),
        ("2.8.0a0+34c6371d24.nv25.8", None),
        ("2.13.0+cu130.mine", None),
    ],
)
def test_a_recorder_is_ready_for_releases_alone(
    version: str, release: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    name = library.ready_name()
    assert (name and name.partition("-")[0]) == release


@pytest.mark.full
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_a_compiler_with_a_cpp_runtime_of_its_own_builds_one_that_records_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where libstdc++ is linked statically, a stream of the recorder's is none that torch can write to."""
    compiler = tmp_path / "c++"
    compiler.write_text('#!/bin/sh\nexec g++ -static-libstdc++ "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    done = run_process("build-recorder")
    assert done.returncode == 0, done.stderr
    library = Path(done.stdout.partition("  (")[0])
    assert b"libstdc++.so" not in library.read_bytes()
    folder = tmp_path / "traces"
    captured = capture_command(folder, sys.executable, TRAIN, "12", options=("--recorder", "native"))
    assert (captured.returncode, captured.stdout) == (0, "done\n"), captured.stderr
    nodes = json.loads(gzip.decompress((folder / "torch_et_0.json.gz").read_bytes()))["nodes"]
    schemas = {attr["value"] for node in nodes for attr in node["attrs"] if attr["name"] == "op_schema"} - {
        ""
    }
    known = {str(schema) for schema in torch._C._jit_get_all_schemas()}
    assert (
        "aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"
        in schemas
    )
    assert schemas <= known


@pytest.mark.full
def test_a_capture_without_a_compiler_goes_on_with_pytorchs_recorder(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    done = capture_command(folder, sys.executable, TRAIN, "12")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert done.stderr.count("using PyTorch's recorder instead of the native one") == 1
    assert "there is no C++ compiler (/nonexistent/c++)" in done.stderr
    assert_sound(folder)
    assert manifest_of(folder)["recorders"] == ["torch", "kineto"]


@pytest.mark.full
def test_a_capture_that_must_be_native_is_none_without_a_compiler_and_the_command_runs(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "traces"
    done = capture_command(folder, sys.executable, TRAIN, "12", options=("--recorder", "native"))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert "there is no C++ compiler (/nonexistent/c++)" in done.stderr
    assert files_of(folder) == []
