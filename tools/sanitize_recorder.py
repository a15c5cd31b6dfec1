"""Run the stress test of the native recorder under a sanitizer: `tools/sanitize_recorder.py [SECONDS] [address]`.

It is ThreadSanitizer, or AddressSanitizer if asked for. Needs g++ with its libraries. The recorder alone is
instrumented, not torch: races among its own accesses are found, and its own misuse of memory.
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

from tracebraid.recorders.native import library
from tracebraid.recorders.native.build import FLAGS, SOURCES

STRESS = Path(__file__).parents[1] / "tests" / "integration" / "scripts" / "native_stress.py"


RUNTIMES = {"thread": "libtsan.so", "address": "libasan.so"}
OPTIONS = {
    # Python and torch are not instrumented: what they do to each other is not reported.
    "TSAN_OPTIONS": "ignore_noninstrumented_modules=1 report_signal_unsafe=0",
    "ASAN_OPTIONS": "detect_leaks=0",
}


def build(path: Path, kind: str) -> None:
    """Compile the recorder, instrumented."""
    path.parent.mkdir(parents=True, exist_ok=True)
    places = [f"-I{one}" for one in include_paths()] + [f"-L{one}" for one in library_paths()]
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    sources = map(str, sorted(SOURCES.glob("*.cpp")))
    more = ["-O1", "-g", f"-fsanitize={kind}", "-fPIC", "-shared", abi, "-o", str(path)]
    subprocess.run(["g++", *FLAGS, *more, *sources, *places, "-lc10", "-ltorch_cpu"], check=True)


def main(seconds: str = "60", kind: str = "thread") -> int:
    """The stress test's exit code, another one where something was found, which is printed."""
    if shutil.which("g++") is None:
        raise SystemExit("there is no g++")
    runtime = subprocess.run(
        ["g++", f"-print-file-name={RUNTIMES[kind]}"], capture_output=True, text=True, check=True
    )
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRACEBRAID_CACHE"] = folder
        build(library.library_path(), kind)
        env = {**os.environ, **OPTIONS, "LD_PRELOAD": runtime.stdout.strip()}
        # A fork of a process with threads ends ThreadSanitizer, and may find AddressSanitizer's own locks taken.
        command = [sys.executable, str(STRESS), seconds, folder, "no-fork"]
        return subprocess.run(command, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
