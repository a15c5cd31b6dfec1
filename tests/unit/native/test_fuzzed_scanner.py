"""The scanner reads nothing outside of its input, whatever that is: mutants, under AddressSanitizer and UBSan."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import tracebraid
from tests.conftest import ROOT
from tracebraid.importers.kineto.scan import declaration

pytestmark = [
    pytest.mark.full,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
]

MUTANTS = 10_000
SOURCES = Path(tracebraid.__file__).parent / "native"
PROGRAM = ROOT / "tests" / "integration" / "scripts" / "fuzz_scan.cpp"
CAPTURES = ROOT / "tests" / "captures"
TRACES = [
    CAPTURES / "gpu" / "small_layers_eager" / "kineto_trace_0.json.gz",
    CAPTURES / "fsdp2" / "kineto_trace_0.json.gz",
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("fuzz") / "fuzz_scan"
    flags = ["-std=c++17", "-O1", "-g1", "-Wall", "-Wextra", "-Werror", "-D_GLIBCXX_SANITIZE_VECTOR=1"]
    sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    command = ["g++", *flags, *sanitizers, f"-I{SOURCES}", "-o", str(built), str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "cannot find" in done.stderr:
        pytest.skip("g++ has no sanitizers")
    assert done.returncode == 0, done.stderr
    return built


@pytest.mark.parametrize("trace", TRACES, ids=lambda path: path.parts[-2])
def test_mutants_are_read_within_bounds(tmp_path: Path, program: Path, trace: Path) -> None:
    text, declared = tmp_path / "trace.json", tmp_path / "declaration"
    text.write_bytes(gzip.decompress(trace.read_bytes()))
    declared.write_bytes(declaration())
    done = subprocess.run(
        [program, declared, text, "1", str(MUTANTS)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = re.match(rf"(\d+) of {MUTANTS} mutants were taken", done.stdout)
    assert found is not None
    assert MUTANTS // 10 < int(found[1]) < MUTANTS
