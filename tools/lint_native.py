"""Check the C++ of the native recorder and reader: `tools/lint_native.py [--all]`.

clang-format checks the layout of all of it. clang-tidy and -Wall -Wextra check the sources that include no header of
PyTorch, which takes seconds; with `--all` the others too, and Clang's static analyzer follows the paths through each
function, which takes minutes. Both tools come from PyPI.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
NATIVE = ROOT / "src" / "tracebraid" / "recorders" / "native"
READER = ROOT / "src" / "tracebraid" / "native"
PROGRAMS = ROOT / "tests" / "integration" / "scripts"
WARNINGS = ["-std=c++20", "-Wall", "-Wextra", "-DTRACEBRAID_NATIVE_DEBUG", "-DNDEBUG"]
PROCESSES = 2


def main(arguments: Sequence[str]) -> int:
    """Exit code 1 where a check failed."""
    sources = [source for folder in (NATIVE, READER) for source in sorted(folder.glob("*.cpp"))]
    headers = [header for folder in (NATIVE, READER) for header in sorted(folder.glob("*.h"))]
    formatted = [*sources, *headers, *sorted(PROGRAMS.glob("*.cpp"))]
    codes = [_run([_tool("clang-format"), "--dry-run", "--Werror", *map(str, formatted)])]
    everything = "--all" in arguments
    chosen = [source for source in sources if everything or not needs_torch(source)]
    flags = [*WARNINGS, *(_torch_includes() if everything else [])]
    checks = [] if everything else ["--checks=-clang-analyzer-*"]
    if shutil.which("c++") is None:
        print("clang-tidy is skipped: the C++ library's headers come with a compiler, and there is none")
        return max(codes)
    commands = [[_tool("clang-tidy"), "--quiet", *checks, str(source), "--", *flags] for source in chosen]
    with ThreadPoolExecutor(PROCESSES) as pool:
        codes += pool.map(_run, commands)
    return max(codes)


def needs_torch(source: Path) -> bool:
    """Return whether a source includes a header of PyTorch, itself or through the headers of its folder."""
    pending, seen = [source], set[Path]()
    while pending:
        path = pending.pop()
        if path in seen:
            continue
        seen.add(path)
        for quote, name in re.findall(r'^#include ([<"])([^>"]+)', path.read_text(), re.M):
            if name.startswith(("ATen/", "c10/", "torch/")):
                return True
            if quote == '"':
                pending.append(path.parent / name)
    return False


def _torch_includes() -> list[str]:
    from torch.utils.cpp_extension import include_paths

    return [f"-isystem{path}" for path in include_paths()]


def _tool(name: str) -> str:
    return str(Path(sysconfig.get_path("scripts")) / name)


def _run(command: list[str]) -> int:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout + done.stderr)
    return min(done.returncode, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
