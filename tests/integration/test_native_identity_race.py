"""Ids of storages are right while other threads change the storages that lay at the same addresses."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch.utils.cpp_extension import include_paths, library_paths  # noqa: E402

from tracebraid.recorders.native.build import FLAGS, SOURCES  # noqa: E402

PROGRAM = Path(__file__).parent / "scripts" / "identity_race.cpp"
SECONDS = "2"


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_no_id_is_used_again_and_aliases_share_theirs(tmp_path: Path) -> None:
    program = tmp_path / "identity_race"
    search = [f"-I{SOURCES}", *(f"-isystem{path}" for path in include_paths())]
    libraries = [option for path in library_paths() for option in (f"-L{path}", f"-Wl,-rpath,{path}")]
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    # Without optimisation it compiles faster; the macro turns on the recorder's assertions.
    flags = [*FLAGS, "-O0", "-DTRACEBRAID_NATIVE_DEBUG", "-Wall", "-Wextra", "-Werror", abi]
    sources = [str(PROGRAM), str(SOURCES / "identity.cpp")]
    command = ["g++", *flags, *search, *sources, *libraries, "-lc10", "-ltorch_cpu", "-o", str(program)]
    subprocess.run(command, check=True)
    done = subprocess.run([program, SECONDS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
