"""`tracebraid build-recorder`, and captures where the native recorder cannot be built."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.fake_compiler import one_that_fails, one_that_works
from tests.integration.captured import TRAIN, assert_sound, capture_command, files_of, manifest_of
from tests.integration.command import fail, run_process

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


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
