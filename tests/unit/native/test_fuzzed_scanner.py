"""The scanners read nothing outside of their input, whatever that is: mutants, under AddressSanitizer and UBSan."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import tracebraid
from tests.builders import et_text, flattened
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
    ("traceEvents", "ph", CAPTURES / "gpu" / "small_layers_eager" / "kineto_trace_0.json.gz"),
    ("traceEvents", "ph", CAPTURES / "fsdp2" / "kineto_trace_0.json.gz"),
    ("nodes", "id", CAPTURES / "fsdp2" / "torch_et_0.json.gz"),
    ("nodes", "name", CAPTURES / "fsdp2" / "torch_et_0.json.gz"),
]
"""An array, the first key of its objects, and a trace; nodes that begin with a name are put in the form of 1.0.1."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("fuzz") / "fuzz_scan"
    flags = ["-std=c++17", "-O1", "-g1", "-Wall", "-Wextra", "-Werror", "-D_GLIBCXX_SANITIZE_VECTOR=1"]
    sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    command = ["g++", *flags, *sanitizers, "-o", str(built), str(PROGRAM)]
    command += [str(SOURCES / source) for source in ("scan.cpp", "kineto_scan.cpp", "node_scan.cpp")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "cannot find" in done.stderr:
        pytest.skip("g++ has no sanitizers")
    assert done.returncode == 0, done.stderr
    return built


@pytest.mark.parametrize(
    ("array", "key", "trace"), TRACES, ids=["-".join(t[2].parts[-2:]) + f"-{t[1]}" for t in TRACES]
)
def test_mutants_are_read_within_bounds(
    tmp_path: Path, program: Path, array: str, key: str, trace: Path
) -> None:
    text, declared = tmp_path / "trace.json", tmp_path / "declaration"
    content = gzip.decompress(trace.read_bytes())
    if key == "name":
        content = et_text([flattened(node) for node in json.loads(content)["nodes"]], "1.0.1").encode()
    text.write_bytes(content)
    declared.write_bytes(declaration())
    command = [str(program), array, key, str(declared), str(text), "1", str(MUTANTS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found = re.match(rf"(\d+) of {MUTANTS} mutants were taken", done.stdout)
    assert found is not None
    assert MUTANTS // 10 < int(found[1]) < MUTANTS
