"""Run the native recorder under a sanitizer: `tools/sanitize_recorder.py [SECONDS] [thread|address]`.

It is ThreadSanitizer, or AddressSanitizer if asked for, over two programs: the stress test in Python, and
`identity_race.cpp`, which provokes the only read of another thread's data without a lock (`identity.cpp`). Needs g++
with its libraries. The recorder is instrumented, in a debug build, and torch is not: races among the recorder's own
accesses are found, and its own misuse of memory.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch.utils.cpp_extension import include_paths, library_paths

from tracebraid.native.trust import note_built
from tracebraid.recorders.native import library
from tracebraid.recorders.native.build import DEBUG_FLAGS, FLAGS, SOURCES, all_sources

SCRIPTS = Path(__file__).parents[1] / "tests" / "integration" / "scripts"


RUNTIMES = {"thread": "libtsan.so", "address": "libasan.so"}
REPORTED = ["-g1", "-Wall", "-Wextra"]
"""A report names lines: no more is kept for a debugger."""
OPTIONS = {
    # Python and torch are not instrumented: their accesses are not reported.
    "TSAN_OPTIONS": "ignore_noninstrumented_modules=1 report_signal_unsafe=0",
    "ASAN_OPTIONS": "detect_leaks=0",
}


def main(seconds: str = "60", kind: str = "thread") -> int:
    """0 where nothing was found and both programs succeeded; what was found is printed."""
    if problem := why_not(kind):
        raise SystemExit(problem)
    with tempfile.TemporaryDirectory() as folder:
        return _race(Path(folder), seconds, kind) or _stress(folder, seconds, kind)


def why_not(kind: str) -> str:
    """The reason why nothing can run under a sanitizer here, or ""."""
    if shutil.which("g++") is None:
        return "there is no g++"
    # The compiler gives the bare name back where it has no such library.
    return "" if Path(_runtime(kind)).is_absolute() else f"g++ has no {RUNTIMES[kind]}"


def _runtime(kind: str) -> str:
    asked = ["g++", f"-print-file-name={RUNTIMES[kind]}"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def _race(folder: Path, seconds: str, kind: str) -> int:
    program = folder / "identity_race"
    race = f'#include "{SCRIPTS / "identity_race.cpp"}"\n#include "identity.cpp"\n'
    _compile(program, kind, race)
    # ThreadSanitizer of older compilers ends where the kernel lays out addresses at random over many bits.
    fixed = ["setarch", "-R"] if shutil.which("setarch") else []
    return subprocess.run([*fixed, program, seconds], env={**os.environ, **OPTIONS}, check=False).returncode


def _stress(folder: str, seconds: str, kind: str) -> int:
    os.environ["TRACEBRAID_CACHE"] = folder
    path = library.library_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    _compile(path, kind, all_sources(), "-fPIC", "-shared")
    # Without this note the library is not trusted, and another one is built in its place, without a sanitizer.
    note_built(path)
    env = {**os.environ, **OPTIONS, "LD_PRELOAD": _runtime(kind)}
    # A fork of a process with threads ends ThreadSanitizer, and may find AddressSanitizer's own locks taken.
    command = [sys.executable, str(SCRIPTS / "native_stress.py"), seconds, folder, "no-fork"]
    return subprocess.run(command, env=env, check=False).returncode


def _compile(target: Path, kind: str, unit: str, *flags: str) -> None:
    search = [f"-I{SOURCES}", *(f"-isystem{path}" for path in include_paths())]
    libraries = [option for path in library_paths() for option in (f"-L{path}", f"-Wl,-rpath,{path}")]
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    options = [*FLAGS, *DEBUG_FLAGS, *REPORTED, f"-fsanitize={kind}", abi, *flags, "-o", str(target)]
    command = ["g++", *options, *search, "-x", "c++", "-", *libraries, "-lc10", "-ltorch_cpu"]
    subprocess.run(command, input=unit, text=True, check=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
